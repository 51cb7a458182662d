//! Fenced jobs, as one session sees them.

use super::checks::{AWKWARD, Takes, arguments, caught, changes_nothing, contents, quoted, wide, writes_nothing};
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

// ---------------------------------------------------------------------------------------------------------------------
// Many in one call
// ---------------------------------------------------------------------------------------------------------------------

/// A call of many items: the ids and the tokens, as literals of arrays.
fn items(items: &[(&str, &str)]) -> String {
    let list = |of: fn(&(&str, &str)) -> String| items.iter().map(of).collect::<Vec<_>>().join(",");
    format!("'{{{}}}', '{{{}}}'", list(|(id, _)| id.to_string()), list(|(_, token)| token.to_string()))
}

#[test]
fn many_jobs_are_claimed_in_one_call_each_as_by_itself() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let ended = claimed(&mut session, "ended");
    let failed = claim(&mut session, "failed", "first", "12:00:00", "13:00:00")[0][0].clone();
    column(&mut session, &format!("select * from public.job_fail('{failed}', 1, 'why', '2026-01-01 12:00+00')"));
    claim(&mut session, "live", "first", "12:00:00", "13:00:00");
    let done = claimed(&mut session, "done");
    column(&mut session, &format!("select * from public.job_complete('{done}', 1, '2026-01-01 12:00+00')"));
    let untouched = "select jsonb_agg(j order by job_key) from public.jobs j where job_key in ('done', 'live')";
    let before = value(&mut superuser, untouched);

    let call = "select job_key, fencing_token, kind, current_step, payload, id from public.job_claim_many(
        'other', '{new, ended, live, failed, new, done, ended, \"a, b\"}', 'second', '2026-01-01 12:10+00',
        '{1, 2, 3, 4, 5, 6, 7, 8}', '2026-01-01 12:05+00') order by job_key collate \"C\"";
    let answer = rows(&mut session, call);
    let shown: Vec<Vec<&str>> = answer.iter().map(|row| row[..5].iter().map(String::as_str).collect()).collect();
    assert_eq!(
        shown,
        [
            ["a, b", "1", "other", "∅", "8"],
            ["ended", "2", "mail", "∅", r#"{"by": "first"}"#],
            ["failed", "2", "mail", "∅", r#"{"by": "first"}"#],
            ["new", "1", "other", "∅", "1"],
        ]
    );
    assert_eq!([&answer[1][5], &answer[2][5]], [&ended, &failed]);
    let taken = "select job_key, status, claimed_by, lease_expires_at at time zone 'utc', error,
                        updated_at at time zone 'utc' from public.jobs where claimed_by = 'second'";
    let taken = rows(&mut superuser, taken);
    assert_eq!(taken.len(), 4);
    for row in taken {
        assert_eq!(row[1..], ["running", "second", "2026-01-01 12:10:00", "∅", "2026-01-01 12:05:00"], "{row:?}");
    }
    assert_eq!(value(&mut superuser, untouched), before);

    // Refused, all of them: nothing is written.
    let before = contents(&mut superuser);
    changes_nothing(&mut session, call);
    let none = "select * from public.job_claim_many('k', '{}', 'w', '2100-01-01', '{}', null)";
    changes_nothing(&mut session, none);
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn many_jobs_are_ended_with_a_verdict_each_in_the_order_of_the_items() {
    for (function, rest, ended) in [
        ("job_complete_many", "'2026-01-01 12:05+00'", "done ∅"),
        ("job_fail_many", "'{a,b,c,d,NULL,f,g}', '2026-01-01 12:05+00'", "failed "),
    ] {
        let database = Database::new();
        let mut session = database.connect_as("app_be");
        let mut superuser = database.connect();
        let keys = ["k0", "k1", "k2", "k3"];
        let ids = keys.map(|key| claimed(&mut session, key));
        let ids = ids.each_ref().map(String::as_str);
        column(&mut session, &format!("select * from public.job_complete('{}', 1, '2026-01-01 12:01+00')", ids[2]));
        let untouched =
            format!("select jsonb_agg(j order by id) from public.jobs j where id in ('{}', '{}')", ids[1], ids[2]);
        let before = value(&mut superuser, &untouched);
        let list = items(&[
            (ids[3], "1"),
            (ids[1], "2"),
            (UNKNOWN, "1"),
            (ids[0], "1"),
            (ids[0], "1"),
            (ids[2], "1"),
            (ids[0], "7"),
        ]);
        let call = format!("select id, verdict from public.{function}({list}, {rest})");
        let answer = rows(&mut session, &call);
        let expected = [
            [ids[3], "done"],
            [ids[1], "stale"],
            [UNKNOWN, "unknown"],
            [ids[0], "done"],
            [ids[0], "done"],
            [ids[2], "stale"],
            [ids[0], "stale"],
        ];
        assert_eq!(answer, expected, "{function}");
        assert_eq!(value(&mut superuser, &untouched), before);
        let reasons = if function == "job_fail_many" { ["d", "a"] } else { ["", ""] };
        for (key, reason) in ["k0", "k3"].into_iter().zip(reasons) {
            let row = stored(&mut superuser, key);
            let came = format!("{} {}", row[1], row[7]);
            assert_eq!(came, format!("{ended}{reason}"), "of equal items the first one's reason is kept");
            assert_eq!([&row[5], &row[9]], ["∅", "2026-01-01 12:05:00"]);
        }
        // Refused, all of them: nothing is written, and nothing locked.
        let before = contents(&mut superuser);
        let again = writes_nothing(&mut session, &call);
        assert!(again.iter().all(|row| row[1] == if row[0] == UNKNOWN { "unknown" } else { "stale" }), "{again:?}");
        let none = if function == "job_fail_many" { "'{}', '{}', '{}', null" } else { "'{}', '{}', null" };
        changes_nothing(&mut session, &format!("select * from public.{function}({none})"));
        assert_eq!(contents(&mut superuser), before);
    }
}

#[test]
fn failing_many_takes_any_reasons_and_cuts_very_long_ones() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let ids = ["k0", "k1", "k2"].map(|key| claimed(&mut session, key));
    let list = items(&[(&ids[0], "1"), (&ids[1], "1"), (&ids[2], "1")]);
    let call = format!(
        "select verdict from public.job_fail_many({list}, array[null, {}, {}], null)",
        wide(10_001),
        quoted(AWKWARD)
    );
    assert_eq!(column(&mut session, &call), ["done"; 3]);
    let mut superuser = database.connect();
    assert_eq!(stored(&mut superuser, "k0")[7], "∅");
    let single = {
        let id = claimed(&mut session, "single");
        column(&mut session, &format!("select * from public.job_fail('{id}', 1, {}, null)", wide(10_001)));
        stored(&mut superuser, "single")[7].clone()
    };
    assert_eq!(stored(&mut superuser, "k1")[7], single, "as job_fail cuts it");
    assert_eq!(stored(&mut superuser, "k2")[7], AWKWARD);
    let id = claimed(&mut session, "without");
    let call = format!("select verdict from public.job_fail_many({}, null, null)", items(&[(&id, "1")]));
    assert_eq!(column(&mut session, &call), ["done"]);
    assert_eq!(stored(&mut superuser, "without")[7], "∅");
}

#[test]
fn ten_thousand_jobs_are_claimed_and_ended_in_one_call_each() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    // What looked at every pair of items would take far longer.
    session.batch_execute("set statement_timeout = '60s'").unwrap();
    let claim =
        "select count(*) from public.job_claim_many('mail', array(select 'k' || i from generate_series(1, 10000) i),
        'w', '2026-01-01 12:01+00', array_fill('{}'::jsonb, array[10000]), '2026-01-01 12:00+00')";
    assert_eq!(value(&mut session, claim), "10000");
    assert_eq!(value(&mut session, &claim.replace("12:0", "13:0")), "10000", "taken over");
    let mut superuser = database.connect();
    superuser.batch_execute("set statement_timeout = '60s'").unwrap();
    let end = |function: &str, rest: &str| {
        format!(
            "select string_agg(distinct verdict, ',') from public.{function}(
               array(select id from public.jobs order by job_key), array_fill(2::bigint, array[10000]), {rest})"
        )
    };
    superuser.batch_execute("begin").unwrap();
    let reasons = "array_fill('why'::text, array[10000]), null";
    assert_eq!(value(&mut superuser, &end("job_fail_many", reasons)), "done");
    superuser.batch_execute("rollback").unwrap();
    assert_eq!(value(&mut superuser, &end("job_complete_many", "null")), "done");
    assert_eq!(value(&mut superuser, &end("job_complete_many", "null")), "stale");
}

