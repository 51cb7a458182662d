//! Every function above READ COMMITTED: the right answer or SQLSTATE 40001, nothing else.

use crate::black_box::harness::{Database, at_once, rows, try_rows, value};
use postgres::error::SqlState;
use std::sync::Barrier;

/// What all answers together must be.
#[derive(Clone, Copy)]
enum Answers {
    /// One session is answered a row, the others none.
    OneRow,
    /// Every session is answered one row whose first value is this.
    All(&'static str),
    /// One session is answered the first value, the others the second.
    OneAndOthers(&'static str, &'static str),
    /// The values of all sessions together are these, each once.
    Disjoint(&'static [&'static str]),
}
use Answers::{All, Disjoint, OneAndOthers, OneRow};

/// A function that sessions call at once, all with a snapshot from before the first call.
struct Race {
    /// Done before; `{owner}` is the extension's owner.
    before: &'static str,
    /// `{i}` is the session's number.
    call: &'static str,
    answers: Answers,
    /// What holds afterwards.
    after: &'static str,
}

const SUBSCRIBED: &str = "select public.event_bus_subscribe('a', 'b');
    select public.event_bus_send('a', jsonb_build_object('payload', jsonb_build_object('dedupeKey', n::text)))
      from generate_series(1, 4) n;";
const JOB: &str = "select public.job_claim('mail', 'k', 'w', '2026-01-01T00:01:00Z', '{}', '2026-01-01T00:00:00Z');
    update public.jobs set id = '00000000-0000-0000-0000-000000000001';";
const QUEUE: &str = "insert into public.queue (id, queue, payload, created_at)
    select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'mail', '{}', now() from generate_series(1, 8) n;";
const RECEIPT: &str = "select public.inbox_claim_client('s', 'e', 'f', '2026-01-01T00:00:00Z');";
const SAVED: &str = "select public.inbox_claim_client('s', 'e', 'f', '2026-01-01T00:00:00Z');
    select public.inbox_save_client_outcome('s', 'e', '1');";

