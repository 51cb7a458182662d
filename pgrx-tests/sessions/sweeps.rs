//! The sweeps, as two or more sessions see them: they share the work, and neither wait nor make anybody wait.

use crate::black_box::harness::{Database, at_once, column, rows, start, value};
use postgres::Client;

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// A sweep: its call up to the batch, what makes 1,000 rows for it, and the table that they are in.
struct Sweep {
    call: &'static str,
    fill: &'static str,
    table: &'static str,
    /// Locks the oldest row, as its writer would.
    hold: &'static str,
}

const SWEEPS: [Sweep; 5] = [
    Sweep {
        call: "public.jobs_sweep('2026-01-01'",
        fill: "insert into public.jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
               select 'mail', n, 'done', 1, '{}', '2020-01-01', timestamptz '2020-01-01 00:00+00' + n * interval '1 s'
                 from generate_series(0, 999) n",
        table: "public.jobs",
        hold: "select from public.jobs where job_key = '0' for update",
    },
    Sweep {
        call: "public.queue_sweep('2026-01-01'",
        fill: "insert into public.queue (queue, payload, created_at, sent_at)
               select 'mail', to_jsonb(n), '2020-01-01', timestamptz '2020-01-01 00:00+00' + n * interval '1 s'
                 from generate_series(0, 999) n",
        table: "public.queue",
        hold: "select from public.queue where payload = '0' for update",
    },
    Sweep {
        call: "public.inbox_sweep_events('2026-01-01'",
        fill: "insert into public.inbox (source, event_id, claimed_at)
               select 'door', n, timestamptz '2020-01-01 00:00+00' + n * interval '1 s' from generate_series(0, 999) n",
        table: "public.inbox",
        hold: "select from public.inbox where event_id = '0' for update",
    },
    Sweep {
        call: "public.inbox_sweep_clients('2026-01-01'",
        fill: "insert into public.inbox (source, event_id, claimed_at, request_fingerprint, outcome)
               select 'door', n, timestamptz '2020-01-01 00:00+00' + n * interval '1 s', 'f', '1'
                 from generate_series(0, 999) n",
        table: "public.inbox",
        hold: "select from public.inbox where event_id = '0' for update",
    },
    Sweep {
        call: "public.event_bus_sweep('a__b', '2026-01-01'",
        fill: "select public.event_bus_subscribe('a', 'b');
               insert into pgmq.a_a__b (msg_id, read_ct, enqueued_at, archived_at, vt, message)
               select n, 1, '2020-01-01', timestamptz '2020-01-01 00:00+00' + n * interval '1 s', '2020-01-01', '{}'
                 from generate_series(0, 999) n",
        table: "pgmq.a_a__b",
        hold: "select from pgmq.a_a__b where msg_id = 0 for update",
    },
];

impl Sweep {
    fn filled(&self) -> (Database, Client) {
        let database = Database::new();
        let mut superuser = database.connect();
        superuser.batch_execute(self.fill).unwrap();
        (database, superuser)
    }

    fn of(&self, batch: u32) -> String {
        format!("select deleted_count from {}, '{batch}')", self.call)
    }

    fn left(&self, superuser: &mut Client) -> String {
        value(superuser, &format!("select count(*) from {}", self.table))
    }
}

#[test]
fn sweepers_at_once_delete_each_row_once_and_all_of_them() {
    for sweep in &SWEEPS {
        let (database, mut superuser) = sweep.filled();
        let deleted = at_once(&database, 8, "operator", |_, session| {
            let mut deleted = 0;
            loop {
                match value(session, &sweep.of(7)).parse::<u32>().unwrap() {
                    // Another one may hold the rest, and keep it by rolling back; here nobody does.
                    0 => return deleted,
                    count => deleted += count,
                }
            }
        });
        assert_eq!(deleted.iter().sum::<u32>(), 1000, "{}: {deleted:?}", sweep.call);
        assert_eq!(sweep.left(&mut superuser), "0", "{}", sweep.call);
    }
}

