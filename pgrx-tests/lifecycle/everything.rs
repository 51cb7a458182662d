//! A database with a bit of everything in it: rows in every state, and every function called. What these tests compare before
//! and after, and what goes on working.

use crate::black_box::harness::{Database, column, rows, value};
use postgres::Client;
use std::collections::BTreeMap;

/// Roles of every kind, and rows, messages and bindings in every state; odd values among them. It calls what every version has.
pub fn fill(superuser: &mut Client) {
    superuser
        .batch_execute(
            "do $$
             begin
               if not exists (select from pg_roles where rolname = 'monitor') then create role monitor login; end if;
             exception when duplicate_object or unique_violation then null;
             end $$",
        )
        .unwrap();
    superuser.batch_execute(FILL).unwrap();
    // Since 0.2.0 bindings that a migration made can be recorded, and there is a third kind of role.
    if value(superuser, "select count(*) from pg_proc where proname = 'event_bus_record'") == "1" {
        superuser
            .batch_execute("select public.event_bus_record(); select public.hfs_lite_grant('monitor', 'monitor')")
            .unwrap();
    }
}

const FILL: &str = r##"
    select public.hfs_lite_grant('operator', 'operator');

    select public.job_claim('mail', 'running', 'w', '2100-01-01', '{"n": 1.50, "s": "ünï 🦀 \u0001"}', '2026-01-01');
    select public.job_claim('mail', 'taken over', 'w', '2026-01-01T00:01:00Z', '{}', '2026-01-01T00:00:00Z');
    select public.job_claim('mail', 'taken over', 'w', '2026-01-01T00:03:00Z', '{}', '2026-01-01T00:02:00Z');
    select public.job_claim('mail', 'taken over', 'w', '2026-01-01T00:05:00Z', '{}', '2026-01-01T00:04:00Z');
    select public.job_advance(id, 3, E'line\nwith \\ and \t', '2026-01-01') from public.jobs where job_key = 'taken over';
    select public.job_claim('mail', 'failed', 'w', '2100-01-01', 'null', '2026-01-01');
    select public.job_fail(id, 1, repeat('ß', 20000), '2026-01-01') from public.jobs where job_key = 'failed';
    select public.job_claim('mail', 'done', 'w', '2100-01-01', to_jsonb(repeat(md5('x'), 10000)), '2026-01-01');
    select public.job_complete(id, 1, '2026-01-01') from public.jobs where job_key = 'done';
    select public.job_tick_claim('t', '2026-01-01T00:00:00Z'), public.job_tick_claim('t', '2026-01-01T00:01:00Z');

    select public.queue_write('mail', '{"a": null}', '2026-01-01', null);
    select public.queue_mark_sent(array(select id from public.queue_waiting(1)), '2026-01-01');
    select public.queue_write('mail', '[1e20, -1.0, ""]', '2026-01-02', 'cörr');

    select public.inbox_claim_event('door', 'delivery');
    select public.inbox_claim_request('ann', 'pay', 'open', '{}');
    select public.inbox_claim_request('ann', 'pay', 'done', '{"n": 1}');
    select public.inbox_save_client_outcome('client:ann:pay', 'done', '{"value": null}');

    select public.event_bus_subscribe('order.placed', 'mailer');
    select public.event_bus_subscribe('order.placed', 'audit');
    -- Queues as a migration makes them, of names in capitals too, and a binding by a wildcard.
    select pgmq.create(name) from unnest('{orders, orders__dead, Plain}'::text[]) name;
    select pgmq.bind_topic('order.#', 'orders');
    select pgmq.create_unlogged('unlogged'), pgmq.create_unlogged('unlogged__dead');
    select pgmq.enable_notify_insert('Plain');
    select pgmq.send('Plain', '"ü"', '{"h": [1]}'::jsonb), pgmq.send('unlogged', '1');
    select public.event_bus_send('order.placed', jsonb_build_object('payload', jsonb_build_object('dedupeKey', 'k' || i)))
      from generate_series(1, 20) i;
    -- In the mailer's queue: 1 archived, 2 dead, 3 requeued, 4 and 5 leased, the rest visible.
    select public.event_bus_read('order.placed__mailer', 1000000000, 5);
    select public.event_bus_archive('order.placed__mailer', 1, 1);
    select public.event_bus_bury('order.placed__mailer', 3, null, 1);
    select public.event_bus_requeue('order.placed__mailer', 1);
    select public.event_bus_bury('order.placed__mailer', 2, 'why', 1);
    select public.event_bus_archive('order.placed__audit', 1);
"##;

