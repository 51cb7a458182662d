//! Doors, as two or more sessions and roles see them.

use crate::black_box::harness::{Database, at_once, column, refusal, rows, start, value};
use postgres::error::SqlState;

/// How many of the extension's functions a role may call.
const MAY_CALL: &str =
    "select count(*) from pg_depend d join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
                          join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
                         where has_function_privilege('app_be', p.oid, 'execute')";

#[test]
fn eight_sessions_grant_at_once_without_an_error() {
    let database = Database::new();
    let mut observer = database.connect();
    let owner = value(&mut observer, "select current_user");
    let granted = value(&mut observer, MAY_CALL);
    assert_ne!(granted, "0");
    for _ in 0..10 {
        observer.batch_execute("select public.hfs_lite_revoke('app_be')").unwrap();
        assert_eq!(value(&mut observer, MAY_CALL), "0");
        at_once(&database, 8, &owner, |_, session| {
            session.batch_execute("select public.hfs_lite_grant('app_be')").unwrap();
        });
        assert_eq!(value(&mut observer, MAY_CALL), granted);
    }
}

#[test]
fn grants_and_revokes_at_once_end_in_one_of_both() {
    let database = Database::new();
    let mut observer = database.connect();
    let owner = value(&mut observer, "select current_user");
    let granted = value(&mut observer, MAY_CALL);
    at_once(&database, 8, &owner, |i, session| {
        for _ in 0..10 {
            let sql = if i % 2 == 0 {
                "select public.hfs_lite_grant('app_be')"
            } else {
                "select public.hfs_lite_revoke('app_be')"
            };
            session.batch_execute(sql).unwrap();
        }
    });
    let may_call = value(&mut observer, MAY_CALL);
    assert!(may_call == granted || may_call == "0", "all or nothing, and not {may_call} of {granted}");
}

#[test]
fn a_grant_waits_for_an_open_one_of_any_role() {
    let database = Database::new();
    let mut first = database.connect();
    first.batch_execute("begin; select public.hfs_lite_revoke('app_be')").unwrap();
    let second =
        start(database.connect(), "select public.hfs_lite_grant('app_be')").wait_until_blocked(&mut database.connect());
    first.batch_execute("commit").unwrap();
    second.rows();
    rows(&mut database.connect_as("app_be"), "select * from public.queue_waiting('1')");
}

#[test]
fn a_session_of_the_application_role_follows_a_grant_and_a_revoke_at_once() {
    let database = Database::new();
    let (mut owner, mut application) = (database.connect(), database.connect_as("app_be"));
    let call = "select count(*) from public.queue_waiting('1')";
    assert_eq!(value(&mut application, call), "0");
    owner.batch_execute("select public.hfs_lite_revoke('app_be')").unwrap();
    assert_eq!(refusal(application.simple_query(call)).code(), &SqlState::INSUFFICIENT_PRIVILEGE);
    owner.batch_execute("select public.hfs_lite_grant('app_be')").unwrap();
    assert_eq!(value(&mut application, call), "0");
}

#[test]
fn an_application_role_sees_everything_through_the_functions_and_nothing_beside_them() {
    let database = Database::new();
    rows(&mut database.connect_as("operator"), "select * from public.event_bus_subscribe('order.placed', 'mail')");
    let (mut one, mut other) = (database.connect_as("app_be"), database.connect_as("app_be"));

    // What one session writes, another sees through the functions.
    let job = value(&mut one, "select id from public.job_claim('k', 'j', 'w', now() + '1 h', '{}', null)");
    assert_eq!(column(&mut other, &format!("select id from public.job_complete('{job}', '1', null)")), [job]);
    let tick = "select name from public.job_tick_claim('t', '2026-01-01T00:00:00Z')";
    assert_eq!(column(&mut one, tick), ["t"]);
    assert_eq!(column(&mut other, tick), [""; 0]);
    rows(&mut one, "select public.queue_write('mail', '1', null, 'c')");
    assert_eq!(column(&mut other, "select \"correlationId\" from public.queue_waiting(1)"), ["c"]);
    rows(&mut one, "select * from public.inbox_claim_request('p', 'pay', 'e', '{}')");
    assert_eq!(
        column(&mut other, "select state from public.inbox_claim_request('p', 'pay', 'e', '{}')"),
        ["incomplete"]
    );
    rows(&mut one, "select * from public.event_bus_send('order.placed', '{\"payload\": {\"dedupeKey\": \"k\"}}')");
    assert_eq!(column(&mut other, "select msg_id from public.event_bus_read('order.placed__mail', 30, 1)"), ["1"]);

    for table in [
        "public.jobs",
        "public.job_ticks",
        "public.queue",
        "public.inbox",
        "pgmq.meta",
        "pgmq.topic_bindings",
        "pgmq.\"q_order.placed__mail\"",
    ] {
        for sql in [format!("select * from {table}"), format!("delete from {table}"), format!("truncate {table}")] {
            assert_eq!(refusal(one.simple_query(&sql)).code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
        }
    }
    for sql in [
        "select * from public.event_bus_subscribe('order.placed', 'sms')",
        "select * from public.inbox_forget('client:p:pay', 'e')",
        "select pgmq.create('q')",
    ] {
        assert_eq!(refusal(one.simple_query(sql)).code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
    }
}
