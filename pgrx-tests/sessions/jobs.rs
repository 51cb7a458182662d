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
