//! Ticks, as two or more sessions see them: a minute is claimed once, whatever is pruned meanwhile.

use crate::black_box::harness::{Database, at_once, column, start, try_rows, value, wait_until};
use postgres::Client;
use postgres::error::SqlState;
use std::collections::HashMap;

/// A claim of the minute that is so many hours after the first one.
fn claim(hour: u32) -> String {
    format!(
        "select minute from public.job_tick_claim('t', timestamptz '2026-01-01T00:00:00Z' + interval '{hour} hours')"
    )
}

const FIRST: &str = "minute = '2026-01-01T00:00:00Z'";

/// Whether the first minute's row is there.
fn first_is_there(observer: &mut Client) -> bool {
    value(observer, &format!("select count(*) from public.job_ticks where {FIRST}")) == "1"
}

/// Returns once every open snapshot on the server shows the first minute, as PostgreSQL counts it: by transactions of
/// all databases, so those of other tests count too.
fn wait_until_prunable(observer: &mut Client) {
    let first = format!("(select age(xmin) from public.job_ticks where {FIRST})");
    wait_until(observer, &format!("{first} > (select max(age(backend_xmin)) from pg_stat_activity)"));
}

/// No row, or PostgreSQL's 40001; the transaction is ended.
fn assert_not_claimed(session: &mut Client, sql: &str) {
    match try_rows(session, sql) {
        Ok(rows) => assert_eq!(rows, [[""; 0]; 0]),
        Err(error) => assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}"),
    }
    session.batch_execute("rollback").unwrap();
}

#[test]
fn sixteen_sessions_that_claim_one_minute_make_one_row() {
    let database = Database::new();
    for hour in 0..20 {
        let answers = at_once(&database, 16, "app_be", |_, session| column(session, &claim(hour)));
        assert_eq!(answers.into_iter().flatten().count(), 1);
    }
    assert_eq!(value(&mut database.connect(), "select count(*) from public.job_ticks"), "20");
}

#[test]
fn a_claim_waits_for_an_open_claim_of_the_minute_and_gets_it_only_if_that_is_rolled_back() {
    for (end, won) in [("commit", 0), ("rollback", 1)] {
        let database = Database::new();
        let mut first = database.connect_as("app_be");
        first.batch_execute("begin").unwrap();
        assert_eq!(column(&mut first, &claim(0)).len(), 1);
        let second = start(database.connect_as("app_be"), &claim(0)).wait_until_blocked(&mut database.connect());
        first.batch_execute(end).unwrap();
        assert_eq!(second.rows().len(), won, "{end}");
    }
}

#[test]
fn a_claim_of_another_minute_waits_for_nobody() {
    let database = Database::new();
    let mut first = database.connect_as("app_be");
    first.batch_execute("begin").unwrap();
    column(&mut first, &claim(0));
    let mut second = database.connect_as("app_be");
    second.batch_execute("set lock_timeout = '1ms'").unwrap();
    assert_eq!(column(&mut second, &claim(1)).len(), 1);
}

#[test]
fn a_snapshot_older_than_the_minute_keeps_it_from_being_pruned() {
    for isolation in ["repeatable read", "serializable"] {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut old, mut others) = (database.connect_as("app_be"), database.connect_as("app_be"));
        old.batch_execute(&format!("begin isolation level {isolation}; select 1")).unwrap();
        assert_eq!(column(&mut others, &claim(0)).len(), 1);
        // 49 hours on: the first minute would be pruned, but the old snapshot could not see that it was claimed.
        assert_eq!(column(&mut others, &claim(49)).len(), 1);
        assert!(first_is_there(&mut observer));
        assert_not_claimed(&mut old, &claim(0));
        wait_until_prunable(&mut observer);
        assert_eq!(column(&mut others, &claim(50)).len(), 1);
        assert!(!first_is_there(&mut observer));
        assert_not_claimed(&mut old, &claim(0));
    }
}

#[test]
fn a_snapshot_older_than_the_newest_minute_cannot_claim_a_pruned_one() {
    for isolation in ["repeatable read", "serializable"] {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut old, mut others) = (database.connect_as("app_be"), database.connect_as("app_be"));
        assert_eq!(column(&mut others, &claim(0)).len(), 1);
        wait_until_prunable(&mut observer);
        old.batch_execute(&format!("begin isolation level {isolation}; select 1")).unwrap();
        // The snapshot shows the first minute, which may so be pruned under it, and not the newest one.
        assert_eq!(column(&mut others, &claim(49)).len(), 1);
        assert!(!first_is_there(&mut observer));
        assert_not_claimed(&mut old, &claim(0));
    }
}

