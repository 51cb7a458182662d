//! The sweeper: it deletes what is past its retention and nothing else, whatever happens around it.

use crate::black_box::harness::{Cluster, Database, column, refusal, refused, rows, value, wait_until};
use postgres::Client;
use std::time::{Duration, Instant};

const PRELOADED: &str = "shared_preload_libraries=hfs_lite";
const EVERY_SECOND: &str = "hfs_lite.sweep_interval=1";
/// A round in a day: what happens at once happens because the settings were changed.
const EVERY_DAY: &str = "hfs_lite.sweep_interval=1d";

/// In each table six rows of half a day, a day and a half, and so on, and some that are old and no sweep's business.
const ROWS: &str = "
    create table days as select n, now() - (n + 0.5) * interval '1 day' as at from generate_series(0, 5) n;
    insert into jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
    select 'mail', 'done ' || n, 'done', 1, '{}'::jsonb, at, at from days
    union all select 'mail', 'failed', 'failed', 1, '{}', now() - interval '1 year', now() - interval '1 year'
    union all select 'mail', 'running', 'running', 1, '{}', now() - interval '1 year', now() - interval '1 year';
    insert into queue (queue, payload, created_at, sent_at)
    select 'mail', '{}'::jsonb, at, at from days
    union all select 'mail', '{}', now() - interval '1 year', null;
    insert into inbox (source, event_id, claimed_at, request_fingerprint, outcome)
    select 'client', 'c' || n, at, 'f', '1'::jsonb from days
    union all select 'client', 'incomplete', now() - interval '1 year', 'f', null
    union all select 'bus', 'e' || n, at, null, null from days;
    select event_bus_subscribe('order.paid', 'mail');
    select event_bus_send('order.paid', '{\"payload\": {\"dedupeKey\": \"k\"}}');
    update pgmq.\"q_order.paid__mail\" set enqueued_at = now() - interval '1 year';
    select pgmq.create('of_another');
    insert into pgmq.\"a_order.paid__mail\" (msg_id, enqueued_at, archived_at, vt, message)
    select 100 + n, at, at, at, '{}' from days;
    insert into pgmq.\"a_order.paid__mail__dead\" (msg_id, enqueued_at, archived_at, vt, message)
    select 100 + n, at, at, at, '{}' from days;
    insert into pgmq.a_of_another (msg_id, enqueued_at, archived_at, vt, message)
    select 100 + n, at, at, at, '{}' from days;";

