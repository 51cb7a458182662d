//! Fenced jobs: a worker holds a job by a lease and a fencing token. The token grows with every claim, and every write asks
//! for it, so a worker that lost its lease can change nothing any more.

use crate::argument::{self, NAME};
use crate::statement::index::{Index, Locked};
use crate::statement::{
    Array, Bigints, Call, Instant, Jsonb, Jsonbs, Saved, Statement, TableIterator, Text, Texts, Uuid, Uuids, Varchar,
    Varchars, is_read_only, snapshot_is_kept, sql,
};
use pgrx::pg_sys::{
    INT4OID, INT8ARRAYOID, INT8OID, JSONBARRAYOID, JSONBOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, UUIDARRAYOID,
    UUIDOID, VARCHARARRAYOID, VARCHAROID,
};
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
    columns: &[(c"job_key", TEXTOID)],
};

thread_local! {
    /// Whether the claim before met a job; of a backend's first claim, who knows. Claims of new jobs come one after the other, and
    /// so do claims of jobs that are there.
    static MEETING: Cell<bool> = const { Cell::new(true) };
}

// What can be claimed again, of a row of this name. CLAIM_AGAIN says the same.
macro_rules! claimable {
    ($row:literal) => {
        concat!(
            "(",
            $row,
            ".status = 'failed' or ",
            $row,
            ".status = 'running' and (",
            $row,
            ".lease_expires_at < $4 or ",
            $row,
            ".lease_expires_at is null))"
        )
    };
}

