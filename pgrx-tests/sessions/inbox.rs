//! The inbox, as two or more sessions see it.

use crate::black_box::harness::{Database, at_once, column, refusal, rows, start, try_rows, value};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each kind of claim: its statement; what a claim answers, what a repeat answers while there is no outcome.
const CLAIMS: [(&str, &[&str], &[&str]); 3] = [
    ("select event_id from public.inbox_claim_event('mail', 'e')", &["e"], &[]),
    (
        "select request_fingerprint, outcome, incomplete from public.inbox_claim_client('client:p:pay', 'e', 'f')",
        &["f", "∅", "f"],
        &["f", "∅", "t"],
    ),
    (
        "select source, outcome, state from public.inbox_claim_request('p', 'pay', 'e', '{\"a\": 1}')",
        &["client:p:pay", "∅", "claimed"],
        &["client:p:pay", "∅", "incomplete"],
    ),
];

fn answer(row: &[&str]) -> Vec<Vec<String>> {
    if row.is_empty() { Vec::new() } else { vec![row.iter().map(|value| (*value).to_owned()).collect()] }
}

const SAVE: &str = "select outcome from public.inbox_save_client_outcome('client:p:pay', 'e', '{\"paid\": true}')";

#[test]
fn a_repeat_waits_for_an_open_claim_and_is_answered_once_it_is_committed() {
    for (claim, claimed, repeated) in CLAIMS {
        let database = Database::new();
        let mut first = database.connect_as("app_be");
        first.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut first, claim), answer(claimed));
        let second = start(database.connect_as("app_be"), claim).wait_until_blocked(&mut database.connect());
        first.batch_execute("commit").unwrap();
        assert_eq!(second.rows(), answer(repeated), "{claim}");
    }
}

#[test]
fn a_repeat_waits_for_an_open_claim_and_claims_once_it_is_rolled_back() {
    for (claim, claimed, _) in CLAIMS {
        let database = Database::new();
        let mut first = database.connect_as("app_be");
        first.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut first, claim), answer(claimed));
        let second = start(database.connect_as("app_be"), claim).wait_until_blocked(&mut database.connect());
        first.batch_execute("rollback").unwrap();
        assert_eq!(second.rows(), answer(claimed), "{claim}");
    }
}

#[test]
fn a_repeat_in_a_transaction_leaves_it_usable() {
    for (claim, _, repeated) in CLAIMS {
        let database = Database::new();
        let (mut first, mut second) = (database.connect_as("app_be"), database.connect_as("app_be"));
        first.batch_execute("begin").unwrap();
        rows(&mut first, claim);
        second.batch_execute("begin").unwrap();
        second.batch_execute("select public.queue_write('before', '{}', null, null)").unwrap();
        let repeat = start(second, claim).wait_until_blocked(&mut database.connect());
        first.batch_execute("commit").unwrap();
        let (mut second, answers) = repeat.finish();
        assert_eq!(answers, answer(repeated), "{claim}");
        second.batch_execute("select public.queue_write('after', '{}', null, null); commit").unwrap();
        assert_eq!(value(&mut second, "select count(*) from public.queue_waiting(10)"), "2");
    }
}

#[test]
fn a_waiting_repeat_of_a_request_replays_the_outcome_that_was_committed_with_the_claim() {
    let replays: [&[&str]; 2] = [&["f", "{\"paid\": true}", "f"], &["client:p:pay", "{\"paid\": true}", "replay"]];
    for ((claim, ..), replayed) in CLAIMS[1..].iter().zip(replays) {
        let database = Database::new();
        let mut first = database.connect_as("app_be");
        first.batch_execute("begin").unwrap();
        rows(&mut first, claim);
        assert_eq!(column(&mut first, SAVE), ["{\"paid\": true}"]);
        let second = start(database.connect_as("app_be"), claim).wait_until_blocked(&mut database.connect());
        first.batch_execute("commit").unwrap();
        assert_eq!(second.rows(), answer(replayed), "{claim}");
    }
}

