//! The outbox: rows written in the caller's transaction, and taken from there by a relay that carries them on.

use crate::argument::{self, NAME};
use crate::error::Error;
use crate::statement::{Call, Instant, Jsonb, Saved, Statement, TableIterator, Uuid, Uuids, Varchar};
use pgrx::pg_sys::{INT4OID, JSONBOID, TIMESTAMPTZOID, UUIDARRAYOID, UUIDOID, VARCHAROID};
use pgrx::prelude::*;

static WRITE: Statement = Statement::new(
    c"insert into public.queue (id, queue, payload, correlation_id, created_at) values ($1, $2, $3, $4, $5)",
    &[UUIDOID, VARCHAROID, JSONBOID, VARCHAROID, TIMESTAMPTZOID],
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

/// Writes one row into the outbox, in the caller's transaction.
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

/// Takes the oldest waiting rows, locked for the caller's transaction.
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

/// Marks rows as sent.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn queue_mark_sent(p_ids: Option<Uuids>, p_sent_at: Option<Instant>) {
    let ids = argument::required("p_ids", p_ids);
    if ids.contains_null() {
        Error::NullElement { argument: "p_ids" }.raise();
    }
    let sent_at = argument::instant_or_now("p_sent_at", p_sent_at);
    MARK_SENT.run([ids.into(), sent_at.into()]);
}
