//! The inbox: what comes in through any door is done once. A delivery is claimed by its id; a client's request has a receipt
//! that keeps the outcome, so that the same request again is answered and not done again.
//!
//! A claim and the look at who has it are two statements: one alone would look with a snapshot that is older than the row it
//! waited for. They loop because the row can be gone again by then, swept or forgotten.

use crate::argument::{self, NAME};
use crate::error::Error;
use crate::fingerprint::fingerprint_of;
use crate::statement::{
    Call, Characters, Instant, Jsonb, Saved, Statement, TableIterator, Text, Texts, Varchar, snapshot_is_kept,
};
use pgrx::pg_sys::{INT4OID, JSONBOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID};
use pgrx::prelude::*;

static CLAIM_EVENT: Statement = Statement::new(
    c"insert into public.inbox (source, event_id, claimed_at) values ($1, $2, $3)
      on conflict (source, event_id) do nothing
      returning event_id::text",
    &[TEXTOID, TEXTOID, TIMESTAMPTZOID],
);

// In one order, so that two calls that name the same deliveries wait for each other and never deadlock.
static CLAIM_EVENTS: Statement = Statement::new(
    c"with claimed as (
        insert into public.inbox (source, event_id, claimed_at)
        select distinct $1, i.event_id, $3 from unnest($2) i (event_id) order by i.event_id
        on conflict (source, event_id) do nothing
        returning event_id)
      select i.event_id
        from (select u.event_id, min(u.place) from unnest($2) with ordinality u (event_id, place) group by u.event_id)
               i (event_id, place)
       where i.event_id in (select c.event_id from claimed c)
       order by i.place",
    &[TEXTOID, TEXTARRAYOID, TIMESTAMPTZOID],
);

static CLAIM_CLIENT: Statement = Statement::new(
    c"insert into public.inbox (source, event_id, request_fingerprint, claimed_at) values ($1, $2, $3, $4)
      on conflict (source, event_id) do nothing
      returning request_fingerprint, outcome, false",
    &[TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID],
);

static REPLAY_CLIENT: Statement = Statement::new(
    c"select request_fingerprint, outcome, outcome is null from public.inbox where source = $1 and event_id = $2",
    &[TEXTOID, TEXTOID],
);

static CLAIM_REQUEST: Statement = Statement::new(
    c"insert into public.inbox (source, event_id, request_fingerprint, claimed_at) values ($1, $2, $3, $4)
      on conflict (source, event_id) do nothing
      returning source::text, request_fingerprint, outcome, 'claimed'::text",
    &[TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID],
);

static REPLAY_REQUEST: Statement = Statement::new(
    c"select source::text, request_fingerprint, outcome, case when outcome is null then 'incomplete' else 'replay' end
        from public.inbox
       where source = $1 and event_id = $2 and request_fingerprint = $3",
    &[TEXTOID, TEXTOID, TEXTOID],
);

static IS_OTHER_REQUEST: Statement = Statement::new(
    c"select request_fingerprint is distinct from $3 from public.inbox where source = $1 and event_id = $2",
    &[TEXTOID, TEXTOID, TEXTOID],
);

// A row that is gone since the snapshot cannot be locked: PostgreSQL's 40001.
static CHECK_ALONE: Statement =
    Statement::new(c"select from public.inbox where source = $1 and event_id = $2 for key share", &[TEXTOID, TEXTOID]);

// Of many: only where two rows are seen, so that a repeat is not locked.
static CHECK_ALONE_MANY: Statement = Statement::new(
    c"select from public.inbox i
       where i.source = $1 and i.event_id = any ($2)
         and (select count(*) from public.inbox s where s.source = i.source and s.event_id = i.event_id) > 1
         for key share",
    &[TEXTOID, TEXTARRAYOID],
);

static SAVE_OUTCOME: Statement = Statement::new(
    c"update public.inbox set outcome = $3
       where source = $1 and event_id = $2 and request_fingerprint is not null and outcome is null
      returning outcome",
    &[TEXTOID, TEXTOID, JSONBOID],
);

