//! Fenced jobs, as one session sees them.

use super::checks::{AWKWARD, Takes, arguments, caught, changes_nothing, contents, quoted, wide};
use super::harness::{Database, column, refused, rows, value};
use postgres::Client;

const UNKNOWN: &str = "00000000-0000-0000-0000-000000000000";

/// Claims at an instant of 2026-01-01 (UTC), for a lease until another.
fn claim(session: &mut Client, key: &str, worker: &str, now: &str, lease_end: &str) -> Vec<Vec<String>> {
    rows(
        session,
        &format!(
            "select * from public.job_claim('mail', '{key}', '{worker}', '2026-01-01 {lease_end}+00',
               '{{\"by\": \"{worker}\"}}', '2026-01-01 {now}+00')"
        ),
    )
}

/// The id of a job that was claimed at 12:00 for one minute, with token 1.
fn claimed(session: &mut Client, key: &str) -> String {
    claim(session, key, "first", "12:00:00", "12:01:00")[0][0].clone()
}

/// What stands in the table of a job, without its id; instants in UTC.
fn stored(superuser: &mut Client, key: &str) -> Vec<String> {
    let sql = format!(
        "select kind, status, current_step, fencing_token, claimed_by, lease_expires_at at time zone 'utc', payload,
                error, created_at at time zone 'utc', updated_at at time zone 'utc'
           from public.jobs where job_key = '{key}'"
    );
    rows(superuser, &sql).remove(0)
}

#[test]
fn a_new_key_is_claimed_with_token_1() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let answer = claim(&mut session, "k", "first", "12:00:00", "12:01:00");
    assert_eq!(answer[0][1..], ["mail", "1", "∅", r#"{"by": "first"}"#]);
    let mut superuser = database.connect();
    assert_eq!(
        stored(&mut superuser, "k"),
        [
            "mail",
            "running",
            "∅",
            "1",
            "first",
            "2026-01-01 12:01:00",
            r#"{"by": "first"}"#,
            "∅",
            "2026-01-01 12:00:00",
            "2026-01-01 12:00:00"
        ]
    );
    assert_eq!(column(&mut superuser, "select id from public.jobs"), [answer[0][0].as_str()]);
}

#[test]
fn without_p_now_the_databases_clock_counts() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    // clock_timestamp() goes on inside a transaction, where now() stands.
    session.batch_execute("begin").unwrap();
    let before = value(&mut session, "select clock_timestamp()");
    let claim = "select id from public.job_claim('mail', 'k', 'w', clock_timestamp() + interval '1 hour', '{}', null)";
    let id = value(&mut session, claim);
    assert_eq!(rows(&mut session, claim).len(), 0, "the lease is live");
    session.batch_execute("commit").unwrap();
    let mut superuser = database.connect();
    let by_the_clock = format!("'{before}' and clock_timestamp()");
    let within = format!("select created_at between {by_the_clock} and updated_at = created_at from public.jobs");
    assert_eq!(value(&mut superuser, &within), "t");
    for call in [format!("job_advance('{id}', 1, 's', null)"), format!("job_complete('{id}', 1, null)")] {
        let before = value(&mut session, "select clock_timestamp()");
        value(&mut session, &format!("select * from public.{call}"));
        let within = format!("select updated_at between '{before}' and clock_timestamp() from public.jobs");
        assert_eq!(value(&mut superuser, &within), "t", "{call}");
    }
}

#[test]
fn a_live_lease_is_not_claimed_and_a_lease_that_ends_at_p_now_is_live() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    claimed(&mut session, "k");
    let before = contents(&mut superuser);
    // The clock of a caller may go backwards.
    for now in ["11:00:00", "12:00:00", "12:00:59.999999", "12:01:00"] {
        let call = format!(
            "select * from public.job_claim('mail', 'k', 'second', '2026-01-02 00:00+00', '{{}}',
               '2026-01-01 {now}+00')"
        );
        changes_nothing(&mut session, &call);
    }
    assert_eq!(contents(&mut superuser), before);
    assert_eq!(claim(&mut session, "k", "second", "12:01:00.000001", "13:00:00")[0][2], "2");
}