/// How many rows of each kind there are: of those that a retention is about, and of the others.
const COUNTS: &str = "
    select (select count(*) from jobs where status = 'done'),
           (select count(*) from queue where sent_at is not null),
           (select count(*) from inbox where outcome is not null),
           (select count(*) from inbox where request_fingerprint is null),
           (select count(*) from pgmq.\"a_order.paid__mail\"),
           (select count(*) from pgmq.\"a_order.paid__mail__dead\"),
           (select count(*) from jobs where status <> 'done')
             + (select count(*) from queue where sent_at is null)
             + (select count(*) from inbox where request_fingerprint is not null and outcome is null)
             + (select count(*) from pgmq.\"q_order.paid__mail\")
             + (select count(*) from pgmq.a_of_another)";
const ALL: [&str; 7] = ["6", "6", "6", "6", "6", "6", "11"];

const OLD_JOB: &str = "
    insert into jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
    values ('mail', 'old', 'done', 1, '{}', now() - interval '1 year', now() - interval '1 year')";
// A crash may have brought it back.
const OLD_DELIVERY: &str = "
    insert into inbox (source, event_id, claimed_at) values ('bus', 'old', now() - interval '1 year')
    on conflict do nothing";
const NO_JOB: &str = "not exists (select from jobs)";
const NO_DELIVERY: &str = "not exists (select from inbox)";

/// A new database with the extension.
fn create(server: &Cluster, database: &str) -> Client {
    server.connect("postgres").batch_execute(&format!("create database {database}")).unwrap();
    let mut session = server.connect(database);
    session.batch_execute("create extension hfs_lite cascade").unwrap();
    session
}

/// Changes settings, each `name = value`, and has the server take them over.
fn configure(session: &mut Client, settings: &[&str]) {
    for setting in settings {
        session.batch_execute(&format!("alter system set hfs_lite.{setting}")).unwrap();
    }
    session.batch_execute("select pg_reload_conf()").unwrap();
}

/// Returns when a round that began after the call has ended in this database.
#[track_caller]
fn see_a_round(session: &mut Client) {
    // The first delivery may go in a round that had begun before. Jobs are swept before deliveries.
    for _ in 0..2 {
        session.batch_execute(OLD_DELIVERY).unwrap();
        wait_until(session, "not exists (select from inbox where event_id = 'old')");
    }
}

fn sweeper(session: &mut Client) -> Vec<String> {
    column(session, "select pid from pg_stat_activity where backend_type = 'hfs_lite sweeper'")
}

/// Connects, as soon as a server lets us in that is recovering from a crash.
fn connect_again(server: &Cluster, database: &str) -> Client {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match server.config(database).connect(postgres::NoTls) {
            Ok(session) => return session,
            Err(error) => assert!(Instant::now() < deadline, "the server never came back: {error}"),
        }
    }
}

#[test]
fn each_table_is_swept_by_its_own_retention_in_each_database_that_is_named() {
    let server = Cluster::start(&[PRELOADED, EVERY_DAY]);
    let mut databases = ["shop", "office", "garage"].map(|name| create(&server, name));
    for database in &mut databases {
        database.batch_execute(ROWS).unwrap();
    }
    let [shop, office, garage] = &mut databases;
    configure(
        shop,
        &[
            "retain_jobs = '1 day'",
            "retain_queue = '2 days'",
            "retain_inbox_clients = '72:00:00'",
            "retain_inbox_events = 'P4D'",
            "retain_event_bus = '5 days'",
            "sweep_databases = 'shop, office'",
        ],
    );
    for (name, database) in [("shop", &mut *shop), ("office", &mut *office)] {
        wait_until(database, "(select count(*) = 5 from pgmq.\"a_order.paid__mail__dead\")");
        assert_eq!(rows(database, COUNTS), [["1", "2", "3", "4", "5", "5", "11"]], "{name}");
    }
    assert_eq!(rows(garage, COUNTS), [ALL], "it is not named");
    server.stop();
    let log = server.log();
    for (of, deleted) in [
        ("jobs", 5),
        ("queue", 4),
        ("inbox_clients", 3),
        ("inbox_events", 2),
        ("event_bus, queue \"order.paid__mail\",", 1),
        ("event_bus, queue \"order.paid__mail__dead\",", 1),
    ] {
        for name in ["shop", "office"] {
            let line = format!("LOG:  hfs_lite sweeper: deleted {deleted} rows of {of} in database \"{name}\"");
            assert_eq!(log.matches(&line).count(), 1, "{line}\n{log}");
        }
    }
    assert!(!log.contains("garage"), "{log}");
}

#[test]
fn more_old_rows_than_fit_into_a_batch_go_in_one_round() {
    let server = Cluster::start(&[PRELOADED, EVERY_DAY]);
    let mut shop = create(&server, "shop");
    shop.batch_execute(
        "insert into inbox (source, event_id, claimed_at)
         select 'bus', n::text, now() - n * interval '1 h' from generate_series(1, 5000) n",
    )
    .unwrap();
    configure(&mut shop, &["retain_inbox_events = '1 h 30 min'", "sweep_databases = 'shop'"]);
    wait_until(&mut shop, "(select count(*) = 1 from inbox)");
}

#[test]
fn an_empty_retention_keeps_all_rows_until_it_is_changed() {
    let server = Cluster::start(&[PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=shop"]);
    let mut shop = create(&server, "shop");
    configure(&mut shop, &["retain_jobs = ''"]);
    // The change is seen by the sweeper before it starts a round of its own accord.
    see_a_round(&mut shop);
    shop.batch_execute(OLD_JOB).unwrap();
    see_a_round(&mut shop);
    assert_eq!(value(&mut shop, "select count(*) from jobs"), "1");
    configure(&mut shop, &["retain_jobs = '2 years'"]);
    see_a_round(&mut shop);
    assert_eq!(value(&mut shop, "select count(*) from jobs"), "1");
    configure(&mut shop, &["retain_jobs = '1 month'"]);
    wait_until(&mut shop, NO_JOB);
}

#[test]
fn a_value_that_is_no_retention_is_refused_and_the_old_one_stays() {
    let server = Cluster::start(&[PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=shop"]);
    let mut shop = create(&server, "shop");
    configure(&mut shop, &["retain_jobs = '2 years'"]);
    for none in [
        "soon",
        " ",
        "30",
        "0",
        "-1 day",
        "1 day ago",
        "1 month -29 days",
        "infinity",
        "1001 years",
        "99999999999 years",
        "99999999999999999999 days",
    ] {
        refused(
            &mut shop,
            &format!("alter system set hfs_lite.retain_jobs = '{none}'"),
            "22023",
            "hfs_lite.retain_jobs",
        );
    }
    let error = refusal(shop.batch_execute("alter system set hfs_lite.retain_job = '1 day'"));
    assert!(error.message().ends_with(" \"hfs_lite.retain_job\""), "a name that is none: {}", error.message());
    let error = refusal(shop.batch_execute("set hfs_lite.retain_jobs = '1 day'"));
    assert_eq!(error.message(), "parameter \"hfs_lite.retain_jobs\" cannot be changed now");

    // In the file, where nobody is told at once.
    shop.batch_execute(OLD_JOB).unwrap();
    shop.batch_execute("alter system reset hfs_lite.retain_jobs").unwrap();
    let write = |line: &str| format!("copy (select $${line}$$) to program 'cat >> postgresql.conf'");
    shop.batch_execute(&write("hfs_lite.retain_jobs = '2 years'")).unwrap();
    shop.batch_execute(&write("hfs_lite.retain_jobs = 'soon'")).unwrap();
    shop.batch_execute("select pg_reload_conf()").unwrap();
    see_a_round(&mut shop);
    assert_eq!(value(&mut shop, "show hfs_lite.retain_jobs"), "2 years");
    assert_eq!(value(&mut shop, "select count(*) from jobs"), "1");

    // A server that starts with it has no old value, and the default would delete.
    drop(shop);
    server.stop();
    server.start_again();
    let mut shop = server.connect("shop");
    see_a_round(&mut shop);
    assert_eq!(value(&mut shop, "show hfs_lite.retain_jobs"), "");
    assert_eq!(value(&mut shop, "select count(*) from jobs"), "1");
    let warning = "WARNING:  hfs_lite.retain_jobs is empty, and its rows are kept for ever: \"soon\" is no retention.";
    assert!(server.log().contains(warning), "{}", server.log());
}

#[test]
fn the_sweeper_comes_back_after_it_was_terminated() {
    let server = Cluster::start(&[PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=shop"]);
    let mut shop = create(&server, "shop");
    see_a_round(&mut shop);
    let before = sweeper(&mut shop);
    shop.batch_execute(&format!("select pg_terminate_backend({}, 60000)", before[0])).unwrap();
    see_a_round(&mut shop);
    assert_ne!(sweeper(&mut shop), before);
}

#[test]
fn the_sweeper_comes_back_after_it_was_killed() {
    let server = Cluster::start(&[PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=shop"]);
    let mut shop = create(&server, "shop");
    see_a_round(&mut shop);
    let before = sweeper(&mut shop);
    // PostgreSQL ends all sessions then, this one too.
    let _ = shop.batch_execute(&format!("copy (select) to program 'kill -9 {}'", before[0]));
    wait_for_end(shop);
    let mut shop = connect_again(&server, "shop");
    see_a_round(&mut shop);
    assert_ne!(sweeper(&mut shop), before);
}

fn wait_for_end(mut session: Client) {
    while session.simple_query("select").is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn an_error_in_one_table_does_not_keep_the_others_from_being_swept() {
    let server = Cluster::start(&[PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=shop,office"]);
    let mut shop = create(&server, "shop");
    let mut office = create(&server, "office");
    shop.batch_execute("alter table queue rename column sent_at to gone_at").unwrap();
    shop.batch_execute(OLD_JOB).unwrap();
    wait_until(&mut shop, NO_JOB);
    shop.batch_execute(OLD_JOB).unwrap();
    let mut holder = server.connect("shop");
    // Not a round later than the lock: it is got between two batches.
    holder.batch_execute("begin; lock table jobs").unwrap();
    see_a_round(&mut office);
    shop.batch_execute(OLD_DELIVERY).unwrap();
    wait_until(&mut shop, NO_DELIVERY);
    let log = server.log();
    for warning in [
        "could not sweep jobs in database \"shop\": canceling statement due to lock timeout",
        "could not sweep queue in database \"shop\": column q.sent_at does not exist",
    ] {
        assert!(log.contains(warning), "{warning}\n{log}");
    }
    // What was in the way is gone, and so is what was left.
    holder.batch_execute("delete from jobs; commit").unwrap();
    shop.batch_execute("alter table queue rename column gone_at to sent_at").unwrap();
    shop.batch_execute(OLD_JOB).unwrap();
    wait_until(&mut shop, NO_JOB);
}

#[test]
fn the_extension_can_be_dropped_and_created_again_while_it_is_swept() {
    let server = Cluster::start(&[PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=shop,office"]);
    let mut shop = create(&server, "shop");
    let mut office = create(&server, "office");
    see_a_round(&mut shop);
    shop.batch_execute("drop extension hfs_lite").unwrap();
    // Not ours any more: a table of the same name, and a function that a superuser's session must not call.
    shop.batch_execute(
        "create table called (by text);
         create function jobs_sweep(timestamptz, integer) returns table (deleted_count integer) language sql
         as 'insert into called values (current_user) returning 0'",
    )
    .unwrap();
    see_a_round(&mut office);
    see_a_round(&mut office);
    assert_eq!(value(&mut shop, "select count(*) from called"), "0");
    shop.batch_execute("drop function jobs_sweep; create extension hfs_lite").unwrap();
    shop.batch_execute(OLD_JOB).unwrap();
    wait_until(&mut shop, NO_JOB);
    assert!(!server.log().contains("could not sweep"), "{}", server.log());
}

#[test]
fn a_database_can_come_and_go_while_it_is_named() {
    let server = Cluster::start(&[PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=office,shop"]);
    let mut office = create(&server, "office");
    see_a_round(&mut office);
    see_a_round(&mut office);
    let mut shop = create(&server, "shop");
    see_a_round(&mut shop);
    drop(shop);
    // It waits for sessions to leave, five seconds at most.
    office.batch_execute("alter database shop rename to market").unwrap();
    office.batch_execute("alter database market rename to shop").unwrap();
    see_a_round(&mut server.connect("shop"));
    office.batch_execute("drop database shop").unwrap();
    see_a_round(&mut office);
    see_a_round(&mut office);
    office.batch_execute("create database shop").unwrap();
    let mut shop = server.connect("shop");
    shop.batch_execute("create extension hfs_lite cascade").unwrap();
    see_a_round(&mut shop);
    let log = server.log();
    let said = log.matches("database \"shop\" is not swept: there is no database of this name").count();
    // Once before it was there, and once after it was gone; between the renames only if a round fell there.
    assert!((1..=3).contains(&said), "{log}");
    assert!(!log.contains("ERROR") && !log.contains("FATAL"), "{log}");
}

#[test]
fn a_database_is_left_at_once_when_somebody_drops_it() {
    let server = Cluster::start(&[PRELOADED, EVERY_DAY]);
    let mut shop = create(&server, "shop");
    // A hundred batches of half a second: much more than the five seconds that DROP DATABASE waits for sessions to
    // leave.
    shop.batch_execute(
        "create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.5); return null; end';
         create trigger slow after delete on inbox for each statement execute function slow();
         insert into inbox (source, event_id, claimed_at)
         select 'bus', n::text, now() - interval '1 year' from generate_series(1, 100000) n",
    )
    .unwrap();
    configure(&mut shop, &["sweep_databases = 'shop'"]);
    wait_until(&mut shop, "(select count(*) < 100000 from inbox)");
    drop(shop);
    server.connect("postgres").batch_execute("drop database shop").unwrap();
}

#[test]
fn the_server_stops_at_once_in_the_middle_of_a_sweep() {
    let server = Cluster::start(&[PRELOADED, EVERY_DAY]);
    let mut shop = create(&server, "shop");
    shop.batch_execute(
        "create function stuck() returns trigger language plpgsql as 'begin perform pg_sleep(600); return null; end';
         create trigger stuck after delete on inbox for each statement execute function stuck();",
    )
    .unwrap();
    shop.batch_execute(OLD_DELIVERY).unwrap();
    configure(&mut shop, &["sweep_databases = 'shop'"]);
    wait_until(
        &mut shop,
        "exists (select from pg_stat_activity
                  where backend_type = 'hfs_lite sweep' and datname = 'shop' and wait_event = 'PgSleep'
                    and application_name = 'hfs_lite sweeper')",
    );
    drop(shop);
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    server.start_again();
    let mut shop = server.connect("shop");
    assert_eq!(value(&mut shop, "select count(*) from inbox"), "1", "half a batch is none");
}

#[test]
fn a_standby_has_no_sweeper_before_it_is_promoted() {
    let settings = [PRELOADED, EVERY_SECOND, "hfs_lite.sweep_databases=shop"];
    let primary = Cluster::start(&settings);
    let mut shop = create(&primary, "shop");
    see_a_round(&mut shop);
    let standby = primary.standby(&settings);
    let mut there = standby.connect("shop");
    // Whatever the primary sweeps is swept there too, and by nobody else.
    see_a_round(&mut shop);
    wait_until(&mut there, NO_DELIVERY);
    assert_eq!(value(&mut there, "select count(*) from pg_stat_activity where backend_type like 'hfs_lite%'"), "0");
    drop(shop);
    primary.crash();
    there.batch_execute("select pg_promote()").unwrap();
    see_a_round(&mut there);
    assert!(!standby.log().contains("could not sweep"), "{}", standby.log());
}

#[test]
fn without_preloading_nothing_is_swept_and_the_settings_can_be_shown() {
    let database = Database::new();
    let mut session = database.connect();
    // The first call of a function loads the library.
    session.batch_execute("select canonical_json('1')").unwrap();
    assert_eq!(value(&mut session, "show hfs_lite.retain_jobs"), "30 days");
    assert_eq!(value(&mut session, "show hfs_lite.sweep_interval"), "1min");
    assert_eq!(value(&mut session, "show hfs_lite.adopt"), "off");
    let running = "select count(*) from pg_stat_activity where backend_type like 'hfs_lite%'";
    assert_eq!(value(&mut session, running), "0");
    let error = refusal(session.batch_execute("set hfs_lite.retain_jobs = '1 day'"));
    assert_eq!(error.message(), "parameter \"hfs_lite.retain_jobs\" cannot be changed now");
    session.batch_execute("set hfs_lite.adopt = on").unwrap();

    let mut application = database.connect_as("app_be");
    application.batch_execute("select canonical_json('1')").unwrap();
    let error = refusal(application.batch_execute("set hfs_lite.adopt = on"));
    assert_eq!(error.message(), "permission denied to set parameter \"hfs_lite.adopt\"");
}

#[test]
fn the_guide_shows_each_setting_as_the_server_has_it() {
    let guide = include_str!("../../docs/operating.md");
    let mut shown: Vec<Vec<&str>> = guide
        .lines()
        .filter(|line| line.starts_with("| `hfs_lite."))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    shown.sort();
    let database = Database::new();
    let mut session = database.connect();
    session.batch_execute("select canonical_json('1')").unwrap();
    let settings = rows(
        &mut session,
        "select name,
                case when boot_val = '' then 'empty' when vartype = 'string' then boot_val else current_setting(name) end,
                rtrim(short_desc, '.')
           from pg_settings
          where name like 'hfs\\_lite.%'
          order by name collate \"C\"",
    );
    assert_eq!(shown, settings);
}