// $3 is a kind of row as inbox_kept_idx, whose expression this is, tells them apart. By ctid: the rows are found by that
// index, oldest first, and an array of them leaves the planner nothing to scan.
static SWEEP: Statement = Statement::new(
    c"with gone as (
        delete from public.inbox where ctid = any (array(
          select i.ctid from public.inbox i
           where case when i.request_fingerprint is null then 'd'::\"char\" when i.outcome is null then 'i' else 'c' end
                 = $3::\"char\"
             and i.claimed_at < $1
           order by i.claimed_at
           limit $2
             for update skip locked))
        returning 1)
      select count(*)::integer from gone",
    &[TIMESTAMPTZOID, INT4OID, TEXTOID],
);

static FORGET: Statement = Statement::new(
    c"delete from public.inbox
       where source = $1 and event_id = $2
         and exists (
           select from public.inbox free where free.source = $1 and free.event_id = $2 for update skip locked)
      returning event_id::text",
    &[TEXTOID, TEXTOID],
);

/// The width of a stored fingerprint, in characters.
const FINGERPRINT: usize = 64;

/// How often a claim is tried that neither inserts its row nor finds one. Each time the row must have been swept or forgotten
/// between two statements; so many times running, it is a trigger that keeps rows out.
const CLAIM_ROUNDS: usize = 1_000;

/// Claims a delivery: the first caller gets it, every repeat gets none. Claim it in the transaction that does the work,
/// so that both are committed or neither.
///
/// p_source: the door it came in through, 1 to 200 characters. p_event_id: the delivery's id, 1 to 200 characters.
/// Answers one row with the event id. No row: it was claimed before. A repeat during the first one's open transaction
/// waits for it, and claims if that was rolled back.
/// Errors: 22004 for NULL, 22023 for an empty text, 22001 for text over its width, 40001 from PostgreSQL above READ
/// COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn inbox_claim_event(
    p_source: Option<Text>,
    p_event_id: Option<Text>,
    call: Call,
) -> TableIterator<'static, (name!(event_id, Text),)> {
    let source = argument::text("p_source", p_source, NAME);
    let event_id = argument::text("p_event_id", p_event_id, NAME);
    if CLAIM_EVENT.rows(call, [source.into(), event_id.into(), Instant::now().into()]) > 0 {
        check_alone(source, event_id);
    }
    call.done()
}

/// Claims many deliveries of one source in one call, each as inbox_claim_event does. Claim them in the transaction that
/// does the work, so that all of it is committed or none.
///
/// p_source: the door they came in through, 1 to 200 characters. p_event_ids: the deliveries' ids, at most 10,000, each
/// of 1 to 200 characters.
/// Answers the ids of those that were not claimed before, in the order in which they were passed, each once however
/// often it was passed. No row: all of them were claimed before. A repeat during another's open transaction waits for
/// it, and claims if that was rolled back.
/// Errors: 22004 for NULL, also inside the array, 22023 for an empty text, an array of more than one dimension or of
/// more than 10,000 elements, 22001 for text over its width; a message names the element as p_event_ids[3], counted from
/// 1. 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn inbox_claim_events(
    p_source: Option<Text>,
    p_event_ids: Option<Texts>,
    call: Call,
) -> TableIterator<'static, (name!(event_id, Text),)> {
    let source = argument::text("p_source", p_source, NAME);
    let event_ids = argument::each("p_event_ids", p_event_ids, |id, value| argument::text(id, value, NAME));
    if CLAIM_EVENTS.rows(call, [source.into(), event_ids.into(), Instant::now().into()]) > 0 && snapshot_is_kept() {
        CHECK_ALONE_MANY.run([source.into(), event_ids.into()]);
    }
    call.done()
}

