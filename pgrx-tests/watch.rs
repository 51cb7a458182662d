//! Watching: the numbers of hfs_lite_health, ages in words, and the views for people.

use super::checks::contents;
use super::harness::{Database, column, refusal, refused, rows, value};
use postgres::Client;

/// A number of hfs_lite_health as text; NULL as `∅`.
#[track_caller]
fn metric(session: &mut Client, name: &str, metric: &str) -> String {
    value(session, &format!("select value from public.hfs_lite_health() where name = '{name}' and metric = '{metric}'"))
}

/// An age that is so many seconds, and no more than two minutes of a slow test more.
#[track_caller]
fn aged(session: &mut Client, name: &str, of: &str, seconds: f64) {
    let age: f64 = metric(session, name, of).parse().unwrap();
    assert!((seconds..seconds + 120.0).contains(&age), "{name} {of}: {age}");
}

const QUEUE: &str = "order.created__billing";

#[test]
fn an_empty_database_has_nothing_and_no_ages() {
    let database = Database::new();
    let mut monitor = database.connect_as("monitor");
    let answer = "select area, name, metric, value, unit from public.hfs_lite_health() where metric <> 'dead_tuples'";
    let expected = [
        ["jobs", "jobs", "running", "0", "jobs"],
        ["jobs", "jobs", "lease_ended", "0", "jobs"],
        ["jobs", "jobs", "failed", "0", "jobs"],
        ["jobs", "jobs", "oldest_failed_age", "∅", "seconds"],
        ["jobs", "jobs", "to_sweep", "0", "jobs"],
        ["queue", "queue", "waiting", "0", "rows"],
        ["queue", "queue", "oldest_waiting_age", "∅", "seconds"],
        ["queue", "queue", "to_sweep", "0", "rows"],
        ["inbox", "inbox", "incomplete", "0", "receipts"],
        ["inbox", "inbox", "oldest_incomplete_age", "∅", "seconds"],
    ];
    assert_eq!(rows(&mut monitor, answer), expected);
    let dead = "select area, name, value, unit from public.hfs_lite_health() where metric = 'dead_tuples'";
    let expected = ["jobs jobs", "queue queue", "inbox inbox", "ticks job_ticks"].map(|of| {
        let (area, name) = of.split_once(' ').unwrap();
        [area, name, "0", "tuples"]
    });
    assert_eq!(rows(&mut monitor, dead), expected);
}

#[test]
fn jobs_are_counted_by_what_is_wrong_with_them() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select job_claim('k', 'runs', 'w', '3000-01-01', '{}', null),
                    job_claim('k', 'ended', 'w', '2026-01-02', '{}', '2026-01-01');
             select job_complete(id, 1, null) from job_claim('k', 'done', 'w', '3000-01-01', '{}', null);
             select job_fail(id, 1, 'r', null) from job_claim('k', 'failed', 'w', '3000-01-01', '{}', null);
             select job_fail(id, 1, 'r', clock_timestamp() - interval '1 hour')
               from job_claim('k', 'failed before', 'w', '3000-01-01', '{}', null);
             insert into jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
             values ('k', 'by hand, without a lease', 'running', 1, '{}', now(), now())",
        )
        .unwrap();
    let mut monitor = database.connect_as("monitor");
    for (of, expected) in [("running", "3"), ("lease_ended", "1"), ("failed", "2"), ("to_sweep", "0")] {
        assert_eq!(metric(&mut monitor, "jobs", of), expected, "{of}");
    }
    aged(&mut monitor, "jobs", "oldest_failed_age", 3600.0);
}

#[test]
fn the_outbox_tells_what_waits_and_since_when() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select queue_write('q', '{}', clock_timestamp() - interval '2 days', null),
                    queue_write('q', '{}', null, null);
             insert into queue (queue, payload, created_at, sent_at)
             values ('sent', '{}', now() - interval '1 year', now() - interval '1 year')",
        )
        .unwrap();
    let mut monitor = database.connect_as("monitor");
    assert_eq!(metric(&mut monitor, "queue", "waiting"), "2");
    aged(&mut monitor, "queue", "oldest_waiting_age", 2.0 * 86_400.0);
    superuser.batch_execute("select queue_mark_sent(array_agg(id), null) from queue_waiting(10)").unwrap();
    assert_eq!(metric(&mut monitor, "queue", "waiting"), "0");
    assert_eq!(metric(&mut monitor, "queue", "oldest_waiting_age"), "∅");
}

