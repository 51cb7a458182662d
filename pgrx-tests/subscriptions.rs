//! Subscriptions of the event bus, as one session sees them: made, recorded, ended, checked and repaired.

use super::checks::{AWKWARD, caught, changes_nothing, contents, quoted};
use super::event_bus::{QUEUE, bury, read, requeue, send, subscribed};
use super::harness::{Database, column, refused, rows, value};
use postgres::{Client, NoTls};
use std::sync::{Arc, Mutex};

const RECORDS: &str = "select topic, queue from public.event_bus_subscriptions order by queue, topic";
const CHECK: &str = "select problem, topic, queue, mend, repairable from public.event_bus_check()";

/// What the check finds, without the mends: problem and queue.
fn problems(session: &mut Client) -> Vec<[String; 2]> {
    rows(session, CHECK).into_iter().map(|row| [row[0].clone(), row[2].clone()]).collect()
}

#[test]
fn subscribing_creates_and_binds_both_queues_any_number_of_times() {
    let database = Database::new();
    let mut operator = database.connect_as("operator");
    let mut superuser = database.connect();
    let subscribe = "select queue, dead_letter_queue from public.event_bus_subscribe('order.created', 'billing')";
    let names = [[QUEUE, "order.created__billing__dead"]];
    assert_eq!(rows(&mut operator, subscribe), names);
    assert_eq!(column(&mut superuser, "select queue_name from pgmq.meta order by 1"), names[0]);
    let bindings = "select pattern, queue_name from pgmq.topic_bindings";
    assert_eq!(rows(&mut superuser, bindings), [["order.created", QUEUE]], "the dead letters are bound to nothing");
    send(&mut operator, "order.created");
    let before = contents(&mut superuser);
    for _ in 0..2 {
        assert_eq!(rows(&mut operator, subscribe), names);
        assert_eq!(rows(&mut database.connect_as("operator"), subscribe), names);
    }
    assert_eq!(contents(&mut superuser), before, "what is there already stays as it is");
    // Another consumer of the topic gets a queue of its own.
    rows(&mut operator, "select * from public.event_bus_subscribe('order.created', 'stock')");
    assert_eq!(send(&mut operator, "order.created"), "2");
}

#[test]
fn subscribing_makes_what_is_missing_and_is_undone_by_a_rollback() {
    let (_database, _, mut superuser) = subscribed();
    let subscribe = "select queue from public.event_bus_subscribe('order.created', 'billing')";
    let state = "select (select count(*) from pgmq.meta), (select count(*) from pgmq.topic_bindings)";
    for broken in [
        "select pgmq.unbind_topic('order.created', 'order.created__billing')",
        "select pgmq.drop_queue('order.created__billing')",
        "select pgmq.drop_queue('order.created__billing__dead')",
        "drop table pgmq.\"q_order.created__billing\"",
        "drop table pgmq.\"q_order.created__billing__dead\"",
    ] {
        superuser.batch_execute(broken).unwrap();
        assert_eq!(value(&mut superuser, subscribe), QUEUE);
        assert_eq!(rows(&mut superuser, state), [["2", "1"]], "{broken}");
        assert_eq!(send(&mut superuser, "order.created"), "1");
        let id = read(&mut superuser, QUEUE, 0, 1).remove(0).remove(0);
        bury(&mut superuser, QUEUE, &id);
    }
    superuser.batch_execute("begin").unwrap();
    rows(&mut superuser, "select * from public.event_bus_subscribe('other', 'billing')");
    assert_eq!(send(&mut superuser, "other"), "1");
    superuser.batch_execute("rollback").unwrap();
    assert_eq!(send(&mut superuser, "other"), "0");
    assert_eq!(rows(&mut superuser, state), [["2", "1"]]);
}