#[test]
fn a_sweep_passes_over_a_row_that_is_held_and_takes_the_next_ones() {
    for sweep in &SWEEPS {
        let (database, mut superuser) = sweep.filled();
        let mut holder = database.connect();
        holder.batch_execute("begin").unwrap();
        rows(&mut holder, sweep.hold);
        let mut operator = database.connect_as("operator");
        operator.batch_execute("set lock_timeout = 1").unwrap();
        assert_eq!(value(&mut operator, &sweep.of(600)), "600", "{}", sweep.call);
        assert_eq!(value(&mut operator, &sweep.of(600)), "399", "{}", sweep.call);
        assert_eq!(sweep.left(&mut superuser), "1", "{}", sweep.call);
        holder.batch_execute("rollback").unwrap();
        assert_eq!(value(&mut operator, &sweep.of(600)), "1", "{}", sweep.call);
    }
}

#[test]
fn a_sweep_that_is_rolled_back_deleted_nothing() {
    for sweep in &SWEEPS {
        let (database, mut superuser) = sweep.filled();
        let mut operator = database.connect_as("operator");
        operator.batch_execute("begin").unwrap();
        assert_eq!(value(&mut operator, &sweep.of(10)), "10");
        operator.batch_execute("rollback").unwrap();
        assert_eq!(sweep.left(&mut superuser), "1000", "{}", sweep.call);
    }
}

#[test]
fn a_sweep_reads_its_index_and_nothing_of_what_stays() {
    for sweep in &SWEEPS {
        let (database, mut superuser) = sweep.filled();
        // A plan that was saved when the table was small, then many rows that stay.
        let mut operator = database.connect_as("operator");
        assert_eq!(value(&mut operator, &sweep.of(990)), "990");
        let fresh = sweep
            .fill
            .replace("2020-01-01", "2030-01-01")
            .replace("generate_series(0, 999)", "generate_series(1000, 60999)");
        superuser.batch_execute(&fresh).unwrap();
        let reads = format!(
            "select seq_scan, seq_tup_read, (select sum(idx_tup_read) from pg_stat_user_indexes where relid = '{0}'::regclass)
               from pg_stat_user_tables where relid = '{0}'::regclass",
            sweep.table
        );
        // The counts of a backend are seen when it has nothing to do for a while, or is asked to.
        let flush = "select pg_stat_force_next_flush()";
        superuser.batch_execute(flush).unwrap();
        let before = rows(&mut superuser, &reads).remove(0);
        for batch in ["9", "1", "0"] {
            assert_eq!(value(&mut operator, &sweep.of(9)), batch, "{}", sweep.call);
        }
        operator.batch_execute(flush).unwrap();
        operator.batch_execute("select 1").unwrap();
        let after = rows(&mut superuser, &reads).remove(0);
        assert_eq!(before[..2], after[..2], "{}: no scan of the table", sweep.call);
        let read: i64 = after[2].parse::<i64>().unwrap() - before[2].parse::<i64>().unwrap();
        // Each of the three calls may meet the entries of the 990 rows that are gone, until a vacuum takes them away.
        assert!((10..=3 * 1000).contains(&read), "{}: {read} index entries read", sweep.call);
    }
}

#[test]
fn a_claim_of_a_job_that_is_being_swept_waits_and_is_a_new_one_or_none() {
    for (end, tokens) in [("commit", vec!["1"]), ("rollback", vec![])] {
        let database = Database::new();
        let mut superuser = database.connect();
        let done = format!(
            "insert into public.jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
             values ('mail', 'k', 'done', 7, '{{}}', '{LONG_AGO}', '{LONG_AGO}')"
        );
        superuser.batch_execute(&done).unwrap();
        let mut operator = database.connect_as("operator");
        operator.batch_execute("begin").unwrap();
        assert_eq!(value(&mut operator, "select deleted_count from public.jobs_sweep('2026-01-01', '10')"), "1");
        let claim = "select fencing_token from public.job_claim('mail', 'k', 'w', now() + '1 h', '{}', null)";
        let claiming = start(database.connect_as("app_be"), claim).wait_until_blocked(&mut superuser);
        operator.batch_execute(end).unwrap();
        let answers: Vec<String> = claiming.rows().into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(answers, tokens, "{end}");
        let stored = column(&mut superuser, "select fencing_token from public.jobs");
        assert_eq!(stored, [if end == "commit" { "1" } else { "7" }], "{end}");
    }
}