const RACES: [Race; 31] = [
    Race {
        before: "",
        call: "select fencing_token from public.job_claim('mail', 'k', 'w{i}', now() + '1 h', '{}', null)",
        answers: OneRow,
        after: "(select count(*) = 1 and max(fencing_token) = 1 from public.jobs)",
    },
    Race {
        before: JOB,
        call: "select fencing_token from public.job_claim('mail', 'k', 'w{i}', now() + '1 h', '{}', null)",
        answers: OneRow,
        after: "(select fencing_token = 2 from public.jobs)",
    },
    Race {
        before: JOB,
        call: "select 'mine' from public.job_advance('00000000-0000-0000-0000-000000000001', 1, 's{i}', null)",
        answers: All("mine"),
        after: "(select status = 'running' and current_step like 's_' from public.jobs)",
    },
    Race {
        before: JOB,
        call: "select id from public.job_complete('00000000-0000-0000-0000-000000000001', 1, null)",
        answers: OneRow,
        after: "(select status = 'done' from public.jobs)",
    },
    Race {
        before: JOB,
        call: "select id from public.job_fail('00000000-0000-0000-0000-000000000001', 1, 'r{i}', null)",
        answers: OneRow,
        after: "(select status = 'failed' from public.jobs)",
    },
    Race {
        before: "",
        call: "select minute from public.job_tick_claim('t', '2026-01-01T00:00:00Z')",
        answers: OneRow,
        after: "(select count(*) = 1 from public.job_ticks)",
    },
    // A newer minute that prunes old ones.
    Race {
        before: "select public.job_tick_claim('t', timestamptz '2026-01-01T00:00:00Z' + n * interval '1 min')
                   from generate_series(1, 9) n;",
        call: "select minute from public.job_tick_claim('t', '2026-01-09T00:00:00Z')",
        answers: OneRow,
        after: "(select max(minute) = '2026-01-09T00:00:00Z' from public.job_ticks)",
    },
    Race {
        before: "",
        call: "select 'written' from public.queue_write('mail', '{}', null, 'c{i}')",
        answers: All("written"),
        after: "(select count(distinct correlation_id) = 4 from public.queue)",
    },
    // Only locked; the next two carry rows on.
    Race {
        before: QUEUE,
        call: "select right(q.id::text, 1) from (select array_agg(id) as ids from public.queue_waiting(2)) taken,
                 lateral public.queue_mark_sent(taken.ids, null), lateral unnest(taken.ids) q (id)",
        answers: Disjoint(&["1", "2", "3", "4", "5", "6", "7", "8"]),
        after: "(select bool_and(sent_at is not null) from public.queue)",
    },
    Race {
        before: QUEUE,
        call: "select 'marked' from public.queue_mark_sent(
                 '{00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000003}', null)",
        answers: All("marked"),
        after: "(select count(sent_at) = 2 and count(distinct sent_at) = 1 from public.queue)",
    },
    Race {
        before: "",
        call: "select event_id from public.inbox_claim_event('s', 'e')",
        answers: OneRow,
        after: "(select count(*) = 1 from public.inbox)",
    },
    Race {
        before: "",
        call: "select incomplete from public.inbox_claim_client('s', 'e', 'f')",
        answers: OneAndOthers("f", "t"),
        after: "(select count(*) = 1 from public.inbox)",
    },
    Race {
        before: "",
        call: "select state from public.inbox_claim_request('p', 'o', 'k', '{}')",
        answers: OneAndOthers("claimed", "incomplete"),
        after: "(select count(*) = 1 from public.inbox)",
    },
    Race {
        before: RECEIPT,
        call: "select outcome from public.inbox_save_client_outcome('s', 'e', '{i}')",
        answers: OneRow,
        after: "(select outcome is not null from public.inbox)",
    },
    Race {
        before: SAVED,
        call: "select 1 from public.inbox_sweep_clients('2026-02-01T00:00:00Z', 10) where deleted_count = 1",
        answers: OneRow,
        after: "(select count(*) = 0 from public.inbox)",
    },
    Race {
        before: RECEIPT,
        call: "select event_id from public.inbox_forget('s', 'e')",
        answers: OneRow,
        after: "(select count(*) = 0 from public.inbox)",
    },
    Race {
        before: "",
        call: "select queue from public.event_bus_subscribe('a', 'b')",
        answers: All("a__b"),
        after: "(select count(*) = 2 from pgmq.meta) and (select count(*) = 1 from pgmq.topic_bindings)",
    },
    Race {
        before: SUBSCRIBED,
        call: "select queues from public.event_bus_send('e{i}', 'a', '{\"dedupeKey\": \"k\"}', null)",
        answers: All("1"),
        after: "(select count(*) = 8 from pgmq.q_a__b)",
    },
    Race {
        before: SUBSCRIBED,
        call: "select msg_id from public.event_bus_read('a__b', 60, 1)",
        answers: Disjoint(&["1", "2", "3", "4"]),
        after: "(select bool_and(read_ct = 1) from pgmq.q_a__b)",
    },
    Race {
        before: SUBSCRIBED,
        call: "select msg_id from public.event_bus_archive('a__b', 1)",
        answers: OneRow,
        after: "(select count(*) = 3 from pgmq.q_a__b) and (select count(*) = 1 from pgmq.a_a__b)",
    },
    Race {
        before: SUBSCRIBED,
        call: "select msg_id from public.event_bus_bury('a__b', 1)",
        answers: OneRow,
        after: "(select count(*) = 3 from pgmq.q_a__b) and (select count(*) = 1 from pgmq.q_a__b__dead)",
    },
    Race {
        before: "select public.event_bus_subscribe('a', 'b');
                 select public.event_bus_send('a', '{\"payload\": {\"dedupeKey\": \"k\"}}');
                 select public.event_bus_bury('a__b', 1);",
        call: "select msg_id from public.event_bus_requeue('a__b', 1)",
        answers: OneRow,
        after: "(select count(*) = 1 from pgmq.q_a__b) and (select count(*) = 0 from pgmq.q_a__b__dead)",
    },
    Race {
        before: "select public.job_claim('mail', 'k', 'w', '2026-01-01T00:01:00Z', '{}', '2026-01-01T00:00:00Z');
                 select public.job_complete(id, 1, '2026-01-01T00:00:01Z') from public.jobs;",
        call: "select 1 from public.jobs_sweep('2026-02-01T00:00:00Z', 10) where deleted_count = 1",
        answers: OneRow,
        after: "(select count(*) = 0 from public.jobs)",
    },
    Race {
        before: "insert into public.queue (queue, payload, created_at, sent_at) values ('mail', '{}', '2026-01-01', '2026-01-01')",
        call: "select 1 from public.queue_sweep('2026-02-01T00:00:00Z', 10) where deleted_count = 1",
        answers: OneRow,
        after: "(select count(*) = 0 from public.queue)",
    },
    Race {
        before: "insert into public.inbox (source, event_id, claimed_at) values ('s', 'e', '2026-01-01')",
        call: "select 1 from public.inbox_sweep_events('2026-02-01T00:00:00Z', 10) where deleted_count = 1",
        answers: OneRow,
        after: "(select count(*) = 0 from public.inbox)",
    },
    Race {
        before: "select public.event_bus_subscribe('a', 'b');
                 select public.event_bus_send('a', '{\"payload\": {\"dedupeKey\": \"k\"}}');
                 select public.event_bus_archive('a__b', 1);",
        call: "select 1 from public.event_bus_sweep('a__b', '2100-01-01T00:00:00Z', 10) where deleted_count = 1",
        answers: OneRow,
        after: "(select count(*) = 0 from pgmq.a_a__b)",
    },
    Race {
        before: "select public.event_bus_subscribe('a', 'b')",
        call: "select queue from public.event_bus_unsubscribe('a', 'a__b')",
        answers: OneRow,
        after: "(select count(*) = 0 from pgmq.topic_bindings)
                and (select count(*) = 0 from public.event_bus_subscriptions)",
    },
    Race {
        before: "select pgmq.create('q'); select pgmq.bind_topic('a', 'q')",
        call: "select queue from public.event_bus_record()",
        answers: OneRow,
        after: "(select count(*) = 1 from public.event_bus_subscriptions)",
    },
    Race {
        before: "select public.event_bus_subscribe('a', 'b'); select pgmq.drop_queue('a__b__dead')",
        call: "select problem from public.event_bus_repair()",
        answers: OneRow,
        after: "(select count(*) = 2 from pgmq.meta) and (select count(*) = 0 from public.event_bus_check())",
    },
    Race {
        before: "select public.hfs_lite_revoke('app_be')",
        call: "select 'granted' from public.hfs_lite_grant('app_be')",
        answers: All("granted"),
        after: "has_function_privilege('app_be', 'public.queue_waiting(integer)', 'execute')",
    },
    Race {
        before: "",
        call: "select 'revoked' from public.hfs_lite_revoke('app_be')",
        answers: All("revoked"),
        after: "not has_function_privilege('app_be', 'public.queue_waiting(integer)', 'execute')",
    },
];

