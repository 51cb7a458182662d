//! Subscriptions, as two or more sessions see them.

use crate::black_box::harness::{Database, at_once, column, rows, start, value};

const SUBSCRIBE: &str = "select queue from public.event_bus_subscribe('a', 'b')";
const UNSUBSCRIBE: &str = "select queue from public.event_bus_unsubscribe('a', 'a__b')";

#[test]
fn eight_sessions_repair_at_once_and_each_problem_is_mended_by_one_of_them() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select public.event_bus_subscribe('a', 'b'), public.event_bus_subscribe('a', 'c');
             select pgmq.drop_queue('a__b'), pgmq.drop_queue('a__c__dead'); delete from pgmq.topic_bindings",
        )
        .unwrap();
    let mended = at_once(&database, 8, "operator", |_, session| {
        column(session, "select problem || ' ' || queue from public.event_bus_repair()")
    });
    let mut all = mended.concat();
    all.sort_unstable();
    let each = ["missing_binding a__b", "missing_binding a__c", "missing_dead_letter_queue a__c", "missing_queue a__b"];
    assert_eq!(all, each);
    assert_eq!(value(&mut superuser, "select count(*) from public.event_bus_check()"), "0");
}

#[test]
fn a_repair_waits_for_an_open_one_and_finds_nothing_to_mend_or_all_of_it() {
    for (end, left) in [("commit", 0), ("rollback", 1)] {
        let database = Database::new();
        let mut superuser = database.connect();
        rows(&mut superuser, SUBSCRIBE);
        superuser.batch_execute("delete from pgmq.topic_bindings").unwrap();
        let repair = "select problem from public.event_bus_repair()";
        let mut first = database.connect_as("operator");
        first.batch_execute("begin").unwrap();
        assert_eq!(column(&mut first, repair), ["missing_binding"]);
        let second = start(database.connect_as("operator"), repair).wait_until_blocked(&mut superuser);
        first.batch_execute(end).unwrap();
        assert_eq!(second.rows().len(), left, "{end}");
        assert_eq!(value(&mut superuser, "select count(*) from public.event_bus_check()"), "0", "{end}");
    }
}

#[test]
fn subscribing_during_an_open_unsubscribe_leaves_record_and_binding_together() {
    for end in ["commit", "rollback"] {
        let database = Database::new();
        let mut superuser = database.connect();
        rows(&mut superuser, SUBSCRIBE);
        let mut leaving = database.connect_as("operator");
        leaving.batch_execute("begin").unwrap();
        assert_eq!(column(&mut leaving, UNSUBSCRIBE), ["a__b"]);
        let subscribing = start(database.connect_as("operator"), SUBSCRIBE).wait_until_blocked(&mut superuser);
        leaving.batch_execute(end).unwrap();
        assert_eq!(subscribing.rows(), [["a__b"]]);
        let state =
            "select (select count(*) from pgmq.topic_bindings), (select count(*) from public.event_bus_subscriptions)";
        assert_eq!(rows(&mut superuser, state), [["1", "1"]], "{end}");
    }
}
