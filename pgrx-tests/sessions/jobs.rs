//! Fenced jobs, as two or more sessions see them.

use crate::black_box::harness::{Database, at_once, column, rows, start, value};
use postgres::Client;

/// A claim at a minute of an hour, with a lease of one minute: it ends at the next one.
fn claim(key: &str, worker: &str, minute: u32) -> String {
    format!(
        "select id, fencing_token, current_step, '{worker}'
           from public.job_claim('mail', '{key}', '{worker}', '2026-01-01T00:{:02}:00Z', '{{}}',
                                 '2026-01-01T00:{minute:02}:00Z')",
        minute + 1
    )
}

/// The id of a job that was claimed with token 1 at minute 0, so that at minute 2 its lease has ended.
fn claimed_job(session: &mut Client, key: &str) -> String {
    let answer = rows(session, &claim(key, "first", 0));
    assert_eq!(answer[0][1], "1");
    answer[0][0].clone()
}

/// What a worker can write while it holds the job.
fn writes(id: &str, token: u32) -> [String; 3] {
    [
        format!("select id from public.job_advance('{id}', '{token}', 'half', '2026-01-01T00:03:00Z')"),
        format!("select id from public.job_complete('{id}', '{token}', '2026-01-01T00:03:00Z')"),
        format!("select id from public.job_fail('{id}', '{token}', 'no luck', '2026-01-01T00:03:00Z')"),
    ]
}

const JOB: &str = "select status || ' ' || fencing_token || ' ' || coalesce(claimed_by, '') || ' ' ||
                          coalesce(current_step, '-') || ' ' || coalesce(error, '-') from public.jobs";

#[test]
fn sixteen_callers_of_a_new_key_make_one_row() {
    let database = Database::new();
    for round in 0..20 {
        let answers = at_once(&database, 16, "app_be", |i, session| {
            rows(session, &claim(&format!("k{round}"), &format!("w{i}"), 0))
        });
        let won: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{won:?}");
        assert_eq!(won[0][1], "1");
        let stored = rows(
            &mut database.connect(),
            &format!("select id, fencing_token, claimed_by from public.jobs where job_key = 'k{round}'"),
        );
        assert_eq!(stored, [[&*won[0][0], "1", &*won[0][3]]]);
    }
}

#[test]
fn sixteen_callers_of_an_expired_job_get_one_token_and_it_is_the_next() {
    let database = Database::new();
    for round in 0..20 {
        let key = format!("k{round}");
        let id = claimed_job(&mut database.connect_as("app_be"), &key);
        let answers = at_once(&database, 16, "app_be", |i, session| rows(session, &claim(&key, &format!("w{i}"), 2)));
        let won: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{won:?}");
        assert_eq!((&won[0][0], &*won[0][1]), (&id, "2"));
        let stored = value(
            &mut database.connect(),
            &format!("select fencing_token || ' ' || claimed_by from public.jobs where id = '{id}'"),
        );
        assert_eq!(stored, format!("2 {}", won[0][3]));
    }
}

#[test]
fn no_two_callers_ever_get_one_token() {
    let database = Database::new();
    let tokens = at_once(&database, 8, "app_be", |i, session| {
        let mut tokens = Vec::new();
        for round in 0..100 {
            // Every claim finds the lease ended: minutes go round, and only the token tells claims apart.
            let sql = "select id, fencing_token from public.job_claim('mail', 'k', 'w', now() + '1 us', '{}', now())";
            for answer in rows(session, sql) {
                tokens.push(answer[1].parse::<u32>().unwrap());
                if (i + round) % 3 == 0 {
                    rows(
                        session,
                        &format!("select id from public.job_fail('{}', '{}', null, null)", answer[0], answer[1]),
                    );
                }
            }
        }
        tokens
    });
    let mut tokens: Vec<u32> = tokens.into_iter().flatten().collect();
    tokens.sort_unstable();
    let counted: Vec<u32> = (1..=tokens.len() as u32).collect();
    assert_eq!(tokens, counted, "every token once, and none left out");
}

#[test]
fn a_worker_that_lost_its_lease_cannot_advance_complete_or_fail() {
    let database = Database::new();
    let (mut late, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
    let id = claimed_job(&mut late, "k");
    assert_eq!(rows(&mut new, &claim("k", "second", 2))[0][1], "2");
    for write in writes(&id, 1) {
        assert_eq!(column(&mut late, &write), [""; 0], "{write}");
    }
    assert_eq!(value(&mut database.connect(), JOB), "running 2 second - -");
    assert_eq!(column(&mut new, &writes(&id, 2)[1]), [id]);
}

#[test]
fn a_late_write_that_waits_for_the_reclaim_changes_nothing() {
    for which in 0..3 {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut late, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
        let id = claimed_job(&mut late, "k");
        new.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut new, &claim("k", "second", 2))[0][1], "2");
        let write = start(late, &writes(&id, 1)[which]).wait_until_blocked(&mut observer);
        new.batch_execute("commit").unwrap();
        assert_eq!(write.rows(), [[""; 0]; 0]);
        assert_eq!(value(&mut observer, JOB), "running 2 second - -");
    }
}