/// Each table of the schemas public and pgmq with a digest of its rows, and each sequence with where it stands.
pub fn contents(superuser: &mut Client) -> BTreeMap<String, String> {
    let relations = rows(
        superuser,
        "select c.oid::regclass, c.relkind from pg_class c
          where c.relkind in ('r', 'S') and c.relnamespace in ('public'::regnamespace, 'pgmq'::regnamespace)",
    );
    let mut contents = BTreeMap::new();
    for relation in relations {
        let [name, kind] = &relation[..] else { panic!("{relation:?}") };
        let query = match (name.as_str(), kind.as_str()) {
            (_, "S") => format!("select last_value || ' ' || is_called from {name}"),
            // A binding that was mended is as old as its mending.
            ("pgmq.topic_bindings", _) => digest("(select pattern, queue_name from pgmq.topic_bindings)"),
            // When a queue was last notified is nobody's data.
            ("pgmq.notify_insert_throttle", _) => {
                digest("(select queue_name, throttle_interval_ms from pgmq.notify_insert_throttle)")
            }
            _ => digest(name),
        };
        contents.insert(name.clone(), value(superuser, &query));
    }
    contents
}

fn digest(table: &str) -> String {
    format!("select count(*) || ' ' || coalesce(md5(string_agg(t::text, E'\\n' order by t::text)), '') from {table} t")
}

/// Who may do what with the extension's functions, tables and views.
pub fn rights(superuser: &mut Client) -> Vec<Vec<String>> {
    rows(
        superuser,
        "select o.identity, a.grantee::regrole, a.privilege_type
           from pg_depend d
           join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
           cross join lateral pg_identify_object(d.classid, d.objid, 0) o
           left join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
           left join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
           cross join lateral aclexplode(coalesce(p.proacl, c.relacl)) a
          where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e' and o.schema <> 'tests'
          order by 1, 2, 3",
    )
}

/// Where what [`fill`] left is taken up again, as the application's role: what was in flight is finished by who holds it, what
/// is done stays done, no token goes back, and no message's id comes twice.
pub fn work_goes_on(superuser: &mut Client, application: &mut Client) {
    let mut id_of = |key: &str| value(superuser, &format!("select id from public.jobs where job_key = '{key}'"));
    let (running, taken_over) = (id_of("running"), id_of("taken over"));
    let mut answers = |sql: &str, expected: &[&str]| {
        let came: Vec<String> = rows(application, sql).iter().map(|row| row.join(" | ")).collect();
        assert_eq!(came, expected, "{sql}");
    };
    let claim = |key: &str| {
        format!(
            "select fencing_token, current_step from public.job_claim('mail', '{key}', 'x', '2100-01-01', '{{}}', null)"
        )
    };
    answers(&claim("running"), &[]);
    answers(&claim("done"), &[]);
    answers(&claim("failed"), &["2 | ∅"]);
    answers(&claim("taken over"), &["4 | line\nwith \\ and \t"]);
    answers(&format!("select * from public.job_complete('{taken_over}', 3, null)"), &[]);
    answers(&format!("select * from public.job_complete('{running}', 1, null)"), &[&running]);
    answers("select * from public.job_tick_claim('t', '2026-01-01T00:01:00Z')", &[]);
    answers("select name from public.job_tick_claim('t', '2026-01-01T00:02:00Z')", &["t"]);

    answers(
        "select payload, \"correlationId\" from public.queue_waiting(10)",
        &["[100000000000000000000, -1.0, \"\"] | cörr"],
    );
    answers("select public.queue_mark_sent(array(select id from public.queue_waiting(10)), null)", &[""]);
    answers("select * from public.queue_waiting(10)", &[]);

    answers("select * from public.inbox_claim_event('door', 'delivery')", &[]);
    answers(
        "select state, outcome from public.inbox_claim_request('ann', 'pay', 'done', '{\"n\": 1.0}')",
        &["replay | {\"value\": null}"],
    );
    answers("select state from public.inbox_claim_request('ann', 'pay', 'open', '{}')", &["incomplete"]);
    answers("select outcome from public.inbox_save_client_outcome('client:ann:pay', 'open', '1')", &["1"]);

    answers(
        "select attempts, reason, message from public.event_bus_dead_letters('order.placed__mailer')",
        &["1 | why | {\"payload\": {\"dedupeKey\": \"k2\"}}"],
    );
    answers("select msg_id from public.event_bus_archive('order.placed__mailer', 4, 1)", &["4"]);
    answers("select msg_id from public.event_bus_bury('order.placed__mailer', 5, 'why', 1)", &["3"]);
    answers("select msg_id from public.event_bus_read('order.placed__mailer', 60, 2)", &["6", "7"]);
    answers("select msg_id from public.event_bus_requeue('order.placed__mailer', 2)", &["22"]);
    answers("select * from public.event_bus_send('order.placed', '{\"payload\": {\"dedupeKey\": \"k21\"}}')", &["3"]);
    answers(
        "select msg_id from public.event_bus_read('order.placed__mailer', 60, 100) order by msg_id desc limit 3",
        &["23", "22", "21"],
    );
    answers("select count(*) from public.event_bus_read('order.placed__audit', 60, 100)", &["20"]);
}

