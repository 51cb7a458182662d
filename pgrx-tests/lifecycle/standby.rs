//! A hot standby: what reads works there, what writes is PostgreSQL's 25006, and a promotion needs no step.

use super::everything::{Sessions, fill, functions, work_goes_on};
use crate::black_box::harness::{Cluster, Database, refusal, rows, value, wait_until};
use postgres::error::SqlState;
use postgres::{Client, NoTls};

const READS: [(&str, &str); 7] = [
    ("canonical_json/1", "select public.canonical_json('{\"n\": 1.50}')"),
    ("request_fingerprint/1", "select public.request_fingerprint('{}')"),
    ("event_bus_dead_letters/2", "select reason from public.event_bus_dead_letters('order.placed__mailer')"),
    ("event_bus_all_dead_letters/1", "select reason from public.event_bus_all_dead_letters()"),
    ("event_bus_check/0", "select count(*) from public.event_bus_check()"),
    ("hfs_lite_health/0", "select metric from public.hfs_lite_health()"),
    ("hfs_lite_age/2", "select public.hfs_lite_age(now())"),
];

const VIEWS: [&str; 3] = [
    "select job_key from public.hfs_lite_jobs",
    "select queue from public.hfs_lite_outbox",
    "select reason from public.hfs_lite_dead_letters",
];