#[test]
fn arrays_may_come_as_a_language_builds_them_and_as_a_table_keeps_them() {
    let database = Database::new();
    let mut session = database.connect();
    // PL/pgSQL passes arrays taken apart, and counts from where it likes; the table keeps them compressed and out of line.
    session
        .batch_execute(
            "create table kept (keys varchar[], payloads jsonb[], ids uuid[], tokens bigint[], reasons text[]);
             do $$
             declare keys varchar[]; payloads jsonb[]; ids uuid[]; tokens bigint[]; reasons text[]; claimed record;
             begin
               for i in -2..997 loop
                 keys[i] := 'k' || i;
                 payloads[i] := to_jsonb(repeat(i::text, 100));
                 reasons[i] := repeat('why', 100);
               end loop;
               for claimed in select * from public.job_claim_many('m', keys, 'w', '2100-01-01', payloads, null) loop
                 ids := ids || claimed.id;
                 tokens := tokens || claimed.fencing_token;
               end loop;
               insert into kept values (keys, payloads, ids, tokens, reasons);
             end $$",
        )
        .unwrap();
    let whole = "select count(*) from public.jobs where payload = to_jsonb(repeat(substr(job_key, 2), 100))";
    assert_eq!(value(&mut session, whole), "1000");
    let size = "select pg_column_size(keys) + pg_column_size(reasons) > pg_relation_size('kept') from kept";
    assert_eq!(value(&mut session, size), "t", "out of line");
    let of = |function: &str, arguments: &str| {
        format!("select verdict, count(*) from kept, public.{function}({arguments}, null) group by 1")
    };
    session.batch_execute("begin").unwrap();
    assert_eq!(rows(&mut session, &of("job_fail_many", "ids, tokens, reasons")), [["done", "1000"]]);
    assert_eq!(value(&mut session, "select distinct error from public.jobs"), "why".repeat(100));
    session.batch_execute("rollback").unwrap();
    assert_eq!(rows(&mut session, &of("job_complete_many", "ids, tokens")), [["done", "1000"]]);
    assert!(
        rows(
            &mut session,
            "select c.* from kept, public.job_claim_many('m', keys, 'w', '2100-01-01', payloads, null) c"
        )
        .is_empty()
    );
}