#[test]
fn a_write_that_waits_for_a_reclaim_that_is_rolled_back_counts() {
    for (which, job) in ["running 1 first half -", "done 1 first - -", "failed 1 first - no luck"].iter().enumerate() {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut late, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
        let id = claimed_job(&mut late, "k");
        new.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut new, &claim("k", "second", 2))[0][1], "2");
        let write = start(late, &writes(&id, 1)[which]).wait_until_blocked(&mut observer);
        new.batch_execute("rollback").unwrap();
        assert_eq!(write.rows(), [[id]]);
        assert_eq!(value(&mut observer, JOB), *job);
    }
}

#[test]
fn a_reclaim_that_waits_for_a_write_of_the_holder_sees_what_it_wrote() {
    // Advanced: the lease has ended all the same, and the step is handed on. Completed: never again. Failed: once more.
    let after = ["running 2 second half -", "done 1 first - -", "running 2 second - -"];
    for (which, job) in after.iter().enumerate() {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut holder, new) = (database.connect_as("app_be"), database.connect_as("app_be"));
        let id = claimed_job(&mut holder, "k");
        holder.batch_execute("begin").unwrap();
        assert_eq!(column(&mut holder, &writes(&id, 1)[which]), [&*id]);
        let reclaim = start(new, &claim("k", "second", 2)).wait_until_blocked(&mut observer);
        holder.batch_execute("commit").unwrap();
        let answer = reclaim.rows();
        match which {
            0 => assert_eq!(answer, [[&*id, "2", "half", "second"]]),
            1 => assert_eq!(answer, [[""; 0]; 0]),
            _ => assert_eq!(answer, [[&*id, "2", "∅", "second"]]),
        }
        assert_eq!(value(&mut observer, JOB), *job);
    }
}

#[test]
fn a_reclaim_that_waits_for_a_write_that_is_rolled_back_gets_the_job() {
    for which in 0..3 {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut holder, new) = (database.connect_as("app_be"), database.connect_as("app_be"));
        let id = claimed_job(&mut holder, "k");
        holder.batch_execute("begin").unwrap();
        assert_eq!(column(&mut holder, &writes(&id, 1)[which]), [&*id]);
        let reclaim = start(new, &claim("k", "second", 2)).wait_until_blocked(&mut observer);
        holder.batch_execute("rollback").unwrap();
        assert_eq!(reclaim.rows(), [[&*id, "2", "∅", "second"]]);
        assert_eq!(value(&mut observer, JOB), "running 2 second - -");
    }
}

#[test]
fn a_claim_of_a_new_key_waits_for_an_open_claim_and_gets_no_row_once_it_is_committed() {
    let database = Database::new();
    let mut observer = database.connect();
    let mut first = database.connect_as("app_be");
    first.batch_execute("begin").unwrap();
    assert_eq!(rows(&mut first, &claim("k", "first", 0))[0][1], "1");
    let second = start(database.connect_as("app_be"), &claim("k", "second", 0)).wait_until_blocked(&mut observer);
    first.batch_execute("commit").unwrap();
    assert_eq!(second.rows(), [[""; 0]; 0]);
    assert_eq!(value(&mut observer, JOB), "running 1 first - -");
}

#[test]
fn a_claim_of_a_new_key_waits_for_an_open_claim_and_makes_the_job_once_it_is_rolled_back() {
    let database = Database::new();
    let mut observer = database.connect();
    let mut first = database.connect_as("app_be");
    first.batch_execute("begin").unwrap();
    assert_eq!(rows(&mut first, &claim("k", "first", 0))[0][1], "1");
    let second = start(database.connect_as("app_be"), &claim("k", "second", 0)).wait_until_blocked(&mut observer);
    first.batch_execute("rollback").unwrap();
    assert_eq!(second.rows()[0][1..], ["1", "∅", "second"]);
    assert_eq!(value(&mut observer, JOB), "running 1 second - -");
}