#[test]
fn another_request_under_an_open_key_waits_and_is_refused_or_claims() {
    let other = "select state from public.inbox_claim_request('p', 'pay', 'e', '{\"a\": 2}')";
    for end in ["commit", "rollback"] {
        let database = Database::new();
        let mut first = database.connect_as("app_be");
        first.batch_execute("begin").unwrap();
        rows(&mut first, CLAIMS[2].0);
        let second = start(database.connect_as("app_be"), other).wait_until_blocked(&mut database.connect());
        first.batch_execute(end).unwrap();
        let (_, result) = second.end();
        match end {
            "commit" => assert_eq!(refusal(result).code().code(), "LT001"),
            _ => assert_eq!(result.unwrap(), [["claimed"]]),
        }
    }
}

#[test]
fn of_fifty_claims_at_once_one_is_new_and_the_others_are_answered() {
    let database = Database::new();
    for (claim, claimed, repeated) in CLAIMS {
        // The two client claims share a row, and each is to be new.
        database.connect().batch_execute("truncate public.inbox").unwrap();
        let answers = at_once(&database, 50, "app_be", |_, session| rows(session, claim));
        let (new, others): (Vec<_>, Vec<_>) = answers.into_iter().partition(|rows| *rows == answer(claimed));
        assert_eq!(new.len(), 1, "{claim}");
        assert!(others.iter().all(|rows| *rows == answer(repeated)), "{claim}: {others:?}");
    }
}

#[test]
fn an_outcome_is_saved_by_one_of_two_and_the_other_changes_nothing() {
    for (end, saved) in [("commit", 0), ("rollback", 1)] {
        let database = Database::new();
        let mut first = database.connect_as("app_be");
        rows(&mut first, CLAIMS[1].0);
        first.batch_execute("begin").unwrap();
        let one = "select outcome from public.inbox_save_client_outcome('client:p:pay', 'e', '1')";
        assert_eq!(column(&mut first, one), ["1"]);
        let second = start(database.connect_as("app_be"), SAVE).wait_until_blocked(&mut database.connect());
        first.batch_execute(end).unwrap();
        assert_eq!(second.rows().len(), saved, "{end}");
        let stored = value(&mut database.connect(), "select outcome from public.inbox");
        assert_eq!(stored, if saved == 1 { "{\"paid\": true}" } else { "1" });
    }
}

/// The two ways in which a receipt goes; each answers one row, with what is not zero or empty if it went.
const REMOVALS: [&str; 2] = [
    "select nullif(deleted_count, 0) from public.inbox_sweep_clients('2100-01-01T00:00:00Z', '10')",
    "select event_id from public.inbox_forget('client:p:pay', 'e')",
];

#[test]
fn a_claim_during_an_open_removal_waits_then_claims_or_replays() {
    for removal in REMOVALS {
        for (claim, claimed, _) in &CLAIMS[1..] {
            for end in ["commit", "rollback"] {
                let database = Database::new();
                let mut remover = database.connect_as("operator");
                rows(&mut remover, claim);
                rows(&mut remover, SAVE);
                remover.batch_execute("begin").unwrap();
                assert_ne!(column(&mut remover, removal), ["∅"]);
                let waiting = start(database.connect_as("app_be"), claim).wait_until_blocked(&mut database.connect());
                remover.batch_execute(end).unwrap();
                let answers = waiting.rows();
                if end == "commit" {
                    assert_eq!(answers, answer(claimed), "{claim}");
                } else {
                    assert_eq!(answers[0][1], "{\"paid\": true}", "{claim}");
                }
            }
        }
    }
}

#[test]
fn a_claim_whose_row_is_removed_before_it_can_be_read_claims_it() {
    for removal in REMOVALS {
        for (claim, claimed, _) in &CLAIMS[1..] {
            let database = Database::new();
            let (mut gate, mut remover) = (database.connect(), database.connect_as("operator"));
            rows(&mut remover, claim);
            rows(&mut remover, SAVE);
            // Holds a claim behind its INSERT, which meets the row, and before it reads that.
            gate.batch_execute(
                "create function pass_the_gate() returns trigger language plpgsql as
                   $$ begin perform pg_advisory_xact_lock_shared(1); return null; end $$;
                 create trigger gate after insert on public.inbox execute function pass_the_gate();
                 select pg_advisory_lock(1)",
            )
            .unwrap();
            let waiting = start(database.connect_as("app_be"), claim).wait_until_blocked(&mut database.connect());
            assert_eq!(column(&mut remover, removal).len(), 1);
            assert_eq!(value(&mut remover, "select count(*) from public.inbox_forget('client:p:pay', 'e')"), "0");
            gate.batch_execute("select pg_advisory_unlock(1)").unwrap();
            assert_eq!(waiting.rows(), answer(claimed), "{claim}");
            assert_eq!(value(&mut gate, "select count(*) from public.inbox where outcome is null"), "1");
        }
    }
}

