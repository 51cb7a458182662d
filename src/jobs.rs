//! Fenced jobs: a worker holds a job by a lease and a fencing token. The token grows with every claim, and every write asks
//! for it, so a worker that lost its lease can change nothing any more.

use crate::argument::{self, NAME};
use crate::error::Error;
use crate::statement::index::{Index, Locked};
use crate::statement::{
    Call, Instant, Jsonb, Saved, Statement, TableIterator, Text, Uuid, Varchar, is_read_only, snapshot_is_kept,
};
use pgrx::pg_sys::{INT4OID, INT8OID, JSONBOID, TEXTOID, TIMESTAMPTZOID, UUIDOID, VARCHAROID};
use pgrx::prelude::*;
use std::cell::Cell;

// A claim is one of two statements, each an atomic step of its own. As one, with ON CONFLICT DO UPDATE, a refused claim would
// lock the row, which costs a transaction id and WAL.
static CLAIM_NEW: Statement = Statement::new(
    c"insert into public.jobs
        (id, kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
      values ($1, $2, $3, 'running', 1, $4, $5, $6, $7, $7)
      on conflict (job_key) do nothing
      returning id, kind, fencing_token, current_step, payload",
    &[UUIDOID, VARCHAROID, VARCHAROID, VARCHAROID, TIMESTAMPTZOID, JSONBOID, TIMESTAMPTZOID],
);

// A running job without a lease was never written by these functions, but an adopted table may hold one: nobody holds it.
static CLAIM_AGAIN: Statement = Statement::new(
    c"update public.jobs
         set fencing_token = fencing_token + 1, status = 'running', claimed_by = $2, lease_expires_at = $3, error = null,
             updated_at = $4
       where job_key = $1
         and (status = 'failed' or status = 'running' and (lease_expires_at < $4 or lease_expires_at is null))
      returning id, kind, fencing_token, current_step, payload",
    &[VARCHAROID, VARCHAROID, TIMESTAMPTZOID, TIMESTAMPTZOID],
);

// A CLAIM_NEW that meets its job does nothing, and costs as much as one that claims. So after one that did, the next claim looks
// into the index first. Only an insert can wait where an open transaction writes the job, say that a kept snapshot does not show
// it, or that nothing may be written: then there is no look, or it does not count.
static BY_KEY: Index = Index {
    schema: c"public",
    table: c"jobs",
    name: c"jobs_job_key_key",
    locked: Locked::ToWrite,
    columns: &[TEXTOID],
};

thread_local! {
    /// Whether the claim before met a job; of a backend's first claim, who knows. Claims of new jobs come one after the other, and
    /// so do claims of jobs that are there.
    static MEETING: Cell<bool> = const { Cell::new(true) };
}

static ADVANCE: Statement = Statement::new(
    c"update public.jobs set current_step = $3, updated_at = $4
       where id = $1 and fencing_token = $2 and status = 'running'
      returning id",
    &[UUIDOID, INT8OID, VARCHAROID, TIMESTAMPTZOID],
);

static COMPLETE: Statement = Statement::new(
    c"update public.jobs set status = 'done', lease_expires_at = null, updated_at = $3
       where id = $1 and fencing_token = $2 and status = 'running'
      returning id",
    &[UUIDOID, INT8OID, TIMESTAMPTZOID],
);

// Failing must never fail because of its reason: any text is taken, and a very long one is cut.
static FAIL: Statement = Statement::new(
    c"update public.jobs
         set status = 'failed', lease_expires_at = null, updated_at = $4,
             error = case when char_length($3) > 10000
                          then left($3, 10000) || ' [cut: ' || char_length($3) || ' characters in all]' else $3 end
       where id = $1 and fencing_token = $2 and status = 'running'
      returning id",
    &[UUIDOID, INT8OID, TEXTOID, TIMESTAMPTZOID],
);

// By ctid: the rows are found by the index, oldest first, and an array of them leaves the planner nothing to scan.
static SWEEP: Statement = Statement::new(
    c"with gone as (
        delete from public.jobs where ctid = any (array(
          select j.ctid from public.jobs j
           where j.status = 'done' and j.updated_at < $1
           order by j.updated_at
           limit $2
             for update skip locked))
        returning 1)
      select count(*)::integer from gone",
    &[TIMESTAMPTZOID, INT4OID],
);

