//! The outbox: rows written in the caller's transaction, and taken from there by a relay that carries them on.

use crate::argument::{self, NAME};
use crate::error::Error;
use crate::statement::{Array, Call, Instant, Jsonb, Jsonbs, Saved, Statement, TableIterator, Uuid, Uuids, Varchar};
use pgrx::pg_sys::{INT4OID, JSONBARRAYOID, JSONBOID, TIMESTAMPTZOID, UUIDARRAYOID, UUIDOID, VARCHAROID};
use pgrx::prelude::*;

static WRITE: Statement = Statement::new(
    c"insert into public.queue (id, queue, payload, correlation_id, created_at) values ($1, $2, $3, $4, $5)",
    &[UUIDOID, VARCHAROID, JSONBOID, VARCHAROID, TIMESTAMPTZOID],
);

static WRITE_MANY: Statement = Statement::new(
    c"insert into public.queue (id, queue, payload, correlation_id, created_at)
      select i.id, $3, i.payload, $4, $5 from unnest($1, $2) with ordinality i (id, payload, place) order by i.place
      returning id",
    &[UUIDARRAYOID, JSONBARRAYOID, VARCHAROID, VARCHAROID, TIMESTAMPTZOID],
);

static WAITING: Statement = Statement::new(
    c"select q.id, q.queue, q.payload, coalesce(q.correlation_id, q.id::varchar)
        from public.queue q
       where q.sent_at is null
       order by q.created_at, q.id
       limit $1
         for update skip locked",
    &[INT4OID],
);

// The rows are locked in the order of their ids first: the update alone would meet them in its plan's order, and two
// relays whose saved plans differ would deadlock.
static MARK_SENT: Statement = Statement::new(
    c"update public.queue set sent_at = $2
       where id = any (array(
         select w.id from public.queue w
          where w.id = any ($1) and w.sent_at is null order by w.id for no key update))",
    &[UUIDARRAYOID, TIMESTAMPTZOID],
);

static SWEEP: Statement = Statement::new(
    c"with gone as (
        delete from public.queue where ctid = any (array(
          select q.ctid from public.queue q
           where q.sent_at < $1
           order by q.sent_at
           limit $2
             for update skip locked))
        returning 1)
      select count(*)::integer from gone",
    &[TIMESTAMPTZOID, INT4OID],
);

/// Writes one row into the outbox, in the caller's transaction: rolled back, it was never there.
///
/// p_queue: where it is to be carried, 1 to 200 characters. p_payload: what is to be carried. p_created_at: the row's
/// instant; NULL means the database's clock. p_correlation_id: NULL, or 1 to 200 characters without control characters
/// (Unicode's category Cc).
/// Answers nothing.
/// Errors: 22004 for a NULL queue or payload, 22023 for an empty text, a control character or an infinite instant,
/// 22001 for text over its width.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn queue_write(
    p_queue: Option<Varchar>,
    p_payload: Option<Jsonb>,
    p_created_at: Option<Instant>,
    p_correlation_id: Option<Varchar>,
) {
    let queue = argument::text("p_queue", p_queue, NAME);
    let payload = argument::required("p_payload", p_payload);
    let created_at = argument::instant_or_now("p_created_at", p_created_at);
    let correlation_id = argument::correlation_id("p_correlation_id", p_correlation_id);
    WRITE.run([Uuid::new().into(), queue.into(), payload.into(), correlation_id.into(), created_at.into()]);
}

/// Writes many rows into the outbox in one call, each as queue_write does. A relay takes them in the order in which they
/// were passed.
///
/// p_queue: where they are to be carried, 1 to 200 characters. p_payloads: what is to be carried, at most 10,000.
/// p_created_at: the rows' instant; NULL means the database's clock. p_correlation_id: that of all of them: NULL, or 1 to
/// 200 characters without control characters (Unicode's category Cc).
/// Answers the ids of the rows, in the order of the payloads.
/// Errors: 22004 for a NULL queue or payload, 22023 for an empty text, a control character, an infinite instant, an array
/// of more than one dimension or of more than 10,000 elements, 22001 for text over its width; a message names the element
/// as p_payloads[3], counted from 1.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn queue_write_many(
    p_queue: Option<Varchar>,
    p_payloads: Option<Jsonbs>,
    p_created_at: Option<Instant>,
    p_correlation_id: Option<Varchar>,
    call: Call,
) -> TableIterator<'static, (name!(id, Uuid),)> {
    let queue = argument::text("p_queue", p_queue, NAME);
    let payloads = argument::each("p_payloads", p_payloads, argument::required);
    let created_at = argument::instant_or_now("p_created_at", p_created_at);
    let correlation_id = argument::correlation_id("p_correlation_id", p_correlation_id);
    let ids = Uuids::new(payloads.count());
    let rows = [ids.into(), payloads.into(), queue.into(), correlation_id.into(), created_at.into()];
    call.answer(&WRITE_MANY, rows)
}

/// Takes the oldest waiting rows of the outbox, locked until the caller's transaction ends; rows that another relay
/// holds are skipped. Call it inside a transaction: in autocommit the locks end with the call, and two relays carry the
/// same rows.
///
/// p_batch: how many at most, 1 to 10,000.
/// Answers the rows by (created_at, id): id, queue, payload and correlation id; a row without a correlation id answers
/// its id as text. No row: nothing waits that is free.
/// Errors: 22004 for NULL, 22023 out of range, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(non_snake_case)]
fn queue_waiting(
    p_batch: Option<i32>,
    call: Call,
) -> TableIterator<
    'static,
    (name!(id, Uuid), name!(queue, Varchar), name!(payload, Jsonb), name!(correlationId, Varchar)),
> {
    let batch = argument::batch("p_batch", p_batch);
    call.answer(&WAITING, [batch.into()])
}

/// Marks rows of the outbox as sent, in the transaction of the queue_waiting that took them.
///
/// p_ids: the rows' ids; one that is unknown or stands twice is no error, and an empty array does nothing. p_sent_at:
/// when; NULL means the database's clock. A row that was sent before keeps its first instant.
/// Answers nothing.
/// Errors: 22004 for NULL, also inside the array, 22023 for an infinite instant, 40001 from PostgreSQL above READ
/// COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn queue_mark_sent(p_ids: Option<Uuids>, p_sent_at: Option<Instant>) {
    let ids = argument::required("p_ids", p_ids);
    if ids.contains_null() {
        Error::NullElement { argument: "p_ids".into() }.raise();
    }
    let sent_at = argument::instant_or_now("p_sent_at", p_sent_at);
    MARK_SENT.run([ids.into(), sent_at.into()]);
}

/// Deletes old sent rows of the outbox, oldest first, skipping locked ones; waiting rows stay.
///
/// p_cutoff: rows sent before this instant go, by their sent_at. p_batch: how many at most, 1 to 10,000.
/// Answers one row with the number of deleted rows.
/// Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn queue_sweep(
    p_cutoff: Option<Instant>,
    p_batch: Option<i32>,
    call: Call,
) -> TableIterator<'static, (name!(deleted_count, i32),)> {
    let cutoff = argument::instant("p_cutoff", p_cutoff);
    let batch = argument::batch("p_batch", p_batch);
    call.answer(&SWEEP, [cutoff.into(), batch.into()])
}