#[test]
fn a_request_whose_key_goes_to_another_one_before_it_can_be_read_is_refused() {
    let database = Database::new();
    let (mut gate, mut remover) = (database.connect(), database.connect_as("operator"));
    let other = "select state from public.inbox_claim_request('p', 'pay', 'e', '{\"a\": 2}')";
    rows(&mut remover, CLAIMS[2].0);
    gate.batch_execute(
        "create function pass_the_gate() returns trigger language plpgsql as
           $$ begin
                if session_user = 'app_be' then perform pg_advisory_xact_lock_shared(1); end if;
                return null;
              end $$;
         create trigger gate after insert on public.inbox execute function pass_the_gate();
         select pg_advisory_lock(1)",
    )
    .unwrap();
    let waiting = start(database.connect_as("app_be"), CLAIMS[2].0).wait_until_blocked(&mut database.connect());
    assert_eq!(column(&mut remover, REMOVALS[1]), ["e"]);
    assert_eq!(column(&mut remover, other), ["claimed"]);
    gate.batch_execute("select pg_advisory_unlock(1)").unwrap();
    assert_eq!(refusal(waiting.end().1).code().code(), "LT001");
}

#[test]
fn a_removal_passes_over_a_receipt_that_an_open_transaction_holds() {
    let database = Database::new();
    let (mut holder, mut remover) = (database.connect_as("app_be"), database.connect_as("operator"));
    rows(&mut holder, CLAIMS[1].0);
    holder.batch_execute("begin").unwrap();
    rows(&mut holder, SAVE);
    remover.batch_execute("set lock_timeout = '1ms'").unwrap();
    assert_eq!(column(&mut remover, REMOVALS[0]), ["∅"]);
    assert_eq!(column(&mut remover, REMOVALS[1]), [""; 0]);
    holder.batch_execute("commit").unwrap();
    assert_eq!(column(&mut remover, REMOVALS[0]), ["1"]);
}

/// Counts who came to an end, by a failed check too: those who work until all have would not stop otherwise.
struct CountedAtItsEnd<'a>(&'a AtomicUsize);

impl Drop for CountedAtItsEnd<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn ten_thousand_claims_that_race_a_sweep_and_a_forget_are_all_answered_truly() {
    const CLAIMANTS: usize = 4;
    const EACH: usize = 2_500;
    const KEYS: usize = 5;
    let database = Database::new();
    let claimed = AtomicUsize::new(0);
    let removed = AtomicUsize::new(0);
    let finished = AtomicUsize::new(0);
    at_once(&database, CLAIMANTS + 2, "operator", |i, session| match i {
        0..CLAIMANTS => {
            let _finished = CountedAtItsEnd(&finished);
            for round in 0..EACH {
                let key = (round * 7 + i) % KEYS;
                let request = round % 2 == 0;
                let claim = if request {
                    format!("select state, outcome from public.inbox_claim_request('p', 'pay', '{key}', '{{}}')")
                } else {
                    // The fingerprint of {}, so that both kinds of claim are of one request.
                    format!(
                        "select case when incomplete then 'incomplete' when outcome is null then 'claimed'
                                else 'replay' end,
                                outcome
                           from public.inbox_claim_client('client:p:pay', '{key}',
                                  '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a')"
                    )
                };
                let answers = rows(session, &claim);
                assert_eq!(answers.len(), 1, "{claim}");
                match &*answers[0][0] {
                    "claimed" => {
                        assert_eq!(answers[0][1], "∅");
                        claimed.fetch_add(1, Ordering::Relaxed);
                        let save = "select outcome from public.inbox_save_client_outcome('client:p:pay'";
                        // A forget may have taken the receipt meanwhile: then there is nothing to save the outcome of.
                        try_rows(session, &format!("{save}, '{key}', '{{\"key\": {key}}}')")).unwrap();
                    }
                    "incomplete" => assert_eq!(answers[0][1], "∅"),
                    _ => assert_eq!(answers[0][1], format!("{{\"key\": {key}}}")),
                }
            }
        }
        CLAIMANTS => {
            while finished.load(Ordering::Relaxed) < CLAIMANTS {
                let sweep = "select deleted_count from public.inbox_sweep_clients('2100-01-01T00:00:00Z', '2')";
                removed.fetch_add(value(session, sweep).parse().unwrap(), Ordering::Relaxed);
            }
        }
        _ => {
            for round in 0.. {
                if finished.load(Ordering::Relaxed) == CLAIMANTS {
                    break;
                }
                let forget = format!("select event_id from public.inbox_forget('client:p:pay', '{}')", round % KEYS);
                removed.fetch_add(column(session, &forget).len(), Ordering::Relaxed);
            }
        }
    });
    let left: usize = value(&mut database.connect(), "select count(*) from public.inbox").parse().unwrap();
    let (claimed, removed) = (claimed.into_inner(), removed.into_inner());
    // Every claim made a row, every removal took one, and nothing else did either.
    assert_eq!(claimed, removed + left);
    assert!(removed > 100, "the sweep and the forget took part: {removed}");
}

