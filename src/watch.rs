//! Watching: what waits, what is stuck and what is dead, read in a moment from a database of any size.

use crate::argument;
use crate::event_bus::{dead_letter_queue_of, find};
use crate::statement::{Call, Instant, QueueStatement, Saved, Statement, TableIterator, Text};
use pgrx::pg_sys::{TEXTOID, TIMESTAMPTZOID};
use pgrx::prelude::*;

// No table is counted: each number is read from an index that holds little more than what it counts, to 10,000 at most.
static TABLES: Statement = Statement::new(
    c"select m.area, m.name, m.metric, m.value::double precision, m.unit
        from (select count(*) as running, count(*) filter (where c.lease_expires_at < $1) as lease_ended
                from (select lease_expires_at from public.jobs where status = 'running' limit 10000) c) j
       cross join lateral (values
          ('jobs', 'jobs', 'running', j.running, 'jobs'),
          ('jobs', 'jobs', 'lease_ended', j.lease_ended, 'jobs'),
          ('jobs', 'jobs', 'failed', (
             select count(*) from (select from public.jobs where status = 'failed' limit 10000) c), 'jobs'),
          ('jobs', 'jobs', 'oldest_failed_age', (
             select extract(epoch from $1 - min(updated_at)) from public.jobs where status = 'failed'), 'seconds'),
          ('jobs', 'jobs', 'to_sweep', (
             select count(*)
               from (select from public.jobs
                      where status = 'done'
                        and updated_at < $1 - nullif(current_setting('hfs_lite.retain_jobs', true), '')::interval
                      limit 10000) c), 'jobs'),
          ('jobs', 'jobs', 'dead_tuples', pg_stat_get_dead_tuples('public.jobs'::regclass), 'tuples'),
          ('queue', 'queue', 'waiting', (
             select count(*) from (select from public.queue where sent_at is null limit 10000) c), 'rows'),
          ('queue', 'queue', 'oldest_waiting_age', (
             select extract(epoch from $1 - min(created_at)) from public.queue where sent_at is null), 'seconds'),
          ('queue', 'queue', 'to_sweep', (
             select count(*)
               from (select from public.queue
                      where sent_at < $1 - nullif(current_setting('hfs_lite.retain_queue', true), '')::interval
                      limit 10000) c), 'rows'),
          ('queue', 'queue', 'dead_tuples', pg_stat_get_dead_tuples('public.queue'::regclass), 'tuples'),
          ('inbox', 'inbox', 'incomplete', (
             select count(*)
               from (select from public.inbox
                      where case when request_fingerprint is null then 'd'::\"char\" when outcome is null then 'i' else 'c' end = 'i'
                        and claimed_at < $1 - interval '1 minute'
                      limit 10000) c), 'receipts'),
          ('inbox', 'inbox', 'oldest_incomplete_age', (
             select extract(epoch from $1 - min(claimed_at))
               from public.inbox
              where case when request_fingerprint is null then 'd'::\"char\" when outcome is null then 'i' else 'c' end = 'i'
                and claimed_at < $1 - interval '1 minute'), 'seconds'),
          ('inbox', 'inbox', 'dead_tuples', pg_stat_get_dead_tuples('public.inbox'::regclass), 'tuples'),
          ('ticks', 'job_ticks', 'dead_tuples', pg_stat_get_dead_tuples('public.job_ticks'::regclass), 'tuples')
        ) m (area, name, metric, value, unit)",
    &[TIMESTAMPTZOID],
);

static QUEUES: Statement = Statement::new(
    c"select m.queue_name::text from pgmq.meta m
       where not (m.queue_name like '%_\\_\\_dead'
                  and exists (select from pgmq.meta o where o.queue_name = left(m.queue_name, -6)))
       order by 1",
    &[],
);

static QUEUE: QueueStatement = QueueStatement::new(
    "select 'event_bus', $2, m.metric, m.value::double precision, m.unit
       from (values
         ('visible', (select count(*) from (select from {queue} where vt <= $1 limit 10000) c), 'messages'),
         ('in_flight', (select count(*) from (select from {queue} where vt > $1 limit 10000) c), 'messages'),
         ('oldest_age', (select extract(epoch from $1 - q.enqueued_at) from {queue} q order by q.msg_id limit 1), 'seconds'),
         ('dead_tuples', pg_stat_get_dead_tuples(format('pgmq.%I', lower('q_' || $2))::regclass), 'tuples')
       ) m (metric, value, unit)",
    &[TIMESTAMPTZOID, TEXTOID],
);

static DEAD: QueueStatement = QueueStatement::new(
    "select 'event_bus', $1, 'dead', count(*)::double precision, 'messages' from (select from {queue} limit 10000) c",
    &[TEXTOID],
);

/// Says how the work stands: what waits, runs, is stuck or dead, and since when. It reads no more than 10,000 index
/// entries for a number, so a count of 10,000 means that many or more, and it answers in a moment whatever the size of
/// the tables.
///
/// Answers rows of area, name, metric, value and unit, always in one order. area jobs: running, lease_ended (running,
/// and the lease is over), failed, oldest_failed_age, to_sweep (done, and older than hfs_lite.retain_jobs). area queue:
/// waiting, oldest_waiting_age, to_sweep (sent, and older than hfs_lite.retain_queue). area inbox: incomplete (receipts
/// claimed more than a minute ago that have no outcome), oldest_incomplete_age. area event_bus, for each queue by name:
/// visible, in_flight (hidden), oldest_age, dead (in its dead-letter queue; no row where it has none). Each also
/// dead_tuples, as PostgreSQL's statistics have them. Ages are in seconds; NULL where there is nothing.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn hfs_lite_health(
    call: Call,
) -> TableIterator<
    'static,
    (name!(area, Text), name!(name, Text), name!(metric, Text), name!(value, f64), name!(unit, Text)),
> {
    let now = Instant::now();
    TABLES.rows(call, [now.into()]);
    let names = QUEUES.column([]);
    for name in names.texts() {
        if let Some(queue) = find(name).filter(|queue| queue.is_readable()) {
            QUEUE.on(queue).rows(call, [now.into(), name.into()]);
        }
        if let Some(dead) = find(dead_letter_queue_of(name)).filter(|dead| dead.is_readable()) {
            DEAD.on(dead).rows(call, [name.into()]);
        }
    }
    call.done()
}

/// The time since an instant, or until it, in words: the largest unit that fits, as in '3 minutes', '1 day' and 'in 2
/// hours'.
///
/// p_instant: the instant. p_now: the caller's instant; NULL means the database's clock.
/// Answers the words; NULL for a NULL or an infinite p_instant.
/// Errors: 22023 for an infinite p_now.
/// Since 0.2.0.
#[pg_extern(volatile, parallel_safe)]
fn hfs_lite_age(p_instant: Option<Instant>, p_now: default!(Option<Instant>, "NULL")) -> Option<Text> {
    let now = argument::instant_or_now("p_now", p_now);
    let instant = p_instant.filter(|instant| instant.is_finite())?;
    let seconds = (i128::from(now.0) - i128::from(instant.0)) / 1_000_000;
    let (count, unit) = match seconds.unsigned_abs() {
        n @ 0..60 => (n, "second"),
        n @ 60..3_600 => (n / 60, "minute"),
        n @ 3_600..86_400 => (n / 3_600, "hour"),
        n => (n / 86_400, "day"),
    };
    let before = if seconds < 0 { "in " } else { "" };
    let plural = if count == 1 { "" } else { "s" };
    Some(Text::new(&format!("{before}{count} {unit}{plural}")))
}
