//! The event bus, as two or more sessions see it.

use crate::black_box::harness::{Database, at_once, column, rows, start, value};
use postgres::Client;
use std::collections::HashSet;

const QUEUE: &str = "order.placed__mail";

/// A database with one consumer of a topic.
fn subscribed() -> Database {
    let database = Database::new();
    rows(&mut database.connect_as("operator"), "select * from public.event_bus_subscribe('order.placed', 'mail')");
    database
}

fn send(session: &mut Client, events: u32) {
    for n in 0..events {
        let sql = format!(
            "select queues from public.event_bus_send('order.placed', '{{\"payload\": {{\"dedupeKey\": \"{n}\"}}}}')"
        );
        assert_eq!(column(session, &sql), ["1"]);
    }
}

fn read(vt: u32, quantity: u32) -> String {
    format!("select msg_id, read_ct from public.event_bus_read('{QUEUE}', '{vt}', '{quantity}')")
}

fn archive(id: &str, read_ct: &str) -> String {
    format!("select msg_id from public.event_bus_archive('{QUEUE}', '{id}', {read_ct})")
}

fn bury(id: &str, read_ct: &str) -> String {
    format!("select msg_id from public.event_bus_bury('{QUEUE}', '{id}', 'poison', {read_ct})")
}

/// How many messages wait, are archived, and are buried.
fn places(database: &Database) -> String {
    let counts = format!(
        "select (select count(*) from pgmq.\"q_{QUEUE}\") || ' ' || (select count(*) from pgmq.\"a_{QUEUE}\") || ' ' ||
                (select count(*) from pgmq.\"q_{QUEUE}__dead\")"
    );
    value(&mut database.connect(), &counts)
}

#[test]
fn sixteen_sessions_subscribe_one_consumer_at_once_without_an_error() {
    for _ in 0..5 {
        let database = Database::new();
        let answers = at_once(&database, 16, "operator", |_, session| {
            rows(session, "select queue, dead_letter_queue from public.event_bus_subscribe('order.placed', 'mail')")
        });
        assert!(answers.iter().all(|rows| *rows == [[QUEUE, "order.placed__mail__dead"]]), "{answers:?}");
        let mut observer = database.connect();
        assert_eq!(
            column(&mut observer, "select queue_name from pgmq.meta order by 1"),
            [QUEUE, "order.placed__mail__dead"]
        );
        assert_eq!(
            rows(&mut observer, "select pattern, queue_name from pgmq.topic_bindings"),
            [["order.placed", QUEUE]]
        );
        send(&mut database.connect_as("app_be"), 1);
    }
}

#[test]
fn a_subscription_waits_for_an_open_one_and_then_finds_or_makes_the_queue() {
    let subscribe = "select queue from public.event_bus_subscribe('order.placed', 'mail')";
    for end in ["commit", "rollback"] {
        let database = Database::new();
        let mut first = database.connect_as("operator");
        first.batch_execute("begin").unwrap();
        assert_eq!(column(&mut first, subscribe), [QUEUE]);
        let second = start(database.connect_as("operator"), subscribe).wait_until_blocked(&mut database.connect());
        first.batch_execute(end).unwrap();
        assert_eq!(second.rows(), [[QUEUE]]);
        send(&mut database.connect_as("app_be"), 1);
    }
}

#[test]
fn two_readers_in_transactions_get_disjoint_messages() {
    let database = subscribed();
    let (mut one, mut other) = (database.connect_as("app_be"), database.connect_as("app_be"));
    send(&mut one, 6);
    one.batch_execute("begin").unwrap();
    other.batch_execute("begin; set local lock_timeout = '1ms'").unwrap();
    assert_eq!(column(&mut one, &read(30, 2)), ["1", "2"]);
    assert_eq!(column(&mut other, &read(30, 1)), ["3"]);
    assert_eq!(column(&mut one, &read(30, 1)), ["4"]);
    assert_eq!(column(&mut other, &read(30, 10)), ["5", "6"]);
}

#[test]
fn eight_readers_get_each_message_once() {
    let database = subscribed();
    let send = "select public.event_bus_send('order.placed', '{\"payload\": {\"dedupeKey\": \"k\"}}')
                  from generate_series(1, 1000)";
    rows(&mut database.connect_as("app_be"), send);
    let read_by = at_once(&database, 8, "app_be", |i, session| {
        let mut all = Vec::new();
        loop {
            let got = column(session, &read(600, if i % 2 == 0 { 1 } else { 13 }));
            // The others may hold the rest for a moment; what they hold, they keep.
            if got.is_empty() {
                return all;
            }
            all.extend(got);
        }
    });
    let read_by: Vec<String> = read_by.into_iter().flatten().collect();
    assert_eq!(read_by.len(), 1000);
    assert_eq!(read_by.iter().collect::<HashSet<_>>().len(), 1000);
}

#[test]
fn a_reader_that_rolls_back_gives_its_messages_back_uncounted() {
    let database = subscribed();
    let (mut one, mut other) = (database.connect_as("app_be"), database.connect_as("app_be"));
    send(&mut one, 1);
    one.batch_execute("begin").unwrap();
    assert_eq!(rows(&mut one, &read(30, 1)), [["1", "1"]]);
    assert_eq!(rows(&mut other, &read(30, 1)), [[""; 0]; 0]);
    one.batch_execute("rollback").unwrap();
    assert_eq!(rows(&mut other, &read(30, 1)), [["1", "1"]]);
}

#[test]
fn a_stale_reader_can_neither_archive_nor_bury() {
    let database = subscribed();
    let (mut stale, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
    send(&mut stale, 1);
    assert_eq!(rows(&mut stale, &read(0, 1)), [["1", "1"]]);
    assert_eq!(rows(&mut new, &read(30, 1)), [["1", "2"]]);
    assert_eq!(column(&mut stale, &archive("1", "'1'")), [""; 0]);
    assert_eq!(column(&mut stale, &bury("1", "'1'")), [""; 0]);
    assert_eq!(places(&database), "1 0 0");
    assert_eq!(column(&mut new, &archive("1", "'2'")), ["1"]);
    assert_eq!(places(&database), "0 1 0");
}

#[test]
fn a_stale_reader_that_waits_for_a_later_delivery_changes_nothing() {
    for end in [archive, bury] {
        for (commit, ended) in [("commit", 0), ("rollback", 1)] {
            let database = subscribed();
            let (mut stale, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
            send(&mut stale, 1);
            assert_eq!(rows(&mut stale, &read(0, 1)), [["1", "1"]]);
            new.batch_execute("begin").unwrap();
            assert_eq!(rows(&mut new, &read(30, 1)), [["1", "2"]]);
            let waiting = start(stale, &end("1", "'1'")).wait_until_blocked(&mut database.connect());
            new.batch_execute(commit).unwrap();
            assert_eq!(waiting.rows().len(), ended, "{commit}");
            assert_eq!(places(&database).starts_with('0'), ended == 1);
        }
    }
}

#[test]
fn eight_requeues_of_one_dead_letter_make_one_message() {
    let database = subscribed();
    let mut session = database.connect_as("app_be");
    for round in 1..=20 {
        send(&mut session, 1);
        let id = value(&mut session, &format!("select msg_id from public.event_bus_read('{QUEUE}', '30', '1')"));
        let dead = value(&mut session, &bury(&id, "null"));
        let answers = at_once(&database, 8, "app_be", |_, session| {
            column(session, &format!("select msg_id from public.event_bus_requeue('{QUEUE}', '{dead}')"))
        });
        let requeued: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!(requeued.len(), 1, "{requeued:?}");
        assert_eq!(places(&database), format!("1 {} 0", round - 1));
        assert_eq!(rows(&mut session, &read(30, 1)), [[&*requeued[0], "1"]]);
        assert_eq!(column(&mut session, &archive(&requeued[0], "'1'")).len(), 1);
    }
}

#[test]
fn eight_burials_of_one_message_make_one_dead_letter() {
    let database = subscribed();
    let mut session = database.connect_as("app_be");
    for round in 1..=20 {
        send(&mut session, 1);
        let id = value(&mut session, &format!("select msg_id from public.event_bus_read('{QUEUE}', '30', '1')"));
        let answers = at_once(&database, 8, "app_be", |_, session| column(session, &bury(&id, "'1'")));
        let buried: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!(buried, [round.to_string()]);
        assert_eq!(places(&database), format!("0 0 {round}"));
    }
}

#[test]
fn of_a_burial_and_an_archiving_at_once_one_wins() {
    let database = subscribed();
    let mut session = database.connect_as("app_be");
    for round in 1..=50 {
        send(&mut session, 1);
        let id = value(&mut session, &format!("select msg_id from public.event_bus_read('{QUEUE}', '30', '1')"));
        let answers = at_once(&database, 4, "app_be", |i, session| {
            column(session, &if i % 2 == 0 { archive(&id, "'1'") } else { bury(&id, "'1'") })
        });
        assert_eq!(answers.iter().flatten().count(), 1);
        let counts: Vec<u32> = places(&database).split(' ').map(|count| count.parse().unwrap()).collect();
        assert_eq!((counts[0], counts[1] + counts[2]), (0, round));
    }
}

#[test]
fn an_archiving_or_burial_that_waits_for_an_open_one_wins_only_if_that_is_rolled_back() {
    for (first_act, second_act) in
        [(archive as fn(&str, &str) -> String, bury as fn(&str, &str) -> String), (bury, archive)]
    {
        for (end, won) in [("commit", 0), ("rollback", 1)] {
            let database = subscribed();
            let mut first = database.connect_as("app_be");
            send(&mut first, 1);
            rows(&mut first, &read(30, 1));
            first.batch_execute("begin").unwrap();
            assert_eq!(column(&mut first, &first_act("1", "'1'")).len(), 1);
            let second = start(database.connect_as("app_be"), &second_act("1", "'1'"))
                .wait_until_blocked(&mut database.connect());
            first.batch_execute(end).unwrap();
            assert_eq!(second.rows().len(), won, "{end}");
        }
    }
}

#[test]
fn rolled_back_publishing_sends_nothing_and_open_publishing_not_yet() {
    let database = subscribed();
    let (mut publisher, mut reader) = (database.connect_as("app_be"), database.connect_as("app_be"));
    for (end, sent) in [("rollback", 0), ("commit", 1)] {
        publisher.batch_execute("begin").unwrap();
        send(&mut publisher, 1);
        assert_eq!(rows(&mut reader, &read(30, 1)), [[""; 0]; 0]);
        publisher.batch_execute(end).unwrap();
        assert_eq!(rows(&mut reader, &read(30, 1)).len(), sent, "{end}");
    }
}

#[test]
fn publishers_do_not_wait_for_each_other() {
    let database = subscribed();
    let (mut one, mut other) = (database.connect_as("app_be"), database.connect_as("app_be"));
    one.batch_execute("begin").unwrap();
    send(&mut one, 1);
    other.batch_execute("set lock_timeout = '1ms'").unwrap();
    send(&mut other, 1);
    assert_eq!(column(&mut other, &read(30, 10)), ["2"]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Many in one call, and longer timeouts
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn calls_that_archive_the_same_messages_in_opposite_orders_never_deadlock_and_each_is_archived_once() {
    let database = subscribed();
    for round in 0..10 {
        send(&mut database.connect_as("app_be"), 100);
        let ids = column(&mut database.connect_as("app_be"), &read(600, 100));
        let answers = at_once(&database, 8, "app_be", |i, session| {
            let mut ids = ids.clone();
            if i % 2 == 1 {
                ids.reverse();
            }
            let call = format!(
                "select verdict from public.event_bus_archive_many('{QUEUE}', '{{{}}}', array_fill(1, array[100]))",
                ids.join(",")
            );
            column(session, &call)
        });
        let done = answers.iter().flatten().filter(|verdict| *verdict == "done").count();
        assert_eq!(done, 100);
        assert_eq!(places(&database), format!("0 {} 0", 100 * (round + 1)));
    }
}

#[test]
fn a_late_message_among_many_that_waits_for_a_later_delivery_is_stale_and_the_others_are_done() {
    for (end, verdict) in [("commit", "stale"), ("rollback", "done")] {
        let database = subscribed();
        let mut observer = database.connect();
        let (mut late, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
        send(&mut late, 2);
        // Visible again at once.
        assert_eq!(rows(&mut late, &read(0, 2)), [["1", "1"], ["2", "1"]]);
        new.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut new, &read(60, 1)), [["1", "2"]]);
        let call = format!("select * from public.event_bus_archive_many('{QUEUE}', '{{2,1}}', '{{1,1}}')");
        let archive = start(late, &call).wait_until_blocked(&mut observer);
        new.batch_execute(end).unwrap();
        assert_eq!(archive.rows(), [["2", "done"], ["1", verdict]]);
    }
}

#[test]
fn extending_waits_for_an_open_later_delivery_and_is_refused_unless_that_is_rolled_back() {
    for (end, extended) in [("commit", 0), ("rollback", 1)] {
        let database = subscribed();
        let mut observer = database.connect();
        let (mut late, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
        send(&mut late, 1);
        assert_eq!(rows(&mut late, &read(0, 1)), [["1", "1"]]);
        new.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut new, &read(60, 1)), [["1", "2"]]);
        let call = format!("select msg_id from public.event_bus_extend('{QUEUE}', 1, 1, 60)");
        let extend = start(late, &call).wait_until_blocked(&mut observer);
        new.batch_execute(end).unwrap();
        assert_eq!(extend.rows().len(), extended);
    }
}

#[test]
fn a_reader_passes_over_a_message_that_is_being_extended() {
    let database = subscribed();
    let (mut holder, mut reader) = (database.connect_as("app_be"), database.connect_as("app_be"));
    send(&mut holder, 2);
    assert_eq!(rows(&mut holder, &read(0, 1)), [["1", "1"]]);
    holder.batch_execute("begin").unwrap();
    let extend = format!("select msg_id from public.event_bus_extend('{QUEUE}', 1, 1, 60)");
    assert_eq!(column(&mut holder, &extend), ["1"]);
    assert_eq!(rows(&mut reader, &read(60, 10)), [["2", "1"]]);
    holder.batch_execute("commit").unwrap();
    assert!(rows(&mut reader, &read(60, 10)).is_empty());
}