/// What is wrong with the bus.
pub fn problems(session: &mut Client) -> Vec<Vec<String>> {
    rows(session, "select problem, topic, queue from public.event_bus_check()")
}

/// The extension's functions in this database, each as its name and its number of arguments.
pub fn functions(superuser: &mut Client) -> Vec<String> {
    column(
        superuser,
        "select p.proname || '/' || p.pronargs
           from pg_depend d
           join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
           join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
          where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
            and p.pronamespace = 'public'::regnamespace
          order by 1",
    )
}

/// Sessions that stay open, with the plans that they saved, while the database changes under them.
pub struct Sessions {
    pub superuser: Client,
    pub operator: Client,
    pub application: Client,
}

impl Sessions {
    pub fn new(database: &Database) -> Sessions {
        Sessions {
            superuser: database.connect(),
            operator: database.connect_as("operator"),
            application: database.connect_as("app_be"),
        }
    }

    /// Calls every function that the extension has here: as an application, an operator, or the owner, whoever may do least.
    /// `run` makes its names new; it is a word of small letters.
    pub fn call_every_function(&mut self, run: &str) {
        let functions = functions(&mut self.superuser);
        for function in &functions {
            assert!(CALLS.iter().any(|(_, called, _)| called == function), "no call of {function} in CALLS");
        }
        for (role, function, sql) in CALLS.iter().filter(|(_, called, _)| functions.iter().any(|f| f == called)) {
            let session = match role {
                Role::Owner => &mut self.superuser,
                Role::Operator => &mut self.operator,
                Role::Application => &mut self.application,
            };
            let sql = sql.replace("{run}", run);
            assert!(!rows(session, &sql).is_empty(), "{function} answered no row: {sql}");
        }
    }
}

enum Role {
    Owner,
    Operator,
    Application,
}
use Role::{Application, Operator, Owner};