/// Good arguments, and also such as have nothing to write: that must not make it look as if they had been done.
const WRITES: [(&str, &str); 59] = [
    ("job_claim/6", "select * from public.job_claim('mail', 'new', 'w', '2100-01-01', '{}', null)"),
    ("job_claim/6", "select * from public.job_claim('mail', 'running', 'w', '2100-01-01', '{}', null)"),
    ("job_claim/6", "select * from public.job_claim('mail', 'done', 'w', '2100-01-01', '{}', null)"),
    ("job_advance/4", "select * from public.job_advance(gen_random_uuid(), 1, 'step', null)"),
    ("job_complete/3", "select * from public.job_complete(gen_random_uuid(), 1, null)"),
    ("job_fail/4", "select * from public.job_fail(gen_random_uuid(), 1, 'why', null)"),
    ("jobs_sweep/2", "select * from public.jobs_sweep('2000-01-01', 10)"),
    ("job_tick_claim/3", "select * from public.job_tick_claim('t', now())"),
    ("job_tick_claim/3", "select * from public.job_tick_claim('t', '2026-01-01T00:01:00Z')"),
    ("queue_write/4", "select public.queue_write('mail', '{}', null, null)"),
    ("queue_waiting/1", "select * from public.queue_waiting(1)"),
    ("queue_mark_sent/2", "select public.queue_mark_sent('{}', null)"),
    ("queue_sweep/2", "select * from public.queue_sweep('2000-01-01', 10)"),
    ("inbox_claim_event/2", "select * from public.inbox_claim_event('door', 'new')"),
    ("inbox_claim_event/2", "select * from public.inbox_claim_event('door', 'delivery')"),
    ("inbox_claim_client/4", "select * from public.inbox_claim_client('client:ann:pay', 'done', 'f')"),
    ("inbox_claim_request/5", "select * from public.inbox_claim_request('ann', 'pay', 'new', '{}')"),
    ("inbox_claim_request/5", "select * from public.inbox_claim_request('ann', 'pay', 'done', '{\"n\": 1}')"),
    ("inbox_claim_request/5", "select * from public.inbox_claim_request('ann', 'pay', 'done', '{\"n\": 2}')"),
    ("inbox_save_client_outcome/3", "select * from public.inbox_save_client_outcome('client:ann:pay', 'open', '1')"),
    ("inbox_save_client_outcome/3", "select * from public.inbox_save_client_outcome('client:ann:pay', 'done', '1')"),
    ("inbox_sweep_clients/2", "select * from public.inbox_sweep_clients('2000-01-01', 10)"),
    ("inbox_sweep_events/2", "select * from public.inbox_sweep_events('2000-01-01', 10)"),
    ("inbox_forget/2", "select * from public.inbox_forget('door', 'none')"),
    (
        "event_bus_send/2",
        "select * from public.event_bus_send('order.placed', '{\"payload\": {\"dedupeKey\": \"k\"}}')",
    ),
    ("event_bus_send/2", "select * from public.event_bus_send('nobody', '{\"payload\": {\"dedupeKey\": \"k\"}}')"),
    ("event_bus_send/4", "select * from public.event_bus_send('e', 'order.placed', '{\"dedupeKey\": \"k\"}', null)"),
    ("event_bus_send/4", "select * from public.event_bus_send('e', 'nobody', '{\"dedupeKey\": \"k\"}', null)"),
    ("event_bus_read/3", "select * from public.event_bus_read('order.placed__mailer', 60, 1)"),
    ("event_bus_read/3", "select * from public.event_bus_read('orders__dead', 60, 10)"),
    ("event_bus_archive/3", "select * from public.event_bus_archive('order.placed__mailer', 4)"),
    ("event_bus_archive/3", "select * from public.event_bus_archive('order.placed__mailer', 1)"),
    ("event_bus_bury/4", "select * from public.event_bus_bury('order.placed__mailer', 4)"),
    ("event_bus_bury/4", "select * from public.event_bus_bury('order.placed__mailer', 1)"),
    ("event_bus_requeue/2", "select * from public.event_bus_requeue('order.placed__mailer', 2)"),
    ("event_bus_requeue/2", "select * from public.event_bus_requeue('order.placed__mailer', 1)"),
    ("event_bus_sweep/3", "select * from public.event_bus_sweep('order.placed__mailer', '2000-01-01', 10)"),
    ("event_bus_subscribe/2", "select * from public.event_bus_subscribe('order.placed', 'new')"),
    ("event_bus_subscribe/2", "select * from public.event_bus_subscribe('order.placed', 'mailer')"),
    ("event_bus_unsubscribe/2", "select * from public.event_bus_unsubscribe('none', 'none')"),
    ("event_bus_record/1", "select * from public.event_bus_record()"),
    ("event_bus_repair/0", "select * from public.event_bus_repair()"),
    ("job_claim_many/6", "select * from public.job_claim_many('mail', '{new,done}', 'w', '2100-01-01', '{1,2}', null)"),
    ("job_claim_many/6", "select * from public.job_claim_many('mail', '{}', 'w', '2100-01-01', '{}', null)"),
    ("job_heartbeat/4", "select * from public.job_heartbeat(gen_random_uuid(), 1, '2100-01-01', null)"),
    ("job_complete_many/3", "select * from public.job_complete_many(array[gen_random_uuid()], '{1}', null)"),
    ("job_complete_many/3", "select * from public.job_complete_many('{}', '{}', null)"),
    ("job_fail_many/4", "select * from public.job_fail_many(array[gen_random_uuid()], '{1}', null, null)"),
    ("queue_write_many/4", "select * from public.queue_write_many('mail', '{1}', null, null)"),
    ("queue_write_many/4", "select * from public.queue_write_many('mail', '{}', null, null)"),
    ("inbox_claim_events/2", "select * from public.inbox_claim_events('door', '{new,delivery}')"),
    ("inbox_claim_events/2", "select * from public.inbox_claim_events('door', '{delivery}')"),
    (
        "event_bus_send_many/2",
        "select * from public.event_bus_send_many('nobody', array['{\"payload\": {\"dedupeKey\": \"k\"}}'::jsonb])",
    ),
    ("event_bus_send_many/2", "select * from public.event_bus_send_many('nobody', '{}')"),
    (
        "event_bus_archive_many/3",
        "select * from public.event_bus_archive_many('order.placed__mailer', '{4,1}', '{1,1}')",
    ),
    ("event_bus_extend/4", "select * from public.event_bus_extend('order.placed__mailer', 4, 1, 60)"),
    ("event_bus_extend/4", "select * from public.event_bus_extend('order.placed__mailer', 1, 1, 60)"),
    ("hfs_lite_grant/2", "select public.hfs_lite_grant('operator', 'operator')"),
    ("hfs_lite_revoke/1", "select public.hfs_lite_revoke('anon')"),
];