#[test]
fn a_claim_that_waited_for_a_claim_with_an_ended_lease_gets_the_next_token() {
    let database = Database::new();
    let mut observer = database.connect();
    let mut first = database.connect_as("app_be");
    first.batch_execute("begin").unwrap();
    assert_eq!(rows(&mut first, &claim("k", "first", 0))[0][1], "1");
    let second = start(database.connect_as("app_be"), &claim("k", "second", 2)).wait_until_blocked(&mut observer);
    first.batch_execute("commit").unwrap();
    assert_eq!(second.rows()[0][1..], ["2", "∅", "second"]);
}

#[test]
fn a_claim_under_a_live_lease_waits_for_an_open_write_of_the_holder_and_no_longer() {
    let database = Database::new();
    let mut observer = database.connect();
    let mut holder = database.connect_as("app_be");
    let id = claimed_job(&mut holder, "k");
    holder.batch_execute("begin").unwrap();
    assert_eq!(column(&mut holder, &writes(&id, 1)[0]), [&*id]);
    // The lease is live at minute 0, whatever becomes of the write.
    let claim_early = start(database.connect_as("app_be"), &claim("k", "second", 0)).wait_until_blocked(&mut observer);
    holder.batch_execute("commit").unwrap();
    let (mut second, answer) = claim_early.finish();
    assert_eq!(answer, [[""; 0]; 0]);
    second.batch_execute("set lock_timeout = '1ms'").unwrap();
    assert_eq!(rows(&mut second, &claim("k", "second", 0)), [[""; 0]; 0]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Many in one call
// ---------------------------------------------------------------------------------------------------------------------

/// A claim of many keys at a minute of an hour, with leases of one minute.
fn claim_many(keys: &[String], worker: &str, minute: u32) -> String {
    format!(
        "select job_key, fencing_token from public.job_claim_many('mail', '{{{}}}', '{worker}',
           '2026-01-01T00:{:02}:00Z', array_fill('{{}}'::jsonb, array[{}]), '2026-01-01T00:{minute:02}:00Z')",
        keys.join(","),
        minute + 1,
        keys.len()
    )
}

/// A guarded write of many jobs with one token.
fn end_many(function: &str, ids: &[String], token: u32) -> String {
    let reasons = if function == "job_fail_many" { "null, " } else { "" };
    format!(
        "select id, verdict from public.{function}('{{{}}}', array_fill({token}::bigint, array[{}]), {reasons}null)",
        ids.join(","),
        ids.len()
    )
}

/// Every second session goes backwards through a list.
fn in_its_order(list: &[String], session: usize) -> Vec<String> {
    let mut list = list.to_vec();
    if session % 2 == 1 {
        list.reverse();
    }
    list
}

#[test]
fn calls_that_claim_the_same_jobs_in_opposite_orders_never_deadlock_and_each_is_claimed_once() {
    let database = Database::new();
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    // New ones at minute 0; then, each time, leases that have ended.
    for round in 0..10 {
        let answers = at_once(&database, 8, "app_be", |i, session| {
            rows(session, &claim_many(&in_its_order(&keys, i), &format!("w{i}"), 2 * round))
        });
        let mut won: Vec<_> = answers.into_iter().flatten().collect();
        won.sort();
        let mut expected: Vec<_> = keys.iter().map(|key| vec![key.clone(), (round + 1).to_string()]).collect();
        expected.sort();
        assert_eq!(won, expected, "round {round}");
    }
}

#[test]
fn calls_that_end_the_same_jobs_in_opposite_orders_never_deadlock_and_each_is_ended_once() {
    for function in ["job_complete_many", "job_fail_many"] {
        let database = Database::new();
        for round in 0..10 {
            let keys: Vec<String> = (0..100).map(|n| format!("k{round}.{n}")).collect();
            rows(&mut database.connect_as("app_be"), &claim_many(&keys, "w", 0));
            let ids = format!("select id from public.jobs where job_key like 'k{round}.%' order by job_key");
            let ids = column(&mut database.connect(), &ids);
            let answers = at_once(&database, 8, "app_be", |i, session| {
                rows(session, &end_many(function, &in_its_order(&ids, i), 1))
            });
            let done = answers.iter().flatten().filter(|row| row[1] == "done").count();
            let stale = answers.iter().flatten().filter(|row| row[1] == "stale").count();
            assert_eq!((done, stale), (100, 700), "{function}");
        }
    }
}

#[test]
fn calls_that_claim_and_calls_that_end_the_same_jobs_never_deadlock() {
    let database = Database::new();
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    rows(&mut database.connect_as("app_be"), &claim_many(&keys, "first", 0));
    let ids = column(&mut database.connect(), "select id from public.jobs order by job_key");
    for round in 1..=10 {
        at_once(&database, 6, "app_be", |i, session| {
            let (keys, ids) = (in_its_order(&keys, i / 3), in_its_order(&ids, i / 3));
            match i % 3 {
                0 => rows(session, &claim_many(&keys, "w", 2 * round)),
                1 => rows(session, &end_many("job_fail_many", &ids, round)),
                _ => rows(session, &end_many("job_complete_many", &ids, 100)),
            }
        });
        // Whatever came first, each job is claimed once more, so that the next round finds tokens of one height.
        rows(&mut database.connect_as("app_be"), &claim_many(&keys, "last", 2 * round));
        let tokens = column(&mut database.connect(), "select distinct fencing_token from public.jobs");
        let expected = [(round + 1).to_string(), (round + 2).to_string()];
        assert!(tokens.iter().all(|token| expected.contains(token)), "{tokens:?}");
        let level = format!("update public.jobs set fencing_token = {}, status = 'running'", round + 1);
        database.connect().batch_execute(&level).unwrap();
    }
}

#[test]
fn a_late_item_among_many_that_waits_for_the_reclaim_is_stale_and_the_others_are_done() {
    for (function, ended) in [("job_complete_many", "done"), ("job_fail_many", "failed")] {
        for (end, verdict, first) in [("commit", "stale", "running 2"), ("rollback", "done", "")] {
            let database = Database::new();
            let mut observer = database.connect();
            let (mut late, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
            let ids = ["a", "b"].map(|key| claimed_job(&mut late, key));
            new.batch_execute("begin").unwrap();
            assert_eq!(rows(&mut new, &claim("a", "second", 2))[0][1], "2");
            let write = start(late, &end_many(function, &ids, 1)).wait_until_blocked(&mut observer);
            new.batch_execute(end).unwrap();
            assert_eq!(write.rows(), [[&*ids[0], verdict], [&*ids[1], "done"]]);
            let stored =
                column(&mut observer, "select status || ' ' || fencing_token from public.jobs order by job_key");
            let done = format!("{ended} 1");
            assert_eq!(stored, [if first.is_empty() { &done } else { first }, &done]);
        }
    }
}

#[test]
fn a_claim_of_many_that_waits_for_an_open_one_gets_what_that_leaves() {
    for (end, answer) in [("commit", vec![["b", "1"]]), ("rollback", vec![["a", "1"], ["b", "1"]])] {
        let database = Database::new();
        let mut observer = database.connect();
        let mut first = database.connect_as("app_be");
        first.batch_execute("begin").unwrap();
        rows(&mut first, &claim("a", "first", 0));
        let keys = ["b", "a"].map(str::to_owned);
        let second = start(database.connect_as("app_be"), &claim_many(&keys, "second", 0));
        let second = second.wait_until_blocked(&mut observer);
        first.batch_execute(end).unwrap();
        let mut came = second.rows();
        came.sort();
        assert_eq!(came, answer);
    }
}

#[test]
fn a_claim_that_waits_for_a_heartbeat_finds_the_lease_live_unless_it_is_rolled_back() {
    for (end, token) in [("commit", None), ("rollback", Some("2"))] {
        let database = Database::new();
        let mut observer = database.connect();
        let mut holder = database.connect_as("app_be");
        let id = claimed_job(&mut holder, "k");
        holder.batch_execute("begin").unwrap();
        let beat =
            format!("select id from public.job_heartbeat('{id}', '1', '2026-01-01T00:09:00Z', '2026-01-01T00:02:00Z')");
        assert_eq!(column(&mut holder, &beat), [&*id]);
        let reclaim = start(database.connect_as("app_be"), &claim("k", "second", 2)).wait_until_blocked(&mut observer);
        holder.batch_execute(end).unwrap();
        assert_eq!(reclaim.rows().first().map(|row| row[1].as_str()), token);
    }
}

#[test]
fn a_heartbeat_that_waits_for_a_reclaim_is_refused_unless_it_is_rolled_back() {
    for (end, beats) in [("commit", 0), ("rollback", 1)] {
        let database = Database::new();
        let mut observer = database.connect();
        let (mut late, mut new) = (database.connect_as("app_be"), database.connect_as("app_be"));
        let id = claimed_job(&mut late, "k");
        new.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut new, &claim("k", "second", 2))[0][1], "2");
        let beat =
            format!("select id from public.job_heartbeat('{id}', '1', '2026-01-01T00:09:00Z', '2026-01-01T00:02:00Z')");
        let beat = start(late, &beat).wait_until_blocked(&mut observer);
        new.batch_execute(end).unwrap();
        assert_eq!(beat.rows().len(), beats);
    }
}