// The same for many keys, one after the other in one order, so that two calls that name the same keys wait for each other
// and never deadlock.
static CLAIM_NEW_MANY: Statement = Statement::new(
    c"insert into public.jobs
        (id, kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
      select distinct on (i.job_key) i.id, $4, i.job_key, 'running', 1, $5, $6, i.payload, $7, $7
        from unnest($1, $2, $3) with ordinality i (id, job_key, payload, place)
       order by i.job_key, i.place
      on conflict (job_key) do nothing
      returning job_key, id, kind, fencing_token, current_step, payload",
    &[UUIDARRAYOID, VARCHARARRAYOID, JSONBARRAYOID, VARCHAROID, VARCHAROID, TIMESTAMPTZOID, TIMESTAMPTZOID],
);

// The jobs are found by their keys and locked in the order of their ids, as the calls that end many lock them. OFFSET 0 keeps
// each look a look by the key.
static CLAIM_AGAIN_MANY: Statement = Statement::new(
    sql!(concat!(
        "update public.jobs
            set fencing_token = fencing_token + 1, status = 'running', claimed_by = $2, lease_expires_at = $3, error = null,
                updated_at = $4
          where id = any (array(
            select h.id
              from (select distinct f.id
                      from unnest($1) u (job_key)
                     cross join lateral (
                       select c.id from public.jobs c where c.job_key = u.job_key and ",
        claimable!("c"),
        " offset 0) f
                     order by f.id) i
             cross join lateral (select c.id from public.jobs c where c.id = i.id and ",
        claimable!("c"),
        " for no key update) h))
         returning job_key, id, kind, fencing_token, current_step, payload"
    )),
    &[VARCHARARRAYOID, VARCHAROID, TIMESTAMPTZOID, TIMESTAMPTZOID],
);

// A heartbeat that was overtaken by a later one shortens nothing. updated_at stays as it is: it stands in an index, and so the
// update is a HOT one.
static HEARTBEAT: Statement = Statement::new(
    c"update public.jobs set lease_expires_at = greatest(lease_expires_at, $3)
       where id = $1 and fencing_token = $2 and status = 'running'
      returning id, lease_expires_at",
    &[UUIDOID, INT8OID, TIMESTAMPTZOID],
);

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
macro_rules! kept_reason {
    ($reason:literal) => {
        concat!(
            "case when char_length(",
            $reason,
            ") > 10000 then left(",
            $reason,
            ", 10000) || ' [cut: ' || char_length(",
            $reason,
            ") || ' characters in all]' else ",
            $reason,
            " end"
        )
    };
}

static FAIL: Statement = Statement::new(
    sql!(concat!(
        "update public.jobs
            set status = 'failed', lease_expires_at = null, updated_at = $4, error = ",
        kept_reason!("$3"),
        " where id = $1 and fencing_token = $2 and status = 'running'
         returning id"
    )),
    &[UUIDOID, INT8OID, TEXTOID, TIMESTAMPTZOID],
);

// The jobs among the items ($1 the ids, $2 the tokens) that are still the callers', each locked before it is written, in the
// order of their ids: the update alone would meet them in its plan's order, and two calls would deadlock. Of equal items the
// first counts; a refused one locks nothing. IS TRUE keeps the look by the id from becoming a walk along jobs_status_idx.
macro_rules! held {
    ($items:literal, $columns:literal) => {
        concat!(
            "(select distinct on (u.id, u.token) u.* from ",
            $items,
            " with ordinality u (id, token, ",
            $columns,
            "place) order by u.id, u.token, u.place) i
              cross join lateral (
                select h.id from public.jobs h
                 where h.id = i.id and h.fencing_token = i.token and (h.status = 'running') is true
                   for no key update) h"
        )
    };
}
// What became of each item, in their order. The IN is hashed, and the scalar subquery is a look into the primary key, whatever
// the planner thinks of how many items there are.
macro_rules! verdicts {
    ($update:expr) => {
        concat!(
            "with done as (",
            $update,
            " returning j.id, j.fencing_token)
             select i.id, case when (i.id, i.token) in (select d.id, d.fencing_token from done d) then 'done'
                               else coalesce((select 'stale' from public.jobs s where s.id = i.id), 'unknown') end
               from unnest($1, $2) with ordinality i (id, token, place)
              order by i.place"
        )
    };
}

static COMPLETE_MANY: Statement = Statement::new(
    sql!(verdicts!(concat!(
        "update public.jobs j set status = 'done', lease_expires_at = null, updated_at = $3
          where j.id = any (array(select h.id from ",
        held!("unnest($1, $2)", ""),
        "))"
    ))),
    &[UUIDARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID],
);

static FAIL_MANY: Statement = Statement::new(
    sql!(verdicts!(concat!(
        "update public.jobs j set status = 'failed', lease_expires_at = null, updated_at = $4, error = ",
        kept_reason!("i.reason"),
        " from ",
        held!("unnest($1, $2, $3)", "reason, "),
        " where j.id = h.id"
    ))),
    &[UUIDARRAYOID, INT8ARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID],
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
    let payload = argument::required("p_payload", p_payload);
    let (lease_end, now) = argument::lease(p_lease_end, p_now);
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

/// Claims many jobs of one kind by their keys, each as job_claim does, in one call: what is new, failed or has a lease
/// that ended is the worker's, under one lease.
///
/// p_kind: what kind of jobs, 1 to 200 characters; a stored kind stays. p_job_keys: the jobs' keys, at most 10,000, each
/// of 1 to 200 characters; of equal ones the first counts. p_worker: who claims, 1 to 200 characters. p_lease_end: when
/// the leases end, later than p_now. p_payloads: one for each key, stored at the first claim only. p_now: the caller's
/// instant; NULL means the database's clock.
/// Answers one row for each job that was claimed, in no order: its key, and what job_claim answers. A key without a row
/// is done, or somebody holds a live lease. No row: none was claimed.
/// Errors: 22004 for NULL, also inside an array, 22023 for an empty text, an infinite instant, a lease that does not end
/// after p_now, arrays of two lengths, of more than one dimension or of more than 10,000 elements, 22001 for text over
/// its width; a message names the element as p_job_keys[3], counted from 1. 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn job_claim_many(
    p_kind: Option<Varchar>,
    p_job_keys: Option<Varchars>,
    p_worker: Option<Varchar>,
    p_lease_end: Option<Instant>,
    p_payloads: Option<Jsonbs>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<
    'static,
    (
        name!(job_key, Varchar),
        name!(id, Uuid),
        name!(kind, Varchar),
        name!(fencing_token, i64),
        name!(current_step, Varchar),
        name!(payload, Jsonb),
    ),
> {
    let kind = argument::text("p_kind", p_kind, NAME);
    let job_keys = argument::each("p_job_keys", p_job_keys, |key, value| argument::text(key, value, NAME));
    let worker = argument::text("p_worker", p_worker, NAME);
    let payloads = argument::each("p_payloads", p_payloads, argument::required);
    argument::same_length("p_payloads", payloads, "p_job_keys", job_keys);
    let (lease_end, now) = argument::lease(p_lease_end, p_now);
    let ids = Uuids::new(job_keys.count());
    let new = [ids.into(), job_keys.into(), payloads.into(), kind.into(), worker.into(), lease_end.into(), now.into()];
    // Where all are new, there is nothing to take over.
    if CLAIM_NEW_MANY.rows(call, new) < job_keys.count() as u64 {
        CLAIM_AGAIN_MANY.rows(call, [job_keys.into(), worker.into(), lease_end.into(), now.into()]);
    }
    call.done()
}

/// Prolongs the lease of a running job, if the caller still holds it; also where the lease has ended and nobody has taken
/// the job over. A lease never becomes shorter by it.
///
/// p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_lease_end: when the lease is to end, later than
/// p_now. p_now: the caller's instant; NULL means the database's clock.
/// Answers one row with the id and the instant at which the lease ends now: p_lease_end, or what it was where that is
/// later. No row: the token is no longer the job's, or the job is not running; nothing changed, and the caller must stop.
/// Errors: 22004 for NULL, 22023 for a token below 1, an infinite instant or a lease that does not end after p_now, 40001
/// from PostgreSQL above READ COMMITTED.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn job_heartbeat(
    p_id: Option<Uuid>,
    p_token: Option<i64>,
    p_lease_end: Option<Instant>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<'static, (name!(id, Uuid), name!(lease_expires_at, Instant))> {
    let id = argument::required("p_id", p_id);
    let token = argument::token("p_token", p_token);
    let (lease_end, _) = argument::lease(p_lease_end, p_now);
    call.answer(&HEARTBEAT, [id.into(), token.into(), lease_end.into()])
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
    let now = argument::now("p_now", p_now);
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
    let now = argument::now("p_now", p_now);
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
    let now = argument::now("p_now", p_now);
    call.answer(&FAIL, [id.into(), token.into(), p_reason.into(), now.into()])
}

/// Ends many running jobs as done in one call, each as job_complete does: if the caller still holds it by its token.
///
/// p_ids: the jobs' ids, at most 10,000. p_tokens: the fencing token of each, 1 or more. p_now: the caller's instant;
/// NULL means the database's clock.
/// Answers one row for each item, in their order: the id and a verdict. done: this call ended the job. stale: the token
/// is no longer the job's, or the job is not running; nothing changed there. unknown: there is no such job. Equal items
/// have one verdict.
/// Errors: 22004 for NULL, also inside an array, 22023 for a token below 1, an infinite instant, arrays of two lengths, of
/// more than one dimension or of more than 10,000 elements; a message names the element as p_tokens[3], counted from 1.
/// 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn job_complete_many(
    p_ids: Option<Uuids>,
    p_tokens: Option<Bigints>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<'static, (name!(id, Uuid), name!(verdict, Text))> {
    let (ids, tokens) = holders(p_ids, p_tokens);
    let now = argument::now("p_now", p_now);
    call.answer(&COMPLETE_MANY, [ids.into(), tokens.into(), now.into()])
}

/// Ends attempts at many running jobs as failed in one call, each as job_fail does: if the caller still holds it by its
/// token.
///
/// p_ids: the jobs' ids, at most 10,000. p_tokens: the fencing token of each, 1 or more. p_reasons: why, one for each
/// item; NULL for none at all. NULL and any text are accepted inside it, and what is longer than 10,000 characters is cut
/// there and ends in a mark that says so; of equal items the first one's is kept. p_now: the caller's instant; NULL means
/// the database's clock.
/// Answers one row for each item, in their order: the id and a verdict. done: this call failed the job. stale: the token
/// is no longer the job's, or the job is not running; nothing changed there. unknown: there is no such job. Equal items
/// have one verdict.
/// Errors: 22004 for NULL ids or tokens, also inside the arrays, 22023 for a token below 1, an infinite instant, arrays of
/// two lengths, of more than one dimension or of more than 10,000 elements; a message names the element as p_tokens[3],
/// counted from 1. 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn job_fail_many(
    p_ids: Option<Uuids>,
    p_tokens: Option<Bigints>,
    p_reasons: Option<Texts>,
    p_now: Option<Instant>,
    call: Call,
) -> TableIterator<'static, (name!(id, Uuid), name!(verdict, Text))> {
    let (ids, tokens) = holders(p_ids, p_tokens);
    let reasons = p_reasons.map(|reasons| argument::each("p_reasons", Some(reasons), |_, _| ()));
    if let Some(reasons) = reasons {
        argument::same_length("p_reasons", reasons, "p_ids", ids);
    }
    let now = argument::now("p_now", p_now);
    call.answer(&FAIL_MANY, [ids.into(), tokens.into(), reasons.into(), now.into()])
}

/// The items of a guarded write of many: a job's id and the caller's token each.
fn holders(ids: Option<Uuids>, tokens: Option<Bigints>) -> (Uuids, Bigints) {
    let ids = argument::each("p_ids", ids, argument::required);
    let tokens = argument::each("p_tokens", tokens, argument::token);
    argument::same_length("p_tokens", tokens, "p_ids", ids);
    (ids, tokens)
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