#[test]
fn an_ended_lease_is_claimed_again_with_the_next_token_and_keeps_what_was_stored() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let id = claimed(&mut session, "k");
    let step = format!("select * from public.job_advance('{id}', 1, 'half', '2026-01-01 12:00:30+00')");
    assert_eq!(value(&mut session, &step), id);
    let answer = rows(
        &mut session,
        "select * from public.job_claim('other kind', 'k', 'second', '2026-01-01 12:10+00', '{\"new\": 1}',
           '2026-01-01 12:05+00')",
    );
    assert_eq!(answer, [[id.as_str(), "mail", "2", "half", r#"{"by": "first"}"#]]);
    assert_eq!(
        stored(&mut database.connect(), "k"),
        [
            "mail",
            "running",
            "half",
            "2",
            "second",
            "2026-01-01 12:10:00",
            r#"{"by": "first"}"#,
            "∅",
            "2026-01-01 12:00:00",
            "2026-01-01 12:05:00"
        ]
    );
    for token in 3..=5 {
        let (now, end) = (format!("13:0{token}:00"), format!("13:0{token}:01"));
        assert_eq!(claim(&mut session, "k", "w", &now, &end)[0][2], token.to_string());
    }
}

#[test]
fn a_failed_job_is_claimed_again_at_any_instant_and_its_error_is_cleared() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let id = claimed(&mut session, "k");
    let fail = format!("select * from public.job_fail('{id}', 1, 'no mail server', '2026-01-01 12:00:10+00')");
    assert_eq!(column(&mut session, &fail), [id.as_str()]);
    let failed = stored(&mut superuser, "k");
    assert_eq!(failed[1..6], ["failed", "∅", "1", "first", "∅"], "the lease is cleared, who claimed it stays");
    assert_eq!([&failed[7], &failed[9]], ["no mail server", "2026-01-01 12:00:10"]);
    // Earlier than the failure, by a clock that went backwards.
    let answer = claim(&mut session, "k", "second", "11:00:00", "11:01:00");
    assert_eq!(answer[0][..3], [id.as_str(), "mail", "2"]);
    let again = stored(&mut superuser, "k");
    assert_eq!([&again[1], &again[4], &again[5], &again[7]], ["running", "second", "2026-01-01 11:01:00", "∅"]);
}

#[test]
fn a_done_job_is_never_claimed_again() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let id = claimed(&mut session, "k");
    let complete = format!("select * from public.job_complete('{id}', 1, '2026-01-01 12:00:10+00')");
    assert_eq!(column(&mut session, &complete), [id.as_str()]);
    let done = stored(&mut superuser, "k");
    assert_eq!(done[1..6], ["done", "∅", "1", "first", "∅"], "the lease is cleared, who claimed it stays");
    assert_eq!(done[9], "2026-01-01 12:00:10");
    let before = contents(&mut superuser);
    for now in ["2020-01-01", "2026-01-01 12:00:10+00", "2999-01-01"] {
        changes_nothing(
            &mut session,
            &format!("select * from public.job_claim('mail', 'k', 'w', '3000-01-01', '{{}}', '{now}')"),
        );
    }
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn only_the_current_token_of_a_running_job_writes() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let id = claimed(&mut session, "k");
    claim(&mut session, "k", "second", "12:05:00", "12:10:00");
    let writes = |id: &str, token: &str| {
        [
            format!("select * from public.job_advance('{id}', {token}, 's', '2026-01-01 12:06+00')"),
            format!("select * from public.job_complete('{id}', {token}, '2026-01-01 12:06+00')"),
            format!("select * from public.job_fail('{id}', {token}, 'r', '2026-01-01 12:06+00')"),
        ]
    };
    // The late worker's token, tokens that nobody has yet, and an id that is nobody's.
    let before = contents(&mut superuser);
    for (id, token) in [(id.as_str(), "1"), (&id, "3"), (&id, "9223372036854775807"), (UNKNOWN, "2")] {
        for write in writes(id, token) {
            changes_nothing(&mut session, &write);
        }
    }
    assert_eq!(contents(&mut superuser), before);

    let finish = ["job_fail($, 2, 'r', null)", "job_complete($, 3, null)"];
    for (finish, token) in finish.iter().zip(["2", "3"]) {
        let finish = format!("select * from public.{}", finish.replace('$', &format!("'{id}'")));
        assert_eq!(column(&mut session, &finish), [id.as_str()]);
        let before = contents(&mut superuser);
        for write in writes(&id, token) {
            changes_nothing(&mut session, &write);
        }
        assert_eq!(contents(&mut superuser), before, "a job that does not run takes no write");
        claim(&mut session, "k", "third", "13:00:00", "13:01:00");
    }
}