#[test]
fn what_is_to_sweep_is_what_is_older_than_its_retention() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "insert into queue (queue, payload, created_at, sent_at)
             select 'q', '{}', now(), now() - (n - 0.5) * interval '1 day' from generate_series(1, 10) n;
             insert into jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
             select 'k', n, 'done', 1, '{}'::jsonb, now(), now() - (n - 0.5) * interval '1 day' from generate_series(1, 40) n",
        )
        .unwrap();
    let retained = "select current_setting('hfs_lite.retain_queue'), current_setting('hfs_lite.retain_jobs')";
    assert_eq!(metric(&mut superuser, "queue", "to_sweep"), "3");
    assert_eq!(metric(&mut superuser, "jobs", "to_sweep"), "10");
    assert_eq!(rows(&mut superuser, retained), [["7 days", "30 days"]]);
}

#[test]
fn a_receipt_without_an_outcome_is_incomplete_after_a_minute() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select inbox_claim_client('s', 'new', 'f', null), inbox_claim_event('s', 'delivery'),
                    inbox_claim_client('s', 'old', 'f', clock_timestamp() - interval '61 seconds'),
                    inbox_claim_client('s', 'older', 'f', clock_timestamp() - interval '1 hour'),
                    inbox_claim_client('s', 'done', 'f', clock_timestamp() - interval '2 hours');
             select inbox_save_client_outcome('s', 'done', '{}');
             update inbox set claimed_at = now() - interval '3 hours' where event_id = 'delivery'",
        )
        .unwrap();
    let mut monitor = database.connect_as("monitor");
    assert_eq!(metric(&mut monitor, "inbox", "incomplete"), "2");
    aged(&mut monitor, "inbox", "oldest_incomplete_age", 3600.0);
}

#[test]
fn each_queue_tells_what_is_visible_hidden_and_dead_and_its_oldest_message() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select event_bus_subscribe('order.created', 'billing'), event_bus_subscribe('order.created', 'shipping');
             select event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}') from generate_series(1, 6);
             select event_bus_read('order.created__billing', 3600, 3);
             select event_bus_archive('order.created__billing', 1), event_bus_bury('order.created__billing', 2);
             update pgmq.\"q_order.created__billing\" set enqueued_at = now() - interval '1 hour' where msg_id = 3;
             select event_bus_read('order.created__shipping', 3600, 6);
             select event_bus_archive('order.created__shipping', i) from generate_series(1, 6) i;
             select pgmq.create('alone'), pgmq.create('__dead'), pgmq.create('nobodys__dead')",
        )
        .unwrap();
    let mut monitor = database.connect_as("monitor");
    let counted = "select name, string_agg(metric || ' ' || value, ', ' order by metric)
          from public.hfs_lite_health() where area = 'event_bus' and unit = 'messages'
         group by name order by name collate \"C\"";
    assert_eq!(
        rows(&mut monitor, counted),
        [
            // A dead-letter queue is its queue's; one without a queue is a queue like any other.
            ["__dead", "in_flight 0, visible 0"],
            ["alone", "in_flight 0, visible 0"],
            ["nobodys__dead", "in_flight 0, visible 0"],
            [QUEUE, "dead 1, in_flight 1, visible 3"],
            ["order.created__shipping", "dead 0, in_flight 0, visible 0"],
        ]
    );
    aged(&mut monitor, QUEUE, "oldest_age", 3600.0);
    assert_eq!(metric(&mut monitor, "order.created__shipping", "oldest_age"), "∅", "what is archived has no age");
    assert!(metric(&mut monitor, QUEUE, "dead_tuples").parse::<u64>().is_ok());
}