#[test]
fn a_statement_older_than_the_newest_minute_cannot_claim_a_pruned_one() {
    let database = Database::new();
    let mut observer = database.connect();
    let mut others = database.connect_as("app_be");
    let mut gate = database.connect();
    gate.batch_execute("select pg_advisory_lock(1)").unwrap();
    // READ COMMITTED; the statement's own snapshot is from before both claims.
    let old = start(
        database.connect_as("app_be"),
        "select t.minute from (select pg_advisory_xact_lock(1)::text || 't' as name offset 0) gate,
                lateral public.job_tick_claim(gate.name, '2026-01-01T00:00:00Z') t",
    )
    .wait_until_blocked(&mut observer);
    assert_eq!(column(&mut others, &claim(0)).len(), 1);
    assert_eq!(column(&mut others, &claim(49)).len(), 1);
    assert!(first_is_there(&mut observer), "the old statement cannot see it");
    gate.batch_execute("select pg_advisory_unlock(1)").unwrap();
    assert_eq!(old.rows(), [[""; 0]; 0]);
}

#[test]
fn a_claim_that_waited_while_the_newest_minute_came_claims_nothing_twice() {
    for (end, won) in [("commit", 0), ("rollback", 1)] {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut first, mut others) = (database.connect_as("app_be"), database.connect_as("app_be"));
        first.batch_execute("begin").unwrap();
        assert_eq!(column(&mut first, &claim(0)).len(), 1);
        let second = start(database.connect_as("app_be"), &claim(0)).wait_until_blocked(&mut observer);
        assert_eq!(column(&mut others, &claim(49)).len(), 1);
        first.batch_execute(end).unwrap();
        assert_eq!(second.rows().len(), won, "{end}");
        assert_eq!(column(&mut others, &claim(0)), [""; 0]);
    }
}

#[test]
fn a_cursor_older_than_the_minute_keeps_it_from_being_pruned() {
    let database = Database::new();
    let mut observer = database.connect();
    let (mut old, mut others) = (database.connect_as("app_be"), database.connect_as("app_be"));
    old.batch_execute("begin; declare c cursor for select 1").unwrap();
    column(&mut others, &claim(0));
    column(&mut others, &claim(49));
    assert!(first_is_there(&mut observer));
    assert_not_claimed(&mut old, &claim(0));
    wait_until_prunable(&mut observer);
    column(&mut others, &claim(50));
    assert!(!first_is_there(&mut observer));
}

#[test]
fn no_minute_is_ever_claimed_twice_however_old_the_claimants_snapshots_are() {
    let database = Database::new();
    let isolations = ["read committed", "repeatable read", "serializable"];
    let hour = std::sync::atomic::AtomicU32::new(100);
    let won = at_once(&database, 8, "app_be", |i, session| {
        let mut won = Vec::new();
        for round in 0..250 {
            // Minutes 12 hours apart, so that the window of 24 hours, and that of 48, move quickly.
            let newest = hour.fetch_add(u32::from(round % 4 == 0), std::sync::atomic::Ordering::Relaxed);
            session.batch_execute(&format!("begin isolation level {}", isolations[(i + round) % 3])).unwrap();
            session.batch_execute("select 1").unwrap();
            let claimed: Result<Vec<_>, _> =
                [0, 1, 3, 4, 5, 7].into_iter().map(|back| try_rows(session, &claim((newest - back) * 12))).collect();
            match claimed.and_then(|rows| session.batch_execute("commit").map(|()| rows)) {
                Ok(rows) => won.extend(rows.into_iter().flatten().map(|row| row[0].clone())),
                Err(error) => {
                    // All claim their minutes newest first, so nobody deadlocks.
                    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
                    session.batch_execute("rollback").unwrap();
                }
            }
        }
        won
    });
    let mut times = HashMap::new();
    for minute in won.into_iter().flatten() {
        *times.entry(minute).or_insert(0) += 1;
    }
    assert!(!times.is_empty());
    let twice: Vec<_> = times.into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