#[test]
fn names_of_topics_and_consumers_follow_the_rule() {
    let database = Database::new();
    let mut operator = database.connect_as("operator");
    let mut superuser = database.connect();
    let call = |topic: &str, consumer: &str| {
        format!("select * from public.event_bus_subscribe({}, {})", quoted(topic), quoted(consumer))
    };
    let before = contents(&mut superuser);
    operator.batch_execute("begin").unwrap();
    for (good_topic, good_consumer) in [
        ("a", "b"),
        ("order.created", "billing"),
        ("a-b_c.d2", "b-c_d2"),
        ("a", "undead"),
        ("a", "dead-letters"),
        ("a", "x_dead"),
        ("dead", "x"),
        ("a", "x-vt-idx"),
    ] {
        let names = format!("{good_topic}__{good_consumer}");
        let answer = rows(&mut operator, &call(good_topic, good_consumer));
        assert_eq!(answer, [[names.as_str(), format!("{names}__dead").as_str()]]);
    }
    let bad_everywhere = [
        "", "A", "Order", "1a", "a__b", "a--b", "a-_b", "_a", "-a", "a_", "a-", "a b", " a", "a ", "a\n", "a*", "a#",
        "*", "#", "ä", "a😀", "a'b", "a\"b", "a\\b", "a/b", "a:b", "a$b", "a%b",
    ];
    let bad_topics = [".a", "a.", "a..b", "a._b", "a.*", "a.#", "."];
    let bad_consumers = ["a.b", "dead", "x_vt_idx", "x_pkey", "x_msg_id_seq"];
    for topic in bad_everywhere.iter().chain(&bad_topics) {
        let error = refused(&mut operator, &call(topic, "b"), "22023", "p_topic");
        assert!(error.message().contains(topic), "it says what came: {}", error.message());
    }
    for consumer in bad_everywhere.iter().chain(&bad_consumers) {
        let error = refused(&mut operator, &call("a", consumer), "22023", "p_consumer");
        assert!(error.message().contains(consumer), "it says what came: {}", error.message());
    }
    caught(&mut operator, &call("A", "b"), "22023");
    for (call, argument) in [("null, 'b'", "p_topic"), ("'a', null", "p_consumer")] {
        refused(&mut operator, &format!("select * from public.event_bus_subscribe({call})"), "22004", argument);
    }
    operator.batch_execute("rollback").unwrap();
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn a_queues_name_has_at_most_41_characters() {
    let database = Database::new();
    let mut operator = database.connect_as("operator");
    for topic in [1, 20, 38] {
        let names = |length: usize| {
            let consumer = length - topic - 2;
            format!("select queue from public.event_bus_subscribe('{}', '{}')", "t".repeat(topic), "c".repeat(consumer))
        };
        assert_eq!(value(&mut operator, &names(41)).len(), 41);
        for length in [42, 64, 300] {
            let error = refused(&mut operator, &names(length), "22023", &length.to_string());
            assert!(error.message().contains("41"), "it says the limit: {}", error.message());
            assert!(["p_topic", "p_consumer"].iter().all(|which| error.message().contains(which)), "{error}");
            caught(&mut operator, &names(length), "22023");
        }
    }
    // Both queues work at the limit.
    let topic = "t".repeat(20);
    let queue = format!("{topic}__{}", "c".repeat(19));
    assert_eq!(send(&mut operator, &topic), "1");
    let id = read(&mut operator, &queue, 30, 1).remove(0).remove(0);
    let dead = bury(&mut operator, &queue, &id);
    requeue(&mut operator, &queue, &dead);
    assert_eq!(value(&mut database.connect(), "select count(*) from pgmq.meta"), "6");
}

#[test]
fn a_subscription_is_recorded_with_its_topic_and_rolled_back_with_it() {
    let (_database, _, mut superuser) = subscribed();
    assert_eq!(rows(&mut superuser, RECORDS), [["order.created", QUEUE]]);
    superuser.batch_execute("begin; select public.event_bus_subscribe('other', 'billing'); rollback").unwrap();
    assert_eq!(rows(&mut superuser, RECORDS), [["order.created", QUEUE]]);
}

#[test]
fn unsubscribing_ends_the_routing_and_keeps_the_queue_and_what_it_holds() {
    let (database, mut session, mut superuser) = subscribed();
    let mut operator = database.connect_as("operator");
    send(&mut session, "order.created");
    let unsubscribe = format!("select topic, queue from public.event_bus_unsubscribe('order.created', '{QUEUE}')");
    assert_eq!(rows(&mut operator, &unsubscribe), [["order.created", QUEUE]]);
    assert_eq!(send(&mut session, "order.created"), "0");
    assert!(rows(&mut superuser, RECORDS).is_empty());
    assert!(rows(&mut operator, CHECK).is_empty(), "nothing is missing");
    assert_eq!(read(&mut session, QUEUE, 0, 10).len(), 1);
    assert!(rows(&mut operator, &unsubscribe).is_empty(), "there was nothing more to end");
    let nothing = "select * from public.event_bus_unsubscribe('order.created', 'no such queue')";
    assert!(rows(&mut operator, nothing).is_empty());
    // Subscribed again, it goes on.
    rows(&mut operator, "select * from public.event_bus_subscribe('order.created', 'billing')");
    assert_eq!(send(&mut session, "order.created"), "1");
    // Also where only one half of it is left: the binding, or the record.
    superuser.batch_execute("delete from public.event_bus_subscriptions").unwrap();
    assert_eq!(rows(&mut operator, &unsubscribe).len(), 1);
    rows(&mut operator, "select * from public.event_bus_subscribe('order.created', 'billing')");
    superuser.batch_execute("delete from pgmq.topic_bindings").unwrap();
    assert_eq!(rows(&mut operator, &unsubscribe).len(), 1);
    assert!(rows(&mut superuser, RECORDS).is_empty());
}

#[test]
fn bindings_that_a_migration_made_are_found_and_recorded_by_one_call() {
    let (database, _, mut superuser) = subscribed();
    let mut operator = database.connect_as("operator");
    superuser
        .batch_execute(
            "select pgmq.create('audit'), pgmq.create('audit__dead'), pgmq.create('mail'), pgmq.create('mail__dead');
             select pgmq.bind_topic('#', 'audit'), pgmq.bind_topic('order.*', 'audit'), pgmq.bind_topic('order.paid', 'mail')",
        )
        .unwrap();
    let found = rows(&mut operator, CHECK);
    let record = |queue: &str| format!("select * from public.event_bus_record('{queue}')");
    let unrecorded = |topic: &str, queue: &str| {
        ["unrecorded_subscription", topic, queue, &record(queue), "f"].map(str::to_owned).to_vec()
    };
    assert_eq!(found, [unrecorded("#", "audit"), unrecorded("order.*", "audit"), unrecorded("order.paid", "mail")]);
    assert_eq!(rows(&mut operator, &record("mail")), [["order.paid", "mail"]]);
    assert_eq!(rows(&mut operator, "select * from public.event_bus_record()"), [["#", "audit"], ["order.*", "audit"]]);
    assert!(rows(&mut operator, "select * from public.event_bus_record()").is_empty());
    assert!(rows(&mut operator, CHECK).is_empty());
    let all = [["#", "audit"], ["order.*", "audit"], ["order.paid", "mail"], ["order.created", QUEUE]];
    assert_eq!(rows(&mut superuser, RECORDS), all);
}

/// Each way in which the bus breaks: what breaks it, and what the check then says: problem, topic and mend.
const BREAKS: [(&str, &[[&str; 3]]); 8] = [
    (
        "delete from pgmq.topic_bindings",
        &[["missing_binding", "order.created", "select pgmq.bind_topic('order.created', 'order.created__billing')"]],
    ),
    (
        "drop table pgmq.\"q_order.created__billing\"",
        &[["missing_table", "∅", "select pgmq.create('order.created__billing')"]],
    ),
    (
        "drop table pgmq.\"a_order.created__billing\"",
        &[["missing_table", "∅", "select pgmq.create('order.created__billing')"]],
    ),
    (
        "drop table pgmq.\"q_order.created__billing__dead\"",
        &[["missing_table", "∅", "select pgmq.create('order.created__billing__dead')"]],
    ),
    (
        "select pgmq.drop_queue('order.created__billing__dead')",
        &[["missing_dead_letter_queue", "∅", "select pgmq.create('order.created__billing__dead')"]],
    ),
    (
        "select pgmq.drop_queue('order.created__billing')",
        &[
            ["missing_queue", "∅", "select pgmq.create('order.created__billing')"],
            ["missing_binding", "order.created", "select pgmq.bind_topic('order.created', 'order.created__billing')"],
        ],
    ),
    (
        // As a restore can leave it: the tables are there, and pgmq knows of nothing.
        "delete from pgmq.meta",
        &[
            ["missing_queue", "∅", "select pgmq.create('order.created__billing')"],
            ["missing_dead_letter_queue", "∅", "select pgmq.create('order.created__billing__dead')"],
            ["missing_binding", "order.created", "select pgmq.bind_topic('order.created', 'order.created__billing')"],
        ],
    ),
    (
        "delete from pgmq.meta; delete from pgmq.topic_bindings; drop table pgmq.\"q_order.created__billing__dead\"",
        &[
            ["missing_queue", "∅", "select pgmq.create('order.created__billing')"],
            ["missing_dead_letter_queue", "∅", "select pgmq.create('order.created__billing__dead')"],
            ["missing_binding", "order.created", "select pgmq.bind_topic('order.created', 'order.created__billing')"],
        ],
    ),
];

#[test]
fn whatever_breaks_is_listed_with_the_call_that_mends_it_and_repaired_without_loss() {
    for (breaks, expected) in BREAKS {
        let (database, mut session, mut superuser) = subscribed();
        let mut operator = database.connect_as("operator");
        for _ in 0..3 {
            send(&mut session, "order.created");
        }
        let keeps = !breaks.contains("drop");
        superuser.batch_execute(breaks).unwrap();
        let found = rows(&mut operator, CHECK);
        let listed: Vec<Vec<String>> =
            found.iter().map(|row| vec![row[0].clone(), row[1].clone(), row[3].clone()]).collect();
        assert_eq!(listed, expected, "{breaks}");
        assert!(found.iter().all(|row| row[4] == "t"), "{breaks}: it can be repaired");
        // The calls that are named mend it too.
        superuser.batch_execute("begin").unwrap();
        for row in &found {
            superuser.batch_execute(&row[3]).unwrap();
        }
        assert!(problems(&mut superuser).is_empty(), "{breaks}: the mends");
        superuser.batch_execute("rollback").unwrap();
        let repaired = rows(&mut operator, "select problem, topic, queue, mend from public.event_bus_repair()");
        assert_eq!(repaired, found.iter().map(|row| row[..4].to_vec()).collect::<Vec<_>>(), "{breaks}");
        assert!(problems(&mut operator).is_empty(), "{breaks}: repaired");
        assert!(rows(&mut operator, "select * from public.event_bus_repair()").is_empty(), "{breaks}: once");
        assert_eq!(send(&mut session, "order.created"), "1", "{breaks}");
        if keeps {
            assert_eq!(read(&mut session, QUEUE, 0, 10).len(), 4, "{breaks}: no message was lost");
        }
        let id = read(&mut session, QUEUE, 0, 1).remove(0).remove(0);
        let dead = bury(&mut session, QUEUE, &id);
        requeue(&mut session, QUEUE, &dead);
    }
}

#[test]
fn what_cannot_be_repaired_without_a_decision_is_listed_and_left_alone() {
    let database = Database::new();
    let (mut operator, mut superuser) = (database.connect_as("operator"), database.connect());
    superuser
        .batch_execute(
            "select pgmq.create('orphan__dead'), pgmq.create('theirs'), pgmq.create('theirs__dead');
             select pgmq.bind_topic('a', 'theirs'), pgmq.create('no business of the bus');
             alter table pgmq.q_theirs owner to app_be; alter table pgmq.a_theirs__dead owner to app_be;
             alter table pgmq.\"q_no business of the bus\" owner to app_be;
             select public.event_bus_record()",
        )
        .unwrap();
    let owner = value(&mut superuser, "select quote_ident(current_user)");
    let before = contents(&mut superuser);
    let found: Vec<Vec<String>> = rows(&mut operator, CHECK);
    let mend = |table: &str| format!("alter table {table} owner to {owner}");
    let expected = [
        ["orphaned_dead_letter_queue", "∅", "orphan__dead", "select pgmq.create('orphan')", "f"],
        ["other_owner", "∅", "theirs", &mend("pgmq.q_theirs"), "f"],
        ["other_owner", "∅", "theirs__dead", &mend("pgmq.a_theirs__dead"), "f"],
    ];
    assert_eq!(found, expected);
    assert!(rows(&mut operator, "select * from public.event_bus_repair()").is_empty());
    assert_eq!(contents(&mut superuser), before);
    for row in found {
        superuser.batch_execute(&row[3]).unwrap();
    }
    assert!(problems(&mut operator).is_empty());
}

#[test]
fn a_queue_whose_name_leaves_no_room_for_dead_letters_says_so() {
    let database = Database::new();
    let (mut operator, mut superuser) = (database.connect_as("operator"), database.connect());
    let name = "q".repeat(45);
    superuser
        .batch_execute(&format!(
            "select pgmq.create('{name}'), pgmq.bind_topic('a', '{name}'), public.event_bus_record()"
        ))
        .unwrap();
    let found = rows(&mut operator, CHECK);
    assert_eq!(found.len(), 1);
    assert_eq!([&found[0][0], &found[0][2], &found[0][4]], ["missing_dead_letter_queue", &name, "f"]);
    assert!(found[0][3].contains("at most 41 characters"), "{}", found[0][3]);
    assert!(rows(&mut operator, "select * from public.event_bus_repair()").is_empty());
}

#[test]
fn a_pgmq_that_is_not_a_superusers_is_refused_and_listed_where_it_came_later() {
    let database = Database::empty();
    let mut superuser = database.connect();
    let name = value(&mut superuser, "select current_database()");
    superuser.batch_execute(&format!("grant create on database {name} to outsider")).unwrap();
    database.connect_as("outsider").batch_execute("create extension pgmq; select pgmq.create('q')").unwrap();
    refused(&mut superuser, "create extension hfs_lite", "55000", "pgmq belongs to a role that is no superuser");
    // The hint leads out, and the queue's table is taken with what it holds.
    superuser
        .batch_execute(
            "select pgmq.send('q', '1'); drop extension pgmq; create extension pgmq; create extension hfs_lite;
             select pgmq.create('q')",
        )
        .unwrap();
    assert_eq!(read(&mut superuser, "q", 0, 10).len(), 1);
    superuser.batch_execute("update pg_extension set extowner = 'outsider'::regrole where extname = 'pgmq'").unwrap();
    assert_eq!(problems(&mut superuser), [["pgmq_other_owner".to_owned(), "∅".to_owned()]]);
    superuser.batch_execute("update pg_extension set extowner = current_user::regrole where extname = 'pgmq'").unwrap();
    assert!(problems(&mut superuser).is_empty());
}

#[test]
fn a_public_schema_in_which_every_role_may_create_is_warned_of() {
    let database = Database::empty();
    database.connect().batch_execute("grant create on schema public to public").unwrap();
    let warnings = Arc::new(Mutex::new(vec![]));
    let into = warnings.clone();
    let mut config = database.config();
    config.notice_callback(move |notice| into.lock().unwrap().push(notice));
    config.connect(NoTls).unwrap().batch_execute("create extension hfs_lite cascade").unwrap();
    let warnings = warnings.lock().unwrap();
    let warned = warnings.iter().find(|notice| notice.message() == "every role may create objects in schema public");
    assert!(warned.is_some_and(|notice| notice.hint().is_some_and(|hint| hint.starts_with("REVOKE CREATE"))));
}

#[test]
fn a_repair_leaves_what_pgmq_would_refuse_and_mends_the_rest() {
    let (database, _, mut superuser) = subscribed();
    let mut operator = database.connect_as("operator");
    superuser
        .batch_execute(
            "insert into public.event_bus_subscriptions (topic, queue) values ('..bad', 'order.created__billing'), ('a', 'it''s');
             select pgmq.create_unlogged('fast'), pgmq.create_unlogged('fast__dead'); drop table pgmq.q_fast;
             delete from pgmq.topic_bindings",
        )
        .unwrap();
    let repaired = rows(&mut operator, "select problem, topic, queue from public.event_bus_repair()");
    assert_eq!(
        repaired,
        [["missing_table", "∅", "fast"], ["missing_binding", "order.created", QUEUE]].map(|row| row.map(str::to_owned))
    );
    assert_eq!(value(&mut superuser, "select relpersistence from pg_class where relname = 'q_fast'"), "u");
    let left = rows(&mut operator, "select problem, repairable from public.event_bus_check()");
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(left.iter().all(|row| row[1] == "f"), "{left:?}");
}

#[test]
fn a_pgmq_that_is_too_old_is_the_one_problem_listed() {
    let (database, _, mut superuser) = subscribed();
    superuser
        .batch_execute(
            "update pg_extension set extversion = '1.11.0' where extname = 'pgmq'; delete from pgmq.topic_bindings",
        )
        .unwrap();
    let found = rows(&mut database.connect_as("operator"), CHECK);
    assert_eq!(found, [["pgmq_too_old", "∅", "∅", "alter extension pgmq update", "f"]]);
}

#[test]
fn every_argument_of_a_subscription_is_checked() {
    let (database, _, mut superuser) = subscribed();
    let mut operator = database.connect_as("operator");
    let before = contents(&mut superuser);
    for (call, argument, sqlstate) in [
        ("event_bus_unsubscribe(null, 'q')", "p_topic", "22004"),
        ("event_bus_unsubscribe('', 'q')", "p_topic", "22023"),
        ("event_bus_unsubscribe('t', null)", "p_queue", "22004"),
        ("event_bus_unsubscribe('t', '')", "p_queue", "22023"),
        ("event_bus_record('')", "p_queue", "22023"),
        ("event_bus_record('none')", "p_queue", "42704"),
        ("event_bus_record('a''b\\c')", "p_queue", "42704"),
    ] {
        let call = format!("select * from public.{call}");
        refused(&mut operator, &call, sqlstate, argument);
        caught(&mut operator, &call, sqlstate);
    }
    let awkward = quoted(AWKWARD);
    changes_nothing(&mut operator, &format!("select * from public.event_bus_unsubscribe({awkward}, {awkward})"));
    changes_nothing(&mut operator, "select * from public.event_bus_record(null)");
    assert_eq!(contents(&mut superuser), before);
}