/// Claims a job by its key, or claims it again after it failed or its lease ended, in one atomic step.
///
/// p_kind: what kind of job, 1 to 200 characters; a stored kind stays. p_job_key: the job's key, 1 to 200 characters.
/// p_worker: who claims, 1 to 200 characters. p_lease_end: when the lease ends, later than p_now. p_payload: stored at
/// the first claim only. p_now: the caller's instant; NULL means the database's clock.
/// Answers one row: the id, the stored kind, the fencing token (1 for a new job, one more at every further claim), the
/// stored step and payload. No row: the job is done, or somebody holds a live lease.
/// Errors: 22004 for NULL, 22023 for an empty text, an infinite instant or a lease that does not end after p_now, 22001
/// for text over its width, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn job_claim(
    p_kind: Option<Varchar>,
    p_job_key: Option<Varchar>,
    p_worker: Option<Varchar>,
    p_lease_end: Option<Instant>,
    p_payload: Option<Jsonb>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<
    'static,
    (
        name!(id, Uuid),
        name!(kind, Varchar),
        name!(fencing_token, i64),
        name!(current_step, Varchar),
        name!(payload, Jsonb),
    ),
> {
    let kind = argument::text("p_kind", p_kind, NAME);
    let job_key = argument::text("p_job_key", p_job_key, NAME);
    let worker = argument::text("p_worker", p_worker, NAME);
    let lease_end = argument::instant("p_lease_end", p_lease_end);
    let payload = argument::required("p_payload", p_payload);
    let now = argument::instant_or_now("p_now", p_now);
    if lease_end <= now {
        Error::LeaseEnded { now: if p_now.is_some() { "p_now" } else { "the database's clock" } }.raise();
    }
    let again = [job_key.into(), worker.into(), lease_end.into(), now.into()];
    if MEETING.get() && !snapshot_is_kept() && !is_read_only() && BY_KEY.is_settled([job_key.into()]) {
        return call.answer(&CLAIM_AGAIN, again);
    }
    let new =
        [Uuid::new().into(), kind.into(), job_key.into(), worker.into(), lease_end.into(), payload.into(), now.into()];
    let met = CLAIM_NEW.rows(call, new) == 0;
    MEETING.set(met);
    if met {
        CLAIM_AGAIN.rows(call, again);
    }
    call.done()
}

/// Notes the step that a running job has come to, if the caller still holds it.
///
/// p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_step: the step, 1 to 200 characters. p_now:
/// the caller's instant; NULL means the database's clock.
/// Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed,
/// and the caller must stop.
/// Errors: 22004 for NULL, 22023 for a token below 1, an empty step or an infinite instant, 22001 for a step over its
/// width, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn job_advance(
    p_id: Option<Uuid>,
    p_token: Option<i64>,
    p_step: Option<Varchar>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<'static, (name!(id, Uuid),)> {
    let id = argument::required("p_id", p_id);
    let token = argument::token("p_token", p_token);
    let step = argument::text("p_step", p_step, NAME);
    let now = argument::instant_or_now("p_now", p_now);
    call.answer(&ADVANCE, [id.into(), token.into(), step.into(), now.into()])
}

/// Ends a running job as done, if the caller still holds it, and clears its lease. A done job is never claimed again.
///
/// p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_now: the caller's instant; NULL means the
/// database's clock.
/// Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed.
/// Errors: 22004 for NULL, 22023 for a token below 1 or an infinite instant, 40001 from PostgreSQL above READ
/// COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn job_complete(
    p_id: Option<Uuid>,
    p_token: Option<i64>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<'static, (name!(id, Uuid),)> {
    let id = argument::required("p_id", p_id);
    let token = argument::token("p_token", p_token);
    let now = argument::instant_or_now("p_now", p_now);
    call.answer(&COMPLETE, [id.into(), token.into(), now.into()])
}

/// Ends an attempt at a running job as failed, if the caller still holds it, and clears its lease; the job may then be
/// claimed again.
///
/// p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_reason: why; NULL and any text are accepted,
/// and what is longer than 10,000 characters is cut there and ends in a mark that says so. p_now: the caller's instant;
/// NULL means the database's clock.
/// Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed.
/// Errors: 22004 for a NULL id or token, 22023 for a token below 1 or an infinite instant, 40001 from PostgreSQL above
/// READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn job_fail(
    p_id: Option<Uuid>,
    p_token: Option<i64>,
    p_reason: Option<Text>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<'static, (name!(id, Uuid),)> {
    let id = argument::required("p_id", p_id);
    let token = argument::token("p_token", p_token);
    let now = argument::instant_or_now("p_now", p_now);
    call.answer(&FAIL, [id.into(), token.into(), p_reason.into(), now.into()])
}

/// Deletes old done jobs, oldest first, skipping locked ones; running and failed jobs stay. A job that is gone is not
/// known any more: claimed under its key again, it is a new job.
///
/// p_cutoff: jobs done before this instant go, by their updated_at. p_batch: how many at most, 1 to 10,000.
/// Answers one row with the number of deleted jobs.
/// Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn jobs_sweep(
    p_cutoff: Option<Instant>,
    p_batch: Option<i32>,
    call: Call,
) -> TableIterator<'static, (name!(deleted_count, i32),)> {
    let cutoff = argument::instant("p_cutoff", p_cutoff);
    let batch = argument::batch("p_batch", p_batch);
    call.answer(&SWEEP, [cutoff.into(), batch.into()])
}