#[test]
fn no_number_is_counted_beyond_ten_thousand() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select event_bus_subscribe('order.created', 'billing');
             insert into queue (queue, payload, created_at) select 'q', '{}', now() from generate_series(1, 10001);
             insert into jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at, lease_expires_at)
             select 'k', i, case when i > 10001 then 'failed' else 'running' end, 1, '{}', now(), now(), '2026-01-01'
               from generate_series(1, 20002) i;
             insert into inbox (source, event_id, request_fingerprint, claimed_at)
             select 's', i, 'f', '2026-01-01' from generate_series(1, 10001) i;
             insert into pgmq.\"q_order.created__billing\" (vt, message)
             select case when i > 10001 then timestamptz '3000-01-01' else '2026-01-01' end, '{}'
               from generate_series(1, 20002) i;
             insert into pgmq.\"q_order.created__billing__dead\" (vt, message)
             select now(), '{}' from generate_series(1, 10001)",
        )
        .unwrap();
    let most = "select string_agg(area || ' ' || metric, ', ' order by metric)
          from public.hfs_lite_health() where value = 10000";
    assert_eq!(
        value(&mut database.connect_as("monitor"), most),
        "event_bus dead, jobs failed, event_bus in_flight, inbox incomplete, jobs lease_ended, jobs running, \
         event_bus visible, queue waiting"
    );
}

#[test]
fn a_queue_whose_table_is_gone_is_passed_over() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select event_bus_subscribe('order.created', 'billing'), event_bus_subscribe('order.created', 'shipping'),
                    event_bus_subscribe('order.created', 'sales')",
        )
        .unwrap();
    let mut monitor = database.connect_as("monitor");
    let queues = "select distinct name from public.hfs_lite_health() where area = 'event_bus' order by name";
    assert_eq!(column(&mut monitor, queues).len(), 3);
    superuser
        .batch_execute(
            "drop table pgmq.\"q_order.created__billing\", pgmq.\"q_order.created__billing__dead\";
             drop table pgmq.\"q_order.created__sales\"",
        )
        .unwrap();
    // In the session that has met them, and in a new one.
    for mut session in [monitor, database.connect_as("monitor")] {
        // What is dead outlives its queue.
        assert_eq!(column(&mut session, queues), ["order.created__sales", "order.created__shipping"]);
        assert_eq!(
            value(&mut session, "select metric from public.hfs_lite_health() where name = 'order.created__sales'"),
            "dead"
        );
        assert_eq!(column(&mut session, "select queue from public.hfs_lite_dead_letters"), Vec::<String>::new());
    }
}

#[test]
fn watching_changes_nothing_and_works_in_a_read_only_transaction() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select event_bus_subscribe('order.created', 'billing'), queue_write('q', '{}', null, null);
             select event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}');
             select event_bus_bury('order.created__billing', 1)",
        )
        .unwrap();
    let before = contents(&mut superuser);
    for role in ["monitor", "operator"] {
        let mut session = database.connect_as(role);
        session.batch_execute("begin read only").unwrap();
        for watch in
            ["hfs_lite_health()", "hfs_lite_jobs", "hfs_lite_outbox", "hfs_lite_dead_letters", "event_bus_check()"]
        {
            rows(&mut session, &format!("select * from public.{watch}"));
        }
        assert_eq!(value(&mut session, "select pg_current_xact_id_if_assigned() is null"), "t", "{role}");
        session.batch_execute("commit").unwrap();
    }
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn an_age_is_the_largest_unit_that_fits() {
    let database = Database::new();
    let mut session = database.connect_as("monitor");
    let now = "2026-03-01 12:00:00+00";
    for (ago, words) in [
        ("0", "0 seconds"),
        ("0.999999 seconds", "0 seconds"),
        ("1 second", "1 second"),
        ("59.999999 seconds", "59 seconds"),
        ("1 minute", "1 minute"),
        ("119 seconds", "1 minute"),
        ("2 minutes", "2 minutes"),
        ("59 minutes 59 seconds", "59 minutes"),
        ("1 hour", "1 hour"),
        ("23 hours 59 minutes 59.999999 seconds", "23 hours"),
        ("24 hours", "1 day"),
        ("47 hours 59 minutes", "1 day"),
        ("48 hours", "2 days"),
        ("24000 hours", "1000 days"),
    ] {
        let age = |at: &str| format!("select public.hfs_lite_age(timestamptz '{now}' {at} interval '{ago}', '{now}')");
        assert_eq!(value(&mut session, &age("-")), words, "{ago}");
        let later = if words == "0 seconds" { words.to_owned() } else { format!("in {words}") };
        assert_eq!(value(&mut session, &age("+")), later, "in {ago}");
    }
    // As far as instants go; PostgreSQL counts the same days.
    for (instant, before) in [("4713-11-24 12:00+00 BC", ""), ("294276-12-31 23:59:59.999999+00", "in ")] {
        let counted =
            format!("select '{before}' || abs(extract(day from timestamptz '{now}' - '{instant}')) || ' days'");
        let age = format!("select public.hfs_lite_age('{instant}', '{now}')");
        assert_eq!(value(&mut session, &age), value(&mut session, &counted));
    }
    for instant in ["'infinity'", "'-infinity'", "null"] {
        assert_eq!(value(&mut session, &format!("select public.hfs_lite_age({instant}, '{now}')")), "∅", "{instant}");
    }
    assert_eq!(
        value(&mut session, "select public.hfs_lite_age(clock_timestamp() - interval '90 seconds')"),
        "1 minute"
    );
    assert_eq!(
        value(&mut session, "select public.hfs_lite_age(clock_timestamp() - interval '90 seconds', null)"),
        "1 minute"
    );
    for now in ["'infinity'", "'-infinity'"] {
        refused(&mut session, &format!("select public.hfs_lite_age('2026-01-01', {now})"), "22023", "p_now");
        refused(&mut session, &format!("select public.hfs_lite_age(null, {now})"), "22023", "p_now");
    }
}