#[test]
fn a_worker_whose_lease_ended_still_writes_until_somebody_claims() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let id = claimed(&mut session, "k");
    for step in ["half", "almost"] {
        let advance = format!("select * from public.job_advance('{id}', 1, '{step}', '2026-01-01 13:00+00')");
        assert_eq!(column(&mut session, &advance), [id.as_str()]);
    }
    let row = stored(&mut database.connect(), "k");
    assert_eq!(row[1..6], ["running", "almost", "1", "first", "2026-01-01 12:01:00"], "advancing moves no lease");
    let complete = format!("select * from public.job_complete('{id}', 1, '2026-01-01 13:00+00')");
    assert_eq!(column(&mut session, &complete), [id.as_str()]);
}

#[test]
fn failing_takes_any_reason_and_cuts_a_very_long_one() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let limit = "😀".repeat(10_000);
    let kept = ["", " ", AWKWARD, "two\nlines\t\u{1}\u{7f}", &limit];
    let mut token = 0;
    let mut fail = |reason: &str| {
        token += 1;
        let id = claim(&mut session, "k", "w", "12:00:00", "12:01:00")[0][0].clone();
        let call = format!("select * from public.job_fail('{id}', {token}, {reason}, '2026-01-01 12:00:01+00')");
        assert_eq!(column(&mut session, &call), [id.as_str()]);
        value(&mut superuser, "select error from public.jobs where status = 'failed'")
    };
    assert_eq!(fail("null"), "∅");
    for reason in kept {
        assert_eq!(fail(&quoted(reason)), reason);
    }
    for length in [10_001, 1_000_000] {
        let error = fail(&wide(length));
        let mark = error.strip_prefix(&limit).expect("the first 10,000 characters");
        assert!(!mark.starts_with('😀') && mark.contains(&length.to_string()), "the mark says so: {mark}");
    }
}

#[test]
fn a_claim_that_is_rolled_back_was_never_there() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session.batch_execute("begin").unwrap();
    claimed(&mut session, "k");
    session.batch_execute("rollback").unwrap();
    assert_eq!(claim(&mut session, "k", "second", "11:00:00", "11:01:00")[0][2], "1");
    // The same inside a savepoint: the token that was given up is given to the next.
    session.batch_execute("begin; savepoint s").unwrap();
    assert_eq!(claim(&mut session, "k", "third", "12:00:00", "12:01:00")[0][2], "2");
    session.batch_execute("rollback to s").unwrap();
    assert_eq!(claim(&mut session, "k", "fourth", "12:00:00", "12:01:00")[0][2], "2");
    session.batch_execute("commit").unwrap();
    assert_eq!(column(&mut database.connect(), "select claimed_by from public.jobs"), ["fourth"]);
}

#[test]
fn a_lease_must_end_after_p_now() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    claimed(&mut session, "k");
    let before = contents(&mut superuser);
    for key in ["k", "new"] {
        for (lease_end, now) in [
            ("'2026-01-01 12:00+00'", "'2026-01-01 12:00+00'"),
            ("'2026-01-01 12:00+00'", "'2026-01-01 12:00:00.000001+00'"),
            ("'2026-01-01 13:00+01'", "'2026-01-01 12:00+00'"),
            ("clock_timestamp()", "null"),
        ] {
            let call = format!("select * from public.job_claim('mail', '{key}', 'w', {lease_end}, '{{}}', {now})");
            refused(&mut session, &call, "22023", "p_lease_end");
            caught(&mut session, &call, "22023");
        }
    }
    assert_eq!(contents(&mut superuser), before);
    let shortest = "select fencing_token from public.job_claim('mail', 'new', 'w', '2026-01-01 12:00:00.000001+00',
        '{}', '2026-01-01 12:00+00')";
    assert_eq!(column(&mut session, shortest), ["1"]);
}