/// Claims a client's request, or answers what is stored of it. The caller compares the fingerprints;
/// inbox_claim_request does that itself.
///
/// p_source: the door, 1 to 200 characters. p_event_id: the client's idempotency key, 1 to 200 characters.
/// p_request_fingerprint: the fingerprint of the request, 1 to 64 characters. p_now: the caller's instant; NULL means
/// the database's clock.
/// Answers always one row. Claimed now: the caller's fingerprint, a NULL outcome, incomplete false. There before: the
/// stored fingerprint and outcome, and incomplete true where there is no outcome yet; nothing is written. A row that a
/// delivery claimed answers a NULL fingerprint and incomplete true. A concurrent caller waits for the first one, then
/// answers its outcome, or claims if it was rolled back.
/// Errors: 22004 for NULL, 22023 for an empty text or an infinite instant, 22001 for text over its width, 55000 where a
/// trigger keeps the row out, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn inbox_claim_client(
    p_source: Option<Text>,
    p_event_id: Option<Text>,
    p_request_fingerprint: Option<Text>,
    p_now: default!(Option<Instant>, "NULL"),
    call: Call,
) -> TableIterator<'static, (name!(request_fingerprint, Varchar), name!(outcome, Jsonb), name!(incomplete, bool))> {
    let source = argument::text("p_source", p_source, NAME);
    let event_id = argument::text("p_event_id", p_event_id, NAME);
    let fingerprint = argument::text("p_request_fingerprint", p_request_fingerprint, FINGERPRINT);
    let now = argument::now("p_now", p_now);
    for _ in 0..CLAIM_ROUNDS {
        if CLAIM_CLIENT.rows(call, [source.into(), event_id.into(), fingerprint.into(), now.into()]) > 0 {
            check_alone(source, event_id);
            return call.done();
        }
        if REPLAY_CLIENT.rows(call, [source.into(), event_id.into()]) > 0 {
            return call.done();
        }
    }
    Error::ClaimVanishes { event_id: event_id.as_str(), rounds: CLAIM_ROUNDS }.raise();
}

/// Claims a client's request by its whole content, or answers what is stored of it: source and fingerprint are made
/// inside, and compared.
///
/// p_principal_id: who asks; p_operation: what for; 1 or more characters without ':', and
/// `client:<p_principal_id>:<p_operation>` at most 200. p_idempotency_key: the client's key, 1 to 200 characters.
/// p_request: the request. p_now: the caller's instant; NULL means the database's clock.
/// Answers always one row: the source `client:<p_principal_id>:<p_operation>`, the request's fingerprint, the outcome,
/// and a state: claimed (do the work, and save its outcome), replay (answer the outcome) or incomplete (claimed before,
/// and no outcome yet).
/// Errors: LT001 where the key was used with another request, 22004 for NULL, 22023 for an empty text, a ':' or an
/// infinite instant, 22001 for text over its width, 22003 for a number that no double holds, 55000 where a trigger keeps
/// the row out, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn inbox_claim_request(
    p_principal_id: Option<Text>,
    p_operation: Option<Text>,
    p_idempotency_key: Option<Text>,
    p_request: Option<Jsonb>,
    p_now: default!(Option<Instant>, "NULL"),
    call: Call,
) -> TableIterator<
    'static,
    (name!(source, Text), name!(request_fingerprint, Varchar), name!(outcome, Jsonb), name!(state, Text)),
> {
    let principal_id = part_of_source("p_principal_id", p_principal_id);
    let operation = part_of_source("p_operation", p_operation);
    let source = Text::new(&format!("client:{}:{}", principal_id.as_str(), operation.as_str()));
    let source = argument::text("client:<p_principal_id>:<p_operation>", Some(source), NAME);
    let key = argument::text("p_idempotency_key", p_idempotency_key, NAME);
    let request = argument::required("p_request", p_request);
    let now = argument::now("p_now", p_now);
    let fingerprint = fingerprint_of("p_request", request);
    let same = [source.into(), key.into(), fingerprint.into()];
    for _ in 0..CLAIM_ROUNDS {
        if CLAIM_REQUEST.rows(call, [source.into(), key.into(), fingerprint.into(), now.into()]) > 0 {
            check_alone(source, key);
            return call.done();
        }
        if REPLAY_REQUEST.rows(call, same) > 0 {
            return call.done();
        }
        // No row is answered: it is another request's, or it went, and perhaps came again, between two statements.
        if IS_OTHER_REQUEST.value(same).as_bool() == Some(true) {
            Error::KeyReused { key: key.as_str(), inbox_source: source.as_str() }.raise();
        }
    }
    Error::ClaimVanishes { event_id: key.as_str(), rounds: CLAIM_ROUNDS }.raise();
}