const SESSIONS: usize = 4;

#[test]
fn under_repeatable_read_every_race_ends_in_the_right_answers_or_40001() {
    RACES.iter().for_each(|race| run(race, "repeatable read"));
}

#[test]
fn under_serializable_every_race_ends_in_the_right_answers_or_40001() {
    RACES.iter().for_each(|race| run(race, "serializable"));
}

#[test]
fn under_read_committed_every_race_ends_in_the_right_answers() {
    RACES.iter().for_each(|race| run(race, "read committed"));
}

/// All sessions take their snapshot, then call; one that gets 40001 begins again, as an application does.
fn run(race: &Race, isolation: &str) {
    let database = Database::new();
    let mut owner = database.connect();
    let me = value(&mut owner, "select current_user");
    owner.batch_execute(race.before).unwrap();
    let snapshots = Barrier::new(SESSIONS);
    let answers = at_once(&database, SESSIONS, &me, |i, session| {
        let call = race.call.replace("{i}", &i.to_string());
        for attempt in 0..1000 {
            session.batch_execute(&format!("begin isolation level {isolation}")).unwrap();
            rows(session, "select 1");
            if attempt == 0 {
                snapshots.wait();
            }
            let answer = try_rows(session, &call).and_then(|rows| session.batch_execute("commit").map(|()| rows));
            match answer {
                Ok(rows) => return rows.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>(),
                Err(error) => {
                    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{call}: {error:?}");
                    assert_ne!(isolation, "read committed", "{call}: {error:?}");
                    session.batch_execute("rollback").unwrap();
                }
            }
        }
        panic!("{call}: there was no end to 40001");
    });
    let context = format!("{isolation}: {}: {answers:?}", race.call);
    let mut all: Vec<&str> = answers.iter().flatten().map(String::as_str).collect();
    all.sort_unstable();
    match race.answers {
        OneRow => assert_eq!(all.len(), 1, "{context}"),
        All(answer) => assert!(answers.iter().all(|rows| *rows == [answer]), "{context}"),
        OneAndOthers(one, others) => {
            assert!(answers.iter().all(|rows| rows.len() == 1), "{context}");
            assert_eq!(all.iter().filter(|answer| **answer == one).count(), 1, "{context}");
            assert_eq!(all.iter().filter(|answer| **answer == others).count(), SESSIONS - 1, "{context}");
        }
        Disjoint(rows) => assert_eq!(all, rows, "{context}"),
    }
    assert_eq!(value(&mut owner, &format!("select {}", race.after)), "t", "{context}: afterwards");
}