/// Calls in an order in which each answers a row, whatever else is in the database.
const CALLS: [(Role, &str, &str); 46] = [
    (Owner, "hfs_lite_revoke/1", "select public.hfs_lite_revoke('operator')"),
    (Owner, "hfs_lite_grant/2", "select public.hfs_lite_grant('operator', 'operator')"),
    (Application, "canonical_json/1", "select public.canonical_json('{\"n\": 1.50}')"),
    (Application, "request_fingerprint/1", "select public.request_fingerprint('{}')"),
    (
        Application,
        "job_claim/6",
        "select id from public.job_claim('mail', 'claim {run}', 'w', '2018-01-02', '{}', '2018-01-01')",
    ),
    (
        Application,
        "job_advance/4",
        "select a.id from public.job_claim('mail', 'advance {run}', 'w', '2018-01-02', '{}', '2018-01-01') j,
                          public.job_advance(j.id, j.fencing_token, 'step', '2018-01-01') a",
    ),
    (
        Application,
        "job_fail/4",
        "select f.id from public.job_claim('mail', 'fail {run}', 'w', '2018-01-02', '{}', '2018-01-01') j,
                          public.job_fail(j.id, j.fencing_token, 'why', '2018-01-01') f",
    ),
    (
        Application,
        "job_complete/3",
        "select c.id from public.job_claim('mail', 'complete {run}', 'w', '2018-01-02', '{}', '2018-01-01') j,
                          public.job_complete(j.id, j.fencing_token, '2018-01-01') c",
    ),
    (
        Application,
        "job_claim_many/6",
        "select id from public.job_claim_many('mail', '{many {run},more {run}}', 'w', '2018-01-02', '{1,2}', '2018-01-01')",
    ),
    (
        Application,
        "job_heartbeat/4",
        "select b.id from public.job_claim('mail', 'beat {run}', 'w', '2018-01-02', '{}', '2018-01-01') j,
                          public.job_heartbeat(j.id, j.fencing_token, '2018-01-03', '2018-01-01') b",
    ),
    (
        Application,
        "job_fail_many/4",
        "select f.id from public.job_claim('mail', 'fail many {run}', 'w', '2018-01-02', '{}', '2018-01-01') j,
                          public.job_fail_many(array[j.id], array[j.fencing_token], '{why}', '2018-01-01') f
          where f.verdict = 'done'",
    ),
    (
        Application,
        "job_complete_many/3",
        "select c.id from public.job_claim('mail', 'complete many {run}', 'w', '2018-01-02', '{}', '2018-01-01') j,
                          public.job_complete_many(array[j.id], array[j.fencing_token], '2018-01-01') c
          where c.verdict = 'done'",
    ),
    (Operator, "jobs_sweep/2", "select 1 from public.jobs_sweep('2019-01-01', 10) where deleted_count > 0"),
    (Application, "job_tick_claim/3", "select name from public.job_tick_claim('tick {run}', '2026-01-01')"),
    (Application, "queue_write/4", "select public.queue_write('mail', '{}', '2018-01-01', '{run}')"),
    (Application, "queue_waiting/1", "select id from public.queue_waiting(1) where \"correlationId\" = '{run}'"),
    (
        Application,
        "queue_mark_sent/2",
        "select public.queue_mark_sent(array(select id from public.queue_waiting(1)), '2018-01-01')",
    ),
    (Operator, "queue_sweep/2", "select 1 from public.queue_sweep('2019-01-01', 10) where deleted_count > 0"),
    (
        Application,
        "queue_write_many/4",
        "select public.queue_mark_sent(array(select id from public.queue_write_many('mail', '{1,2}', '2018-01-01', null)),
                                       '2018-01-01')",
    ),
    (Application, "inbox_claim_event/2", "select event_id from public.inbox_claim_event('door', 'event {run}')"),
    (
        Application,
        "inbox_claim_events/2",
        "select event_id from public.inbox_claim_events('door', '{many {run},more {run}}')",
    ),
    (Operator, "inbox_forget/2", "select event_id from public.inbox_forget('door', 'event {run}')"),
    (Operator, "inbox_sweep_events/2", "select deleted_count from public.inbox_sweep_events('2019-01-01', 10)"),
    (Application, "inbox_claim_request/5", "select state from public.inbox_claim_request('bob', 'pay', '{run}', '{}')"),
    (
        Application,
        "inbox_claim_client/4",
        "select 1 from public.inbox_claim_client('door', 'client {run}', 'f', '2018-01-01') where not incomplete",
    ),
    (
        Application,
        "inbox_save_client_outcome/3",
        "select outcome from public.inbox_save_client_outcome('door', 'client {run}', '1')",
    ),
    (
        Application,
        "inbox_sweep_clients/2",
        "select 1 from public.inbox_sweep_clients('2019-01-01', 10) where deleted_count > 0",
    ),
    (Operator, "event_bus_subscribe/2", "select queue from public.event_bus_subscribe('{run}', 'c')"),
    (
        Application,
        "event_bus_send/2",
        "select 1 from public.event_bus_send('{run}', '{\"payload\": {\"dedupeKey\": \"k\"}}') where queues > 0",
    ),
    (
        Application,
        "event_bus_send/4",
        "select 1 from public.event_bus_send('e', '{run}', '{\"dedupeKey\": \"k\"}', null) where queues > 0",
    ),
    (Application, "event_bus_read/3", "select msg_id from public.event_bus_read('{run}__c', 60, 10) where read_ct = 1"),
    (Application, "event_bus_archive/3", "select msg_id from public.event_bus_archive('{run}__c', 1, 1)"),
    (Application, "event_bus_bury/4", "select msg_id from public.event_bus_bury('{run}__c', 2, 'why', 1)"),
    (
        Application,
        "event_bus_send_many/2",
        "select 1 from public.event_bus_send_many('{run}', array['{\"payload\": {\"dedupeKey\": \"m\"}}'::jsonb])
          where queues > 0",
    ),
    (
        Application,
        "event_bus_extend/4",
        "select e.msg_id from public.event_bus_read('{run}__c', 60, 1) r,
                              public.event_bus_extend('{run}__c', r.msg_id, r.read_ct, 120) e",
    ),
    (
        Application,
        "event_bus_archive_many/3",
        "select msg_id from public.event_bus_archive_many('{run}__c', '{3}', '{1}') where verdict = 'done'",
    ),
    (Application, "event_bus_dead_letters/2", "select msg_id from public.event_bus_dead_letters('{run}__c', 1)"),
    (
        Operator,
        "event_bus_all_dead_letters/1",
        "select msg_id from public.event_bus_all_dead_letters(1) where queue = '{run}__c'",
    ),
    (Operator, "hfs_lite_health/0", "select 1 from public.hfs_lite_health() where name = '{run}__c'"),
    (Operator, "hfs_lite_age/2", "select public.hfs_lite_age(now())"),
    (Application, "event_bus_requeue/2", "select msg_id from public.event_bus_requeue('{run}__c', 1)"),
    (
        Operator,
        "event_bus_sweep/3",
        "select 1 from public.event_bus_sweep('{run}__c', '2100-01-01', 10) where deleted_count > 0",
    ),
    (Operator, "event_bus_check/0", "select count(*) from public.event_bus_check()"),
    (Operator, "event_bus_record/1", "select count(*) from public.event_bus_record('{run}__c')"),
    (Operator, "event_bus_repair/0", "select count(*) from public.event_bus_repair()"),
    (Operator, "event_bus_unsubscribe/2", "select queue from public.event_bus_unsubscribe('{run}', '{run}__c')"),
];