/// Above READ COMMITTED a row that was swept or forgotten since the snapshot is still seen, now beside the one just claimed,
/// and the next look would find both. Such a transaction is to be tried again.
fn check_alone(source: Text, event_id: Text) {
    if snapshot_is_kept() {
        CHECK_ALONE.run([source.into(), event_id.into()]);
    }
}

/// A part of a source must not hold the `:` that joins the parts, so that no two pairs share a source.
fn part_of_source(argument: &'static str, part: Option<Text>) -> Text {
    let part = argument::text(argument, part, NAME);
    if part.as_str().contains(':') {
        Error::NotAllowed { argument: argument.into(), came: part.as_str(), allowed: "characters other than ':'" }
            .raise();
    }
    part
}

/// Stores the outcome of a claimed request, once: a stored outcome is never overwritten.
///
/// p_source: the door, 1 to 200 characters. p_event_id: the client's idempotency key, 1 to 200 characters. p_outcome:
/// the outcome; {"value": null} is one, a bare JSON null is not.
/// Answers one row with the outcome as stored. No row: there is no such receipt, it has an outcome already, or it is a
/// delivery; nothing changed.
/// Errors: 22004 for NULL, 22023 for an empty text or a bare JSON null, 22001 for text over its width, 40001 from
/// PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn inbox_save_client_outcome(
    p_source: Option<Text>,
    p_event_id: Option<Text>,
    p_outcome: Option<Jsonb>,
    call: Call,
) -> TableIterator<'static, (name!(outcome, Jsonb),)> {
    let source = argument::text("p_source", p_source, NAME);
    let event_id = argument::text("p_event_id", p_event_id, NAME);
    let outcome = argument::required("p_outcome", p_outcome);
    if outcome.is_json_null() {
        Error::NullOutcome.raise();
    }
    call.answer(&SAVE_OUTCOME, [source.into(), event_id.into(), outcome.into()])
}

/// Deletes old completed receipts of clients, oldest first, skipping locked ones; deliveries and receipts without an
/// outcome stay.
///
/// p_cutoff: receipts claimed before this instant go. p_batch: how many at most, 1 to 10,000.
/// Answers one row with the number of deleted receipts.
/// Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn inbox_sweep_clients(
    p_cutoff: Option<Instant>,
    p_batch: Option<i32>,
    call: Call,
) -> TableIterator<'static, (name!(deleted_count, i32),)> {
    sweep("c", p_cutoff, p_batch, call)
}

/// Deletes old deliveries, oldest first, skipping locked ones; clients' receipts stay. A delivery that comes again after
/// that is done again, so keep them for longer than the sender repeats.
///
/// p_cutoff: deliveries claimed before this instant go. p_batch: how many at most, 1 to 10,000.
/// Answers one row with the number of deleted deliveries.
/// Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn inbox_sweep_events(
    p_cutoff: Option<Instant>,
    p_batch: Option<i32>,
    call: Call,
) -> TableIterator<'static, (name!(deleted_count, i32),)> {
    sweep("d", p_cutoff, p_batch, call)
}

fn sweep(
    kind: &str,
    p_cutoff: Option<Instant>,
    p_batch: Option<i32>,
    call: Call,
) -> TableIterator<'static, (name!(deleted_count, i32),)> {
    let cutoff = argument::instant("p_cutoff", p_cutoff);
    let batch = argument::batch("p_batch", p_batch);
    call.answer(&SWEEP, [cutoff.into(), batch.into(), Text::new(kind).into()])
}

/// Deletes one row of the inbox, so that what it stands for can be done again: the operator's way out of a receipt that
/// stays incomplete, or to have a delivery done again.
///
/// p_source: the door, 1 to 200 characters. p_event_id: the delivery's id or the client's idempotency key, 1 to 200
/// characters.
/// Answers one row with the event id. No row: there is none, or an open transaction holds it; nothing changed.
/// Errors: 22004 for NULL, 22023 for an empty text, 22001 for text over its width, 40001 from PostgreSQL above READ
/// COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn inbox_forget(
    p_source: Option<Text>,
    p_event_id: Option<Text>,
    call: Call,
) -> TableIterator<'static, (name!(event_id, Text),)> {
    let source = argument::text("p_source", p_source, NAME);
    let event_id = argument::text("p_event_id", p_event_id, NAME);
    call.answer(&FORGET, [source.into(), event_id.into()])
}
