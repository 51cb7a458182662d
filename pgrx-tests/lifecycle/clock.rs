//! hfs_lite.clock: whose clock decides what has expired. Callers whose clocks are an hour apart, in both settings.

use crate::black_box::harness::{Cluster, column, refusal, rows, value, wait_until};
use postgres::error::SqlState;
use postgres::{Client, NoTls};

/// What the clocks of the callers show: one is right, one an hour ahead, one an hour behind.
const RIGHT: &str = "clock_timestamp()";
const AHEAD: &str = "(clock_timestamp() + interval '1 hour')";
const BEHIND: &str = "(clock_timestamp() - interval '1 hour')";

const CALLER: &[&str] = &["hfs_lite.clock=caller"];
const DATABASE: &[&str] = &["hfs_lite.clock=database"];

/// A server with these settings, and sessions as its superuser and as an application.
fn server(settings: &[&str]) -> (Cluster, Client, Client) {
    let cluster = Cluster::start(settings);
    let mut superuser = cluster.connect("postgres");
    superuser.batch_execute("create role app_be login; create extension hfs_lite cascade").unwrap();
    let application = application(&cluster);
    (cluster, superuser, application)
}

fn application(cluster: &Cluster) -> Client {
    cluster.config("postgres").user("app_be").connect(NoTls).unwrap()
}

/// A claim by a caller's clock, for a lease of so long by it.
fn claim(session: &mut Client, key: &str, clock: &str, lease: &str) -> Vec<Vec<String>> {
    let sql = format!(
        "select c.id, c.fencing_token from (select {clock} as now) clock,
           public.job_claim('mail', '{key}', 'w', clock.now + interval '{lease}', '{{}}', clock.now) c"
    );
    rows(session, &sql)
}

/// How long a lease lasts by the database's clock, in minutes.
fn minutes_left(superuser: &mut Client, key: &str) -> f64 {
    let left = "select extract(epoch from lease_expires_at - clock_timestamp()) / 60 from public.jobs where job_key = ";
    value(superuser, &format!("{left}'{key}'")).parse().unwrap()
}

/// Minutes that are a few seconds less than so many.
#[track_caller]
fn just_under(minutes: f64, came: f64) {
    assert!(came <= minutes && came > minutes - 0.9, "{came} minutes, and not just under {minutes}");
}

#[test]
fn by_the_callers_clock_one_that_is_ahead_takes_a_live_lease_and_keeps_its_own_for_longer() {
    let (_cluster, mut superuser, mut session) = server(CALLER);
    assert_eq!(claim(&mut session, "k", RIGHT, "1 minute")[0][1], "1");
    assert_eq!(claim(&mut session, "k", BEHIND, "1 minute").len(), 0);
    assert_eq!(claim(&mut session, "k", AHEAD, "1 minute")[0][1], "2");
    just_under(61.0, minutes_left(&mut superuser, "k"));
    assert_eq!(claim(&mut session, "k", RIGHT, "1 minute").len(), 0);
    // And what one that is behind claims is everybody's at once.
    claim(&mut session, "behind", BEHIND, "1 minute");
    assert_eq!(claim(&mut session, "behind", RIGHT, "1 minute")[0][1], "2");
}

#[test]
fn by_the_databases_clock_nobody_takes_a_live_lease_and_each_lasts_as_long_as_it_was_meant_to() {
    let (_cluster, mut superuser, mut session) = server(DATABASE);
    for (holder, clock) in [("right", RIGHT), ("ahead", AHEAD), ("behind", BEHIND)] {
        assert_eq!(claim(&mut session, holder, clock, "10 minutes")[0][1], "1", "{holder}");
        just_under(10.0, minutes_left(&mut superuser, holder));
        for other in [RIGHT, AHEAD, BEHIND] {
            assert_eq!(claim(&mut session, holder, other, "10 minutes").len(), 0, "{holder}'s lease, by {other}");
        }
    }
    // It ends by the database's clock too, whatever the next caller's says.
    for (holder, clock) in [("short ahead", AHEAD), ("short behind", BEHIND)] {
        claim(&mut session, holder, clock, "1 microsecond");
        let ended = "lease_expires_at < clock_timestamp() from public.jobs where job_key = ";
        wait_until(&mut superuser, &format!("{ended}'{holder}'"));
        assert_eq!(claim(&mut session, holder, BEHIND, "10 minutes")[0][1], "2", "{holder}");
    }
}

#[test]
fn by_the_databases_clock_many_claims_and_heartbeats_last_as_long_as_they_were_meant_to() {
    let (_cluster, mut superuser, mut session) = server(DATABASE);
    for (key, clock) in [("ahead", AHEAD), ("behind", BEHIND)] {
        let many = format!(
            "select c.job_key from (select {clock} as now) clock,
               public.job_claim_many('mail', '{{{key}}}', 'w', clock.now + interval '10 minutes', '{{1}}', clock.now) c"
        );
        assert_eq!(column(&mut session, &many), [key]);
        just_under(10.0, minutes_left(&mut superuser, key));
        assert!(column(&mut session, &many).is_empty(), "a live lease");
        let id = value(&mut superuser, &format!("select id from public.jobs where job_key = '{key}'"));
        let beat = format!(
            "select b.id from (select {clock} as now) clock,
               public.job_heartbeat('{id}', 1, clock.now + interval '20 minutes', clock.now) b"
        );
        assert_eq!(column(&mut session, &beat), [&*id]);
        just_under(20.0, minutes_left(&mut superuser, key));
    }
}

