//! Ticks of schedulers, as one session sees them.

use super::checks::{AWKWARD, Takes, arguments, changes_nothing, contents, quoted};
use super::harness::{Database, column, rows, value, wait_until};
use postgres::Client;

/// Claims a minute; answers it in UTC, or nothing.
fn tick(session: &mut Client, name: &str, minute: &str) -> Vec<String> {
    column(
        session,
        &format!("select minute at time zone 'utc' from public.job_tick_claim({}, '{minute}')", quoted(name)),
    )
}

/// Waits until no snapshot, open or yet to be taken, is from before what has been written by now. Other tests have snapshots
/// too, and transactions that write, which every new snapshot looks back to.
fn until_everyone_sees_it(superuser: &mut Client) {
    let newest = value(superuser, "select pg_current_xact_id()::xid");
    let oldest_snapshot = "(select max(age(backend_xmin)) from pg_stat_get_activity(null))";
    wait_until(superuser, &format!("age('{newest}'::xid) > {oldest_snapshot}"));
}

#[test]
fn a_minute_is_claimed_once_by_name_in_whatever_order_minutes_come() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    for minute in ["12:05", "12:00", "12:04", "12:06", "12:01"] {
        let instant = format!("2026-01-01 {minute}+00");
        let answer = format!("2026-01-01 {minute}:00");
        assert_eq!(tick(&mut session, "daily", &instant), [answer.as_str()]);
        assert!(tick(&mut session, "daily", &instant).is_empty());
        assert_eq!(tick(&mut session, "Daily", &instant), [answer.as_str()], "another name is another scheduler");
    }
    let mut superuser = database.connect();
    let before = contents(&mut superuser);
    for p_now in ["null", "'2020-01-01'", "'2030-01-01'"] {
        changes_nothing(
            &mut session,
            &format!("select * from public.job_tick_claim('daily', '2026-01-01 12:04:59+00', {p_now})"),
        );
    }
    assert_eq!(contents(&mut superuser), before);
    assert_eq!(value(&mut superuser, "select count(*) from public.job_ticks where name = 'daily'"), "5");
}

#[test]
fn the_answer_is_the_name_and_the_utc_minute_and_p_now_is_noted() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    superuser.batch_execute("set timezone = 'UTC'").unwrap();
    session.batch_execute("set timezone = 'UTC'").unwrap();
    let call =
        "select * from public.job_tick_claim('daily', '2026-01-01 12:00:59.999999+00', '2025-05-05 05:05:05+00')";
    assert_eq!(rows(&mut session, call), [["daily", "2026-01-01 12:00:00+00"]]);
    assert_eq!(value(&mut superuser, "select claimed_at from public.job_ticks"), "2025-05-05 05:05:05+00");
    for p_now in ["", ", null"] {
        let before = value(&mut superuser, "select clock_timestamp()");
        let call = format!("select * from public.job_tick_claim('other{p_now}', '2026-01-01 12:00+00'{p_now})");
        assert_eq!(rows(&mut session, &call).len(), 1);
        let claimed_at = format!(
            "select claimed_at between '{before}' and clock_timestamp()
               from public.job_ticks where name = 'other{p_now}'"
        );
        assert_eq!(value(&mut superuser, &claimed_at), "t");
    }
}

#[test]
fn minutes_are_utc_minutes_in_every_time_zone() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    // Offsets of hours and minutes, and local mean time, whose offset has seconds.
    let zones =
        ["America/St_Johns", "Asia/Kathmandu", "Pacific/Kiritimati", "Europe/Paris", "Africa/Monrovia", "Etc/GMT+12"];
    for zone in zones {
        session.batch_execute(&format!("set timezone = '{zone}'")).unwrap();
        assert_eq!(tick(&mut session, zone, "2026-01-01 12:00:59+00"), ["2026-01-01 12:00:00"], "{zone}");
        assert!(tick(&mut session, zone, "2026-01-01 12:00:00+00").is_empty(), "{zone}");
        assert_eq!(tick(&mut session, zone, "2026-01-01 11:59:59.999999+00"), ["2026-01-01 11:59:00"], "{zone}");
        let local = format!(
            "select extract(second from minute at time zone 'utc')::integer
               from public.job_tick_claim('local {zone}', '1880-01-01 00:00:31')"
        );
        assert_eq!(value(&mut session, &local), "0", "{zone}");
    }
    // Before the year 2000, from which PostgreSQL counts, cutting is downwards too.
    assert_eq!(tick(&mut session, "old", "1999-12-31 23:59:59.999999+00"), ["1999-12-31 23:59:00"]);
}