#[test]
fn names_and_payload_are_kept_verbatim() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let name = quoted(AWKWARD);
    let payload = r#"{"a": "it's \\ \"x\"", "n": 1.50, "deep": [null, {"": -0}]}"#;
    let claim = format!(
        "select kind, payload::text, id
           from public.job_claim({name}, {name}, {name}, '2026-01-01 12:01+00', {}, '2026-01-01 12:00+00')",
        quoted(payload)
    );
    let answer = rows(&mut session, &claim).remove(0);
    assert_eq!(answer[0], AWKWARD);
    let id = &answer[2];
    column(&mut session, &format!("select * from public.job_advance('{id}', 1, {name}, null)"));
    let mut superuser = database.connect();
    let stored = rows(&mut superuser, "select kind, job_key, claimed_by, current_step from public.jobs").remove(0);
    assert_eq!(stored, [AWKWARD; 4]);
    let same = format!("select payload = {} from public.jobs", quoted(payload));
    assert_eq!(value(&mut superuser, &same), "t");
    // JSON's own null is a payload.
    let null = "select payload from public.job_claim('mail', 'null', 'w', '3000-01-01', 'null', null)";
    assert_eq!(value(&mut session, null), "null");
}

#[test]
fn every_argument_of_the_jobs_is_checked() {
    use Takes::{Anything, Instant, OptionalInstant, Present, Text, Token};
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let id = claimed(&mut session, "k");
    let id = quoted(&id);
    let before = contents(&mut superuser);
    let now = ("p_now", "'2026-01-01 12:00+00'", OptionalInstant);
    let p_id = ("p_id", id.as_str(), Present);
    let p_token = ("p_token", "'1'", Token);
    arguments(
        &mut session,
        "job_claim",
        &[
            ("p_kind", "'mail'", Text(200)),
            ("p_job_key", "'new'", Text(200)),
            ("p_worker", "'w'", Text(200)),
            ("p_lease_end", "'3000-01-01 00:00+00'", Instant),
            ("p_payload", "'{}'", Present),
            now,
        ],
    );
    arguments(&mut session, "job_advance", &[p_id, p_token, ("p_step", "'s'", Text(200)), now]);
    arguments(&mut session, "job_complete", &[p_id, p_token, now]);
    arguments(&mut session, "job_fail", &[p_id, p_token, ("p_reason", "'r'", Anything), now]);
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn a_sweep_takes_the_oldest_done_jobs_and_nothing_else() {
    let database = Database::new();
    let mut operator = database.connect_as("operator");
    let mut superuser = database.connect();
    // Done at 12:01 to 12:05, not in that order; the others are older still.
    superuser
        .batch_execute(
            "insert into public.jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
             select 'mail', 'done ' || m, 'done', 1, '{}'::jsonb, timestamptz '2026-01-01', timestamptz '2026-01-01 12:00+00' + m * interval '1 min'
               from unnest(array[3, 1, 5, 2, 4]) m
             union all
             select 'mail', s, s, 1, '{}', '2020-01-01', '2020-01-01' from unnest(array['failed', 'running']) s",
        )
        .unwrap();
    let mut sweep = |cutoff: &str, batch: u32| {
        let call = format!("select deleted_count from public.jobs_sweep('2026-01-01 {cutoff}+00', '{batch}')");
        value(&mut operator, &call)
    };
    let mut left = || column(&mut superuser, "select job_key from public.jobs order by updated_at, job_key");
    let always = ["failed", "running"];
    assert_eq!(sweep("12:01", 100), "0", "done at the cutoff is not before it");
    assert_eq!(left().len(), 7);
    assert_eq!(sweep("12:05", 2), "2");
    assert_eq!(left(), [&always[..], &["done 3", "done 4", "done 5"]].concat());
    assert_eq!(sweep("12:04:00.000001", 10_000), "2");
    assert_eq!(sweep("23:00", 1), "1");
    assert_eq!(sweep("23:00", 10_000), "0");
    assert_eq!(left(), always);
    // Its key is free again.
    let claim = "select fencing_token from public.job_claim('mail', 'done 1', 'w', '3000-01-01', '{}', null)";
    assert_eq!(value(&mut operator, claim), "1");
}

#[test]
fn every_argument_of_the_sweep_of_jobs_is_checked() {
    let database = Database::new();
    let sweep = [("p_cutoff", "'2026-02-01 12:00+00'", Takes::Instant), ("p_batch", "'10'", Takes::Batch)];
    arguments(&mut database.connect_as("operator"), "jobs_sweep", &sweep);
}