#[test]
fn by_the_databases_clock_an_end_without_p_now_is_meant_by_that_clock() {
    let (_cluster, mut superuser, mut session) = server(DATABASE);
    let claim = "select fencing_token from public.job_claim('mail', 'k', 'w', clock_timestamp() + interval '10 minutes', '{}', null)";
    assert_eq!(value(&mut session, claim), "1");
    just_under(10.0, minutes_left(&mut superuser, "k"));
    // What is wrong by what the caller passed is wrong in both settings.
    for arguments in ["'2026-01-01', '{}', '2026-01-01'", "clock_timestamp(), '{}', null"] {
        let error =
            refusal(session.simple_query(&format!("select * from public.job_claim('mail', 'new', 'w', {arguments})")));
        assert_eq!(error.code(), &SqlState::INVALID_PARAMETER_VALUE);
    }
    // The longest lease that there can be ends at the last instant that there is.
    let longest =
        "select fencing_token from public.job_claim('mail', 'longest', 'w', '294276-12-31 23:59:59.999999+00', '{}',
        '4713-01-01 00:00+00 BC')";
    assert_eq!(value(&mut session, longest), "1");
    let end =
        "select extract(year from lease_expires_at at time zone 'utc') from public.jobs where job_key = 'longest'";
    assert_eq!(value(&mut superuser, end), "294276");
}

#[test]
fn what_is_written_as_now_is_the_databases_instant_and_what_names_another_instant_is_the_callers() {
    let (_cluster, mut superuser, mut session) = server(DATABASE);
    let before = value(&mut superuser, "select clock_timestamp()");
    let id = claim(&mut session, "k", AHEAD, "10 minutes").remove(0).remove(0);
    for call in [
        format!("job_advance('{id}', 1, 's', {AHEAD})"),
        format!("job_fail('{id}', 1, null, {AHEAD})"),
        format!("inbox_claim_client('client:ann:pay', 'k', 'f', {BEHIND})"),
        format!("inbox_claim_request('ann', 'order', 'k', '{{}}', {AHEAD})"),
        format!("job_tick_claim('t', '2026-01-01 12:00+00', {AHEAD})"),
    ] {
        assert_eq!(rows(&mut session, &format!("select * from public.{call}")).len(), 1, "{call}");
        let within = format!(
            "select bool_and(at between '{before}' and clock_timestamp())
               from (select created_at from public.jobs union all select updated_at from public.jobs
                     union all select claimed_at from public.inbox union all select claimed_at from public.job_ticks) t (at)"
        );
        assert_eq!(value(&mut superuser, &within), "t", "{call}");
    }
    // A minute, and when a row was written or sent, are what the caller says they are.
    assert_eq!(value(&mut superuser, "select minute at time zone 'utc' from public.job_ticks"), "2026-01-01 12:00:00");
    value(&mut session, "select public.queue_write('mail', '{}', '2026-01-01 12:00+00', null)");
    value(
        &mut session,
        "select public.queue_mark_sent(array(select id from public.queue_waiting(1)), '2026-01-01 13:00+00')",
    );
    let instants = "select created_at at time zone 'utc', sent_at at time zone 'utc' from public.queue";
    assert_eq!(rows(&mut superuser, instants), [["2026-01-01 12:00:00", "2026-01-01 13:00:00"]]);
}

#[test]
fn a_session_cannot_choose_its_clock_and_a_reload_changes_it_for_all() {
    // Without the setting on the server's command line, which would go before ALTER SYSTEM.
    let (cluster, mut superuser, mut session) = server(&[]);
    claim(&mut session, "k", RIGHT, "10 minutes");
    assert_eq!(value(&mut session, "show hfs_lite.clock"), "caller");
    for command in ["load 'hfs_lite'", "alter system set hfs_lite.clock = 'database'", "select pg_reload_conf()"] {
        superuser.batch_execute(command).unwrap();
    }
    wait_until(&mut session, "current_setting('hfs_lite.clock') = 'database'");
    assert_eq!(claim(&mut session, "k", AHEAD, "1 minute").len(), 0);

    for setting in ["set hfs_lite.clock = 'caller'", "set local hfs_lite.clock = 'caller'", "reset hfs_lite.clock"] {
        for session in [&mut session, &mut superuser] {
            let error = refusal(session.simple_query(setting));
            assert_eq!(error.code(), &SqlState::CANT_CHANGE_RUNTIME_PARAM, "{setting}");
        }
    }
    let error = refusal(superuser.simple_query("alter system set hfs_lite.clock = 'mine'"));
    assert_eq!(error.code(), &SqlState::INVALID_PARAMETER_VALUE);
    assert!(error.hint().is_some_and(|hint| hint.contains("caller, database")), "{error:?}");
    // Also not before the library is there, when PostgreSQL takes the name for anybody's.
    let mut early = application(&cluster);
    early.batch_execute("set hfs_lite.clock = 'caller'").unwrap();
    assert_eq!(claim(&mut early, "k", AHEAD, "1 minute").len(), 0);
    assert_eq!(value(&mut early, "show hfs_lite.clock"), "database");
    // What a session began with would hide the configuration from a library that comes later: nothing is done there, twice.
    let mut options = cluster.config("postgres");
    let mut begun = options.user("app_be").options("-c hfs_lite.clock=caller").connect(NoTls).unwrap();
    for _ in 0..2 {
        let error = refusal(begun.simple_query("select * from public.queue_waiting(1)"));
        assert_eq!(error.code(), &SqlState::CANT_CHANGE_RUNTIME_PARAM);
        assert!(error.hint().is_some_and(|hint| hint.contains("connection's options")), "{error:?}");
    }
}