#[test]
fn a_minute_more_than_24_hours_older_than_the_names_newest_is_refused() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    assert_eq!(tick(&mut session, "daily", "2026-01-03 12:00+00").len(), 1);
    let before = contents(&mut database.connect());
    for minute in ["2026-01-02 11:59:59.999999+00", "2026-01-02 11:59+00", "2020-01-01 00:00+00"] {
        // The rule goes by the newest minute; the caller's instant does not matter.
        for p_now in ["null", "'2020-01-01 00:00+00'"] {
            changes_nothing(
                &mut session,
                &format!("select * from public.job_tick_claim('daily', '{minute}', {p_now})"),
            );
        }
    }
    assert_eq!(contents(&mut database.connect()), before);
    assert_eq!(tick(&mut session, "daily", "2026-01-02 12:00+00").len(), 1, "24 hours are not more than 24 hours");
    assert_eq!(tick(&mut session, "other", "2020-01-01 00:00+00").len(), 1, "another name has another newest minute");
}

#[test]
fn rows_older_than_48_hours_before_the_newest_are_pruned_100_a_call() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "insert into public.job_ticks
             select name, minute, minute from unnest(array['daily', 'other']) name,
               generate_series('2026-01-01 00:01+00', '2026-01-01 04:10+00', interval '1 min') minute",
        )
        .unwrap();
    until_everyone_sees_it(&mut superuser);
    let mut left = || {
        let names = "array['daily', 'other']";
        column(
            &mut superuser,
            &format!(
                "select (select count(*) from public.job_ticks t where t.name = n and minute < '2026-01-02 00:00+00')
                   from unnest({names}) n"
            ),
        )
    };
    // 250 rows; the newest minute leaves the last of them, exactly 48 hours old, in place.
    for (minute, expected) in [("04:10", "150"), ("04:09", "50"), ("04:08", "1"), ("04:07", "1")] {
        assert_eq!(tick(&mut session, "daily", &format!("2026-01-03 {minute}+00")).len(), 1);
        assert_eq!(left(), [expected, "250"], "only rows of that name go");
    }
    assert_eq!(tick(&mut session, "daily", "2026-01-03 04:11+00").len(), 1);
    assert_eq!(left(), ["0", "250"]);
    let oldest_kept =
        value(&mut superuser, "select min(minute) at time zone 'utc' from public.job_ticks where name = 'daily'");
    assert_eq!(oldest_kept, "2026-01-03 04:07:00");
    // What was pruned stays refused.
    assert!(tick(&mut session, "daily", "2026-01-01 04:10+00").is_empty());
}

#[test]
fn the_oldest_and_the_newest_instants_that_there_are_can_be_claimed() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    for (name, minute, answer) in [
        ("old", "4714-11-24 00:00:59+00 BC", "4714-11-24 00:00:00 BC"),
        ("old", "4714-11-24 00:01:00+00 BC", "4714-11-24 00:01:00 BC"),
        ("new", "294276-12-31 23:59:59.999999+00", "294276-12-31 23:59:00"),
        ("new", "294276-12-31 23:58:00+00", "294276-12-31 23:58:00"),
        ("old", "294276-12-31 23:59:00+00", "294276-12-31 23:59:00"),
    ] {
        assert_eq!(tick(&mut session, name, minute), [answer]);
        assert!(tick(&mut session, name, minute).is_empty());
    }
}

#[test]
fn a_tick_that_is_rolled_back_was_never_there() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session.batch_execute("begin").unwrap();
    assert_eq!(tick(&mut session, AWKWARD, "2026-01-03 12:00+00").len(), 1);
    assert!(tick(&mut session, AWKWARD, "2026-01-01 12:00+00").is_empty());
    session.batch_execute("rollback").unwrap();
    assert_eq!(tick(&mut session, AWKWARD, "2026-01-01 12:00+00").len(), 1);
    assert_eq!(column(&mut database.connect(), "select name from public.job_ticks"), [AWKWARD]);
}

#[test]
fn every_argument_of_the_ticks_is_checked() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    arguments(
        &mut session,
        "job_tick_claim",
        &[
            ("p_name", "'daily'", Takes::Text(200)),
            ("p_minute", "'2026-01-01 12:00+00'", Takes::Instant),
            ("p_now", "'2026-01-01 12:00+00'", Takes::OptionalInstant),
        ],
    );
    assert!(contents(&mut database.connect()).iter().all(|row| !row.starts_with("job_ticks")));
}