#[test]
fn the_views_tell_people_in_words() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "create function pg_temp.ago(interval) returns timestamptz return clock_timestamp() - $1;
             insert into jobs (kind, job_key, status, fencing_token, lease_expires_at, payload, error, created_at, updated_at)
             select 'mail', key, status, 1, pg_temp.ago(lease), '{}', error, pg_temp.ago(created), pg_temp.ago(updated)
               from (values ('1', 'running', interval '-3 hours 1 minute', null, interval '2 days', interval '1 day'),
                            ('2', 'running', '1 minute', null, '1 hour', '1 hour'),
                            ('3', 'failed', null, 'why', '1 hour', '1 hour'),
                            ('4', 'done', null, null, '1 hour', '1 hour')
                    ) j (key, status, lease, error, created, updated);
             select queue_write('mail', '{}', pg_temp.ago('10 minutes'), 'c');
             insert into queue (queue, payload, created_at, sent_at)
             values ('sms', '{}', pg_temp.ago('2 hours'), pg_temp.ago('1 hour'));
             select event_bus_subscribe('order.created', 'billing');
             select event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}');
             update pgmq.\"q_order.created__billing\" set enqueued_at = pg_temp.ago('5 hours'), read_ct = 7;
             select event_bus_bury('order.created__billing', 1, 'no such customer');
             update pgmq.\"q_order.created__billing__dead\"
                set headers = jsonb_set(headers, '{hfs_lite,buried_at}', to_jsonb(pg_temp.ago('4 hours')))",
        )
        .unwrap();
    for role in ["operator", "monitor"] {
        let mut session = database.connect_as(role);
        let jobs =
            "select job_key, state, lease_end, age, last_write, error from public.hfs_lite_jobs order by job_key";
        assert_eq!(
            rows(&mut session, jobs),
            [
                ["1", "running", "in 2 hours", "2 days", "1 day", "∅"],
                ["2", "lease ended", "1 minute", "1 hour", "1 hour", "∅"],
                ["3", "failed", "∅", "1 hour", "1 hour", "why"],
                ["4", "done", "∅", "1 hour", "1 hour", "∅"],
            ]
        );
        let outbox = "select queue, state, age, sent, correlation_id from public.hfs_lite_outbox order by queue";
        assert_eq!(
            rows(&mut session, outbox),
            [["mail", "waiting", "10 minutes", "∅", "c"], ["sms", "sent", "2 hours", "1 hour", "∅"]]
        );
        let dead = "select queue, msg_id, reason, attempts, age, buried from public.hfs_lite_dead_letters";
        assert_eq!(rows(&mut session, dead), [[QUEUE, "1", "no such customer", "7", "5 hours", "4 hours"]]);
        let write = refusal(session.simple_query("delete from public.hfs_lite_jobs"));
        assert_eq!(write.code().code(), "42501");
    }
}