#[test]
fn the_message_names_the_element_or_the_lengths() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let claim = |keys: &str, payloads: &str| {
        format!("select * from public.job_claim_many('k', '{keys}', 'w', '2100-01-01', '{payloads}', null)")
    };
    for (call, sqlstate, message) in [
        (claim("{a,b,NULL}", "{1,2,3}"), "22004", "p_job_keys[3] must not be NULL"),
        (claim("{a,\"\"}", "{1,2}"), "22023", "p_job_keys[2] must not be empty"),
        (claim("{a,b}", "{1,NULL}"), "22004", "p_payloads[2] must not be NULL"),
        (claim("{a,b}", "{1}"), "22023", "p_payloads and p_job_keys must be of one length"),
        (claim("{}", "{1}"), "22023", "p_payloads and p_job_keys must be of one length"),
        // Counted from 1, whatever the array's own bounds are.
        (claim("[0:1]={a,NULL}", "{1,2}"), "22004", "p_job_keys[2] must not be NULL"),
        (
            format!("select * from public.job_complete_many('{{{UNKNOWN},{UNKNOWN}}}', '{{1,0}}', null)"),
            "22023",
            "p_tokens[2] is out of range: 0",
        ),
    ] {
        let error = refused(&mut session, &call, sqlstate, message);
        if message.contains("length") {
            let detail = error.detail().unwrap_or_default();
            assert!(detail.starts_with("p_payloads has 1 elements, p_job_keys has"), "{detail}");
        }
    }
    assert_eq!(value(&mut database.connect(), "select count(*) from public.jobs"), "0");
}

#[test]
fn every_argument_of_the_calls_on_many_jobs_is_checked() {
    use Takes::{Instant, Items, OptionalInstant, OptionalItems, Text};
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    claimed(&mut session, "k");
    let before = contents(&mut superuser);
    let now = ("p_now", "'2026-01-01 12:00+00'", OptionalInstant);
    const KEYS: Takes =
        Items("'x'::varchar", &[("''", "22023"), ("repeat('😀', 201)", "22001"), ("repeat('x', 200) || ' '", "22001")]);
    arguments(
        &mut session,
        "job_claim_many",
        &[
            ("p_kind", "'mail'", Text(200)),
            ("p_job_keys", "'{new}'", KEYS),
            ("p_worker", "'w'", Text(200)),
            ("p_lease_end", "'2100-01-01'", Instant),
            ("p_payloads", "'{1}'", Items("'1'::jsonb", &[])),
            now,
        ],
    );
    let ids = ("p_ids", "'{00000000-0000-0000-0000-000000000000}'", Items("gen_random_uuid()", &[]));
    let tokens = ("p_tokens", "'{1}'", Items("1::bigint", &[("0::bigint", "22023"), ("-1::bigint", "22023")]));
    arguments(&mut session, "job_complete_many", &[ids, tokens, now]);
    arguments(
        &mut session,
        "job_fail_many",
        &[ids, tokens, ("p_reasons", "'{why}'", OptionalItems("'why'::text")), now],
    );
    assert_eq!(contents(&mut superuser), before);
}