/// Who calls a function: the role that needs it, and the owner where only the owner may.
fn caller<'a>(sessions: &'a mut Sessions, function: &str) -> &'a mut Client {
    let may = "select has_function_privilege($1, p.oid, 'execute') from pg_proc p
                where p.pronamespace = 'public'::regnamespace and p.proname || '/' || p.pronargs = $2";
    let mut may = |role: &str| sessions.superuser.query_one(may, &[&role, &function]).unwrap().get(0);
    match (may("app_be"), may("operator")) {
        (true, _) => &mut sessions.application,
        (false, true) => &mut sessions.operator,
        (false, false) => &mut sessions.superuser,
    }
}

/// What reads answers, what writes is refused; every function is one or the other.
fn only_reads_work(sessions: &mut Sessions) {
    for function in functions(&mut sessions.superuser) {
        let reads = READS.iter().any(|(name, _)| *name == function);
        let writes = WRITES.iter().any(|(name, _)| *name == function);
        assert!(reads != writes, "{function} stands in READS or in WRITES");
    }
    for (function, sql) in READS {
        assert!(!rows(caller(sessions, function), sql).is_empty(), "{sql}");
    }
    for sql in VIEWS {
        assert!(!rows(&mut sessions.operator, sql).is_empty(), "{sql}");
    }
    for (function, sql) in WRITES {
        let error = refusal(caller(sessions, function).simple_query(sql));
        assert_eq!(error.code(), &SqlState::READ_ONLY_SQL_TRANSACTION, "{sql}: {error}");
    }
}

#[test]
fn what_reads_works_on_a_standby_what_writes_is_refused_and_a_promotion_needs_no_step() {
    let primary = Cluster::start(&["max_connections=30"]);
    let mut superuser = primary.connect("postgres");
    superuser
        .batch_execute(
            "create role app_be login; create role operator login; create role anon; create role authenticated;
             create extension hfs_lite cascade",
        )
        .unwrap();
    fill(&mut superuser);
    let standby = primary.standby(&["max_connections=30"]);
    let connect = |role: &str| standby.config("postgres").user(role).connect(NoTls).unwrap();
    let mut sessions =
        Sessions { superuser: connect("postgres"), operator: connect("operator"), application: connect("app_be") };
    assert_eq!(value(&mut sessions.superuser, "select pg_is_in_recovery()"), "t");
    only_reads_work(&mut sessions);

    // It follows: a queue that is made on the primary is seen there by sessions that read before.
    superuser
        .batch_execute("select public.event_bus_subscribe('late', 'c'); select pgmq.send('late__c__dead', '{}')")
        .unwrap();
    let lsn = value(&mut superuser, "select pg_current_wal_lsn()");
    wait_until(&mut sessions.superuser, &format!("pg_last_wal_replay_lsn() >= '{lsn}'"));
    assert_eq!(value(&mut sessions.operator, "select msg_id from public.event_bus_dead_letters('late__c')"), "1");

    primary.crash();
    assert_eq!(value(&mut connect("postgres"), "select pg_promote()"), "t");
    work_goes_on(&mut sessions.superuser, &mut sessions.application);
    sessions.call_every_function("after");
}

#[test]
fn what_writes_is_refused_in_a_read_only_transaction_too() {
    let database = Database::new();
    fill(&mut database.connect());
    let mut sessions = Sessions::new(&database);
    for session in [&mut sessions.superuser, &mut sessions.operator, &mut sessions.application] {
        session.batch_execute("set default_transaction_read_only = on").unwrap();
    }
    only_reads_work(&mut sessions);
}