// ---------------------------------------------------------------------------------------------------------------------
// Many in one call
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn calls_that_claim_the_same_deliveries_in_opposite_orders_never_deadlock_and_each_is_claimed_once() {
    let database = Database::new();
    for round in 0..20 {
        let answers = at_once(&database, 8, "app_be", |i, session| {
            let order = if i % 2 == 0 { "n" } else { "n desc" };
            let call = format!(
                "select event_id from public.inbox_claim_events('door',
                   array(select 'e{round}.' || n from generate_series(1, 100) n order by {order}))"
            );
            column(session, &call)
        });
        let mut claimed: Vec<String> = answers.into_iter().flatten().collect();
        let mut expected: Vec<String> = (1..=100).map(|n| format!("e{round}.{n}")).collect();
        claimed.sort();
        expected.sort();
        assert_eq!(claimed, expected);
    }
}

#[test]
fn a_repeat_among_many_waits_for_an_open_claim_and_claims_only_once_it_is_rolled_back() {
    for (end, claimed) in [("commit", vec!["c", "a"]), ("rollback", vec!["c", "b", "a"])] {
        let database = Database::new();
        let mut first = database.connect_as("app_be");
        first.batch_execute("begin").unwrap();
        column(&mut first, "select * from public.inbox_claim_event('door', 'b')");
        let call = "select event_id from public.inbox_claim_events('door', '{c,b,a}')";
        let second = start(database.connect_as("app_be"), call).wait_until_blocked(&mut database.connect());
        first.batch_execute(end).unwrap();
        assert_eq!(second.rows().concat(), claimed);
    }
}

#[test]
fn above_read_committed_a_delivery_that_was_forgotten_since_the_snapshot_is_40001_among_many_too() {
    for isolation in ["repeatable read", "serializable"] {
        let database = Database::new();
        let mut session = database.connect_as("app_be");
        column(&mut session, "select * from public.inbox_claim_events('door', '{a,b}')");
        session.batch_execute(&format!("begin isolation level {isolation}")).unwrap();
        column(&mut session, "select 1");
        column(&mut database.connect_as("operator"), "select * from public.inbox_forget('door', 'a')");
        let call = "select * from public.inbox_claim_events('door', '{c,a}')";
        let error = refusal(session.simple_query(call));
        assert_eq!(error.code().code(), "40001", "{isolation}: {error}");
        session.batch_execute("rollback").unwrap();
        // A repeat that is still there is none of that, and is not locked.
        session.batch_execute(&format!("begin isolation level {isolation}")).unwrap();
        assert_eq!(column(&mut session, "select * from public.inbox_claim_events('door', '{c,b}')"), ["c"]);
        let free = "select count(*) from (select from public.inbox where event_id = 'b' for update skip locked) free";
        assert_eq!(value(&mut database.connect(), free), "1");
        session.batch_execute("commit").unwrap();
    }
}