// ---------------------------------------------------------------------------------------------------------------------
// Heartbeats
// ---------------------------------------------------------------------------------------------------------------------

fn heartbeat(id: &str, token: &str, lease_end: &str, now: &str) -> String {
    format!(
        "select id, lease_expires_at at time zone 'utc'
           from public.job_heartbeat('{id}', {token}, '2026-01-01 {lease_end}+00', '2026-01-01 {now}+00')"
    )
}

#[test]
fn the_holder_and_only_the_holder_prolongs_its_lease() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let id = claimed(&mut session, "k");
    let row = stored(&mut superuser, "k");
    let beat = rows(&mut session, &heartbeat(&id, "1", "12:02:00", "12:00:30"));
    assert_eq!(beat, [[id.as_str(), "2026-01-01 12:02:00"]]);
    let mut expected = row;
    expected[5] = "2026-01-01 12:02:00".into();
    assert_eq!(stored(&mut superuser, "k"), expected, "nothing but the lease");
    assert_eq!(claim(&mut session, "k", "second", "12:01:30", "13:00:00").len(), 0, "the lease is live");
    // One that was overtaken by a later one shortens nothing.
    let beat = rows(&mut session, &heartbeat(&id, "1", "12:01:30", "12:00:40"));
    assert_eq!(beat, [[id.as_str(), "2026-01-01 12:02:00"]]);
    // The lease has ended, and nobody has taken the job over: the token decides.
    let beat = rows(&mut session, &heartbeat(&id, "1", "12:06:00", "12:05:00"));
    assert_eq!(beat, [[id.as_str(), "2026-01-01 12:06:00"]]);

    let before = contents(&mut superuser);
    for (id, token) in [(id.as_str(), "2"), (&id, "9223372036854775807"), (UNKNOWN, "1")] {
        changes_nothing(&mut session, &heartbeat(id, token, "13:00:00", "12:05:00"));
    }
    assert_eq!(contents(&mut superuser), before);
    assert_eq!(claim(&mut session, "k", "second", "12:07:00", "12:10:00")[0][2], "2");
    changes_nothing(&mut session, &heartbeat(&id, "1", "13:00:00", "12:08:00"));
    for (end, token) in [("job_fail('$', 2, null, null)", "2"), ("job_complete('$', 3, null)", "3")] {
        column(&mut session, &format!("select * from public.{}", end.replace('$', &id)));
        changes_nothing(&mut session, &heartbeat(&id, token, "14:00:00", "12:08:00"));
        claim(&mut session, "k", "third", "13:00:00", "13:01:00");
    }
}

#[test]
fn a_heartbeat_is_a_hot_update() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let id = claimed(&mut session, "k");
    superuser.batch_execute("create extension pageinspect").unwrap();
    for minute in 2..5 {
        rows(&mut session, &heartbeat(&id, "1", &format!("12:0{minute}:00"), "12:00:30"));
    }
    // HEAP_ONLY_TUPLE.
    let hot = "select count(*) from heap_page_items(get_raw_page('public.jobs', 0)) where t_infomask2 & 32768 <> 0";
    assert_eq!(value(&mut superuser, hot), "3");
}

#[test]
fn every_argument_of_a_heartbeat_is_checked() {
    use Takes::{Instant, OptionalInstant, Present, Token};
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let id = quoted(&claimed(&mut session, "k"));
    arguments(
        &mut session,
        "job_heartbeat",
        &[
            ("p_id", &id, Present),
            ("p_token", "'1'", Token),
            ("p_lease_end", "'2100-01-01'", Instant),
            ("p_now", "'2026-01-01 12:00+00'", OptionalInstant),
        ],
    );
    for (lease_end, now) in [
        ("'2026-01-01 12:00+00'", "'2026-01-01 12:00+00'"),
        ("'2026-01-01 12:00+00'", "'2026-01-01 12:00:00.000001+00'"),
        ("clock_timestamp()", "null"),
    ] {
        for call in [
            format!("select * from public.job_heartbeat({id}, 1, {lease_end}, {now})"),
            format!("select * from public.job_claim_many('k', '{{k}}', 'w', {lease_end}, '{{1}}', {now})"),
        ] {
            refused(&mut session, &call, "22023", "p_lease_end");
        }
    }
}
