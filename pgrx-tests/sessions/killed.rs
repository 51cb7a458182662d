//! A backend that is killed gives back what it held, like one that rolled back.

use crate::black_box::harness::{Database, column, pid, start, wait_until};
use postgres::Client;

const PREPARE: &str = "
    select public.job_claim('mail', 'expired', 'w', '2026-01-01T00:01:00Z', '{}', '2026-01-01T00:00:00Z');
    select public.queue_write('mail', '{}', null, 'c');
    select public.inbox_claim_client('s', 'saved', 'f', '2026-01-01T00:00:00Z');
    select public.inbox_save_client_outcome('s', 'saved', '1');
    select public.inbox_claim_client('s', 'open', 'f', '2026-01-01T00:00:00Z');
    select public.event_bus_subscribe('a', 'b');
    select public.event_bus_send('a', '{\"payload\": {\"dedupeKey\": \"k\"}}');
    select public.event_bus_send('a', '{\"payload\": {\"dedupeKey\": \"k\"}}');
    select public.event_bus_bury('a__b', 1);
    select public.event_bus_send('a', '{\"payload\": {\"dedupeKey\": \"k\"}}');
    select public.event_bus_archive('a__b', 3);
    insert into public.inbox (source, event_id, claimed_at) values ('s', 'delivery', '2026-01-01');
    insert into public.queue (queue, payload, created_at, sent_at) values ('mail', '{}', '2026-01-01', '2026-01-01');
    select public.job_claim('mail', 'done', 'w', '2026-01-01T00:01:00Z', '{}', '2026-01-01T00:00:00Z');
    select public.job_complete(id, 1, '2026-01-01T00:00:01Z') from public.jobs where job_key = 'done';";

/// Claims that wait for an open one, and what a claim answers.
const WAITING: [(&str, &str); 11] = [
    ("select fencing_token from public.job_claim('mail', 'new', 'w', now() + '1 h', '{}', null)", "1"),
    ("select fencing_token from public.job_claim('mail', 'expired', 'w', now() + '1 h', '{}', null)", "2"),
    ("select name from public.job_tick_claim('t', '2026-01-01T00:00:00Z')", "t"),
    ("select event_id from public.inbox_claim_event('s', 'e')", "e"),
    ("select incomplete from public.inbox_claim_client('s', 'e', 'f')", "f"),
    ("select state from public.inbox_claim_request('p', 'o', 'k', '{}')", "claimed"),
    ("select outcome from public.inbox_save_client_outcome('s', 'open', '1')", "1"),
    ("select msg_id from public.event_bus_archive('a__b', 2)", "2"),
    ("select msg_id > 0 from public.event_bus_bury('a__b', 2)", "t"),
    ("select msg_id > 0 from public.event_bus_requeue('a__b', 1)", "t"),
    ("select queue from public.event_bus_subscribe('new', 'b')", "new__b"),
];

/// Claims that pass over what an open one holds.
const SKIPPING: [(&str, &str); 9] = [
    ("select \"correlationId\" from public.queue_waiting(1)", "c"),
    ("select msg_id from public.event_bus_read('a__b', 60, 1)", "2"),
    ("select msg_id from public.event_bus_read('a__b', 60, 10)", "2"),
    ("select deleted_count from public.inbox_sweep_clients('2026-02-01T00:00:00Z', 1) where deleted_count > 0", "1"),
    ("select event_id from public.inbox_forget('s', 'saved')", "saved"),
    ("select deleted_count from public.inbox_sweep_events('2026-02-01T00:00:00Z', 1) where deleted_count > 0", "1"),
    ("select deleted_count from public.jobs_sweep('2026-02-01T00:00:00Z', 1) where deleted_count > 0", "1"),
    ("select deleted_count from public.queue_sweep('2026-02-01T00:00:00Z', 1) where deleted_count > 0", "1"),
    ("select deleted_count from public.event_bus_sweep('a__b', '2100-01-01', 1) where deleted_count > 0", "1"),
];

fn prepared() -> Database {
    let database = Database::new();
    database.connect().batch_execute(PREPARE).unwrap();
    database
}

fn kill(observer: &mut Client, pid: i32) {
    observer.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
    wait_until(observer, &format!("not exists (select from pg_stat_activity where pid = {pid})"));
}

#[test]
fn who_waits_for_a_claim_of_a_killed_backend_gets_it() {
    for (claim, claimed) in WAITING {
        let database = prepared();
        let mut observer = database.connect();
        let mut holder = database.connect_as("operator");
        holder.batch_execute("begin").unwrap();
        assert_eq!(column(&mut holder, claim), [claimed], "{claim}");
        let waiting = start(database.connect_as("operator"), claim).wait_until_blocked(&mut observer);
        let holder = pid(&mut holder);
        kill(&mut observer, holder);
        assert_eq!(waiting.rows(), [[claimed]], "{claim}");
    }
}

#[test]
fn a_backend_killed_while_it_waits_leaves_nothing_behind() {
    for (claim, claimed) in WAITING {
        let database = prepared();
        let mut observer = database.connect();
        let (mut holder, mut third) = (database.connect_as("operator"), database.connect_as("operator"));
        holder.batch_execute("begin").unwrap();
        assert_eq!(column(&mut holder, claim), [claimed], "{claim}");
        let waiting = start(database.connect_as("operator"), claim).wait_until_blocked(&mut observer);
        kill(&mut observer, waiting.pid());
        assert!(waiting.end().1.is_err());
        holder.batch_execute("rollback").unwrap();
        assert_eq!(column(&mut third, claim), [claimed], "{claim}");
    }
}

#[test]
fn what_a_killed_backend_had_taken_is_free_again() {
    for (claim, claimed) in SKIPPING {
        let database = prepared();
        let mut observer = database.connect();
        let (mut holder, mut other) = (database.connect_as("operator"), database.connect_as("operator"));
        holder.batch_execute("begin").unwrap();
        assert_eq!(column(&mut holder, claim), [claimed], "{claim}");
        assert_eq!(column(&mut other, claim), [""; 0], "{claim}");
        let holder = pid(&mut holder);
        kill(&mut observer, holder);
        assert_eq!(column(&mut other, claim), [claimed], "{claim}");
    }
}
