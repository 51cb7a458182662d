//! The outbox, as two or more sessions see it.

use crate::black_box::harness::{Database, at_once, column, start, value};
use postgres::Client;
use std::collections::HashSet;

/// Writes rows, a second apart; the payload counts them from 1.
fn write(session: &mut Client, rows: u32) {
    let sql = format!(
        "select public.queue_write('mail', to_jsonb(n), timestamptz '2026-01-01T00:00:00Z' + n * interval '1 s', null)
           from generate_series(1, {rows}) n"
    );
    session.batch_execute(&sql).unwrap();
}

const TAKE_2: &str = "select payload from public.queue_waiting('2')";

#[test]
fn two_relays_in_transactions_get_disjoint_rows_oldest_first() {
    let database = Database::new();
    let (mut one, mut other) = (database.connect_as("app_be"), database.connect_as("app_be"));
    write(&mut one, 5);
    one.batch_execute("begin").unwrap();
    other.batch_execute("begin; set local lock_timeout = '1ms'").unwrap();
    assert_eq!(column(&mut one, TAKE_2), ["1", "2"]);
    assert_eq!(column(&mut other, TAKE_2), ["3", "4"]);
    let mut third = database.connect_as("app_be");
    third.batch_execute("begin").unwrap();
    assert_eq!(column(&mut third, TAKE_2), ["5"]);
}

#[test]
fn a_rolled_back_relay_gives_its_rows_back() {
    let database = Database::new();
    let (mut one, mut other) = (database.connect_as("app_be"), database.connect_as("app_be"));
    write(&mut one, 3);
    one.batch_execute("begin").unwrap();
    let sent = "select public.queue_mark_sent(array(select id from public.queue_waiting(2)), null)";
    one.batch_execute(sent).unwrap();
    assert_eq!(column(&mut other, TAKE_2), ["3"]);
    one.batch_execute("rollback").unwrap();
    assert_eq!(column(&mut other, TAKE_2), ["1", "2"]);
    other.batch_execute(sent).unwrap();
    assert_eq!(column(&mut one, TAKE_2), ["3"]);
}

#[test]
fn a_row_is_waiting_once_its_transaction_is_committed_and_never_if_it_is_rolled_back() {
    let database = Database::new();
    let (mut writer, mut relay) = (database.connect_as("app_be"), database.connect_as("app_be"));
    for (end, waiting) in [("rollback", 0), ("commit", 1)] {
        writer.batch_execute("begin").unwrap();
        write(&mut writer, 1);
        assert_eq!(column(&mut relay, TAKE_2), [""; 0]);
        writer.batch_execute(end).unwrap();
        assert_eq!(column(&mut relay, TAKE_2).len(), waiting, "{end}");
    }
}

#[test]
fn many_relays_carry_each_row_once() {
    let database = Database::new();
    write(&mut database.connect_as("app_be"), 2000);
    let carried = at_once(&database, 8, "app_be", |_, session| {
        let mut carried = Vec::new();
        loop {
            session.batch_execute("begin").unwrap();
            let ids = column(session, "select id from public.queue_waiting(17)");
            if !ids.is_empty() {
                let sql = format!("select public.queue_mark_sent('{{{}}}', null)", ids.join(","));
                session.batch_execute(&sql).unwrap();
            }
            session.batch_execute("commit").unwrap();
            if ids.is_empty() && value(session, "select count(*) from public.queue_waiting(1)") == "0" {
                return carried;
            }
            carried.extend(ids);
        }
    });
    let carried: Vec<String> = carried.into_iter().flatten().collect();
    assert_eq!(carried.len(), 2000);
    assert_eq!(carried.iter().collect::<HashSet<_>>().len(), 2000);
    let left = value(&mut database.connect(), "select count(*) from public.queue where sent_at is null");
    assert_eq!(left, "0");
}

#[test]
fn a_row_that_two_relays_mark_keeps_the_instant_of_the_first() {
    for (end, sent_at) in [("commit", "2026-01-02"), ("rollback", "2026-01-03")] {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut one, other) = (database.connect_as("app_be"), database.connect_as("app_be"));
        write(&mut one, 1);
        let id = value(&mut one, "select id from public.queue_waiting(1)");
        one.batch_execute("begin").unwrap();
        one.batch_execute(&format!("select public.queue_mark_sent('{{{id}}}', '2026-01-02T00:00:00Z')")).unwrap();
        let marks = start(other, &format!("select public.queue_mark_sent('{{{id}}}', '2026-01-03T00:00:00Z')"))
            .wait_until_blocked(&mut observer);
        one.batch_execute(end).unwrap();
        marks.rows();
        assert_eq!(value(&mut observer, "select (sent_at at time zone 'UTC')::date from public.queue"), sent_at);
    }
}

#[test]
fn relays_that_mark_overlapping_rows_in_any_order_never_deadlock() {
    let database = Database::new();
    write(&mut database.connect_as("app_be"), 200);
    let ids = column(&mut database.connect(), "select id from public.queue order by created_at");
    at_once(&database, 8, "app_be", |i, session| {
        for round in 0..100 {
            let mut some: Vec<&str> = ids.iter().skip((i * 7 + round) % 100).take(100).map(String::as_str).collect();
            if i % 2 == 0 {
                some.reverse();
            }
            session.batch_execute("begin").unwrap();
            let sql = format!("select public.queue_mark_sent('{{{}}}', null)", some.join(","));
            session.batch_execute(&sql).unwrap();
            session.batch_execute(if round % 10 == 9 { "commit" } else { "rollback" }).unwrap();
        }
    });
}

#[test]
fn relays_whose_saved_plans_differ_never_deadlock() {
    let database = Database::new();
    let mut owner = database.connect();
    // As they lie on disk their order is the contrary of the ids': a plan that reads the table and one that reads the
    // key meet these rows in contrary orders.
    owner
        .batch_execute(
            "insert into public.queue (id, queue, payload, created_at)
             select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'mail', '{}', now()
               from generate_series(3, 1, -1) n",
        )
        .unwrap();
    let mark = |ids: [u32; 3]| {
        let ids = ids.map(|n| format!("00000000-0000-0000-0000-00000000000{n}")).join(",");
        format!("select public.queue_mark_sent('{{{ids}}}', null)")
    };
    let mut middle = database.connect();
    let by_table = {
        let mut session = database.connect_as("app_be");
        session.batch_execute("set enable_indexscan = off; set enable_bitmapscan = off").unwrap();
        session
    };
    let by_key = {
        let mut session = database.connect_as("app_be");
        session.batch_execute("set enable_seqscan = off; set enable_bitmapscan = off").unwrap();
        session
    };
    middle.batch_execute("begin; select from public.queue where id::text like '%2' for update").unwrap();
    let one = start(by_table, &mark([1, 2, 3])).wait_until_blocked(&mut owner);
    let other = start(by_key, &mark([3, 2, 1])).wait_until_blocked(&mut owner);
    middle.batch_execute("commit").unwrap();
    one.rows();
    other.rows();
    assert_eq!(value(&mut owner, "select count(*) from public.queue where sent_at is null"), "0");
}
