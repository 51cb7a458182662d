-- The inbox.

create table public.inbox (
  source varchar(200) not null,
  event_id varchar(200) not null,
  claimed_at timestamptz not null default pg_catalog.now(),
  request_fingerprint varchar(64),
  outcome jsonb,
  -- The arbiter of every claim.
  primary key (source, event_id)
)
-- A receipt is updated once, when its outcome is saved: room on its page keeps both versions together.
with (fillfactor = 80);
-- What the sweeps read, oldest first, each kind of row by itself: (d)eliveries, and (c)ompleted receipts. The (i)ncomplete ones
-- between them are what hfs_lite_health looks for. One index, so that a claim has one to write.
create index inbox_kept_idx on public.inbox (
  (case when request_fingerprint is null then 'd'::"char" when outcome is null then 'i' else 'c' end), claimed_at);
alter table public.inbox enable row level security, force row level security;

comment on table public.inbox is
  'What came in, one row each, through every door: deliveries (no fingerprint) and client receipts (with one). Written by the inbox functions only.';
comment on column public.inbox.source is 'The door that it came in through; client:<principal>:<operation> for inbox_claim_request.';
comment on column public.inbox.event_id is 'The delivery''s id, or the client''s idempotency key.';
comment on column public.inbox.claimed_at is 'When it was claimed.';
comment on column public.inbox.request_fingerprint is 'The fingerprint of a client''s request; NULL for a delivery.';
comment on column public.inbox.outcome is 'What the request came to; NULL until inbox_save_client_outcome, and never changed after.';

alter function public.inbox_claim_event(text, text) rows 1;
comment on function public.inbox_claim_event(text, text) is
$$Claims a delivery: the first caller gets it, every repeat gets none. Claim it in the transaction that does the work, so that both are committed or neither.
p_source: the door it came in through, 1 to 200 characters. p_event_id: the delivery's id, 1 to 200 characters.
Answers one row with the event id. No row: it was claimed before. A repeat during the first one's open transaction waits for it, and claims if that was rolled back.
Errors: 22004 for NULL, 22023 for an empty text, 22001 for text over its width, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.inbox_claim_events(text, text[]) rows 100;
comment on function public.inbox_claim_events(text, text[]) is
$$Claims many deliveries of one source in one call, each as inbox_claim_event does. Claim them in the transaction that does the work, so that all of it is committed or none.
p_source: the door they came in through, 1 to 200 characters. p_event_ids: the deliveries' ids, at most 10,000, each of 1 to 200 characters.
Answers the ids of those that were not claimed before, in the order in which they were passed, each once however often it was passed. No row: all of them were claimed before. A repeat during another's open transaction waits for it, and claims if that was rolled back.
Errors: 22004 for NULL, also inside the array, 22023 for an empty text, an array of more than one dimension or of more than 10,000 elements, 22001 for text over its width; a message names the element as p_event_ids[3], counted from 1. 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

alter function public.inbox_claim_client(text, text, text, timestamptz) rows 1;
comment on function public.inbox_claim_client(text, text, text, timestamptz) is
$$Claims a client's request, or answers what is stored of it. The caller compares the fingerprints; inbox_claim_request does that itself.
p_source: the door, 1 to 200 characters. p_event_id: the client's idempotency key, 1 to 200 characters. p_request_fingerprint: the fingerprint of the request, 1 to 64 characters. p_now: the caller's instant; NULL means the database's clock.
Answers always one row. Claimed now: the caller's fingerprint, a NULL outcome, incomplete false. There before: the stored fingerprint and outcome, and incomplete true where there is no outcome yet; nothing is written. A row that a delivery claimed answers a NULL fingerprint and incomplete true. A concurrent caller waits for the first one, then answers its outcome, or claims if it was rolled back.
Errors: 22004 for NULL, 22023 for an empty text or an infinite instant, 22001 for text over its width, 55000 where a trigger keeps the row out, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.inbox_claim_request(text, text, text, jsonb, timestamptz) rows 1;
comment on function public.inbox_claim_request(text, text, text, jsonb, timestamptz) is
$$Claims a client's request by its whole content, or answers what is stored of it: source and fingerprint are made inside, and compared.
p_principal_id: who asks; p_operation: what for; 1 or more characters without ':', and client:<p_principal_id>:<p_operation> at most 200. p_idempotency_key: the client's key, 1 to 200 characters. p_request: the request. p_now: the caller's instant; NULL means the database's clock.
Answers always one row: the source client:<p_principal_id>:<p_operation>, the request's fingerprint, the outcome, and a state: claimed (do the work, and save its outcome), replay (answer the outcome) or incomplete (claimed before, and no outcome yet).
Errors: LT001 where the key was used with another request, 22004 for NULL, 22023 for an empty text, a ':' or an infinite instant, 22001 for text over its width, 22003 for a number that no double holds, 55000 where a trigger keeps the row out, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.inbox_save_client_outcome(text, text, jsonb) rows 1;
comment on function public.inbox_save_client_outcome(text, text, jsonb) is
$$Stores the outcome of a claimed request, once: a stored outcome is never overwritten.
p_source: the door, 1 to 200 characters. p_event_id: the client's idempotency key, 1 to 200 characters. p_outcome: the outcome; {"value": null} is one, a bare JSON null is not.
Answers one row with the outcome as stored. No row: there is no such receipt, it has an outcome already, or it is a delivery; nothing changed.
Errors: 22004 for NULL, 22023 for an empty text or a bare JSON null, 22001 for text over its width, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.inbox_sweep_clients(timestamptz, integer) rows 1;
-- A sweep reads its index from the old end, and never scans, whatever the planner thinks that it would save.
alter function public.inbox_sweep_clients(timestamptz, integer) set enable_seqscan = off;
alter function public.inbox_sweep_clients(timestamptz, integer) set enable_bitmapscan = off;
comment on function public.inbox_sweep_clients(timestamptz, integer) is
$$Deletes old completed receipts of clients, oldest first, skipping locked ones; deliveries and receipts without an outcome stay.
p_cutoff: receipts claimed before this instant go. p_batch: how many at most, 1 to 10,000.
Answers one row with the number of deleted receipts.
Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.inbox_sweep_events(timestamptz, integer) rows 1;
-- A sweep reads its index from the old end, and never scans, whatever the planner thinks that it would save.
alter function public.inbox_sweep_events(timestamptz, integer) set enable_seqscan = off;
alter function public.inbox_sweep_events(timestamptz, integer) set enable_bitmapscan = off;
comment on function public.inbox_sweep_events(timestamptz, integer) is
$$Deletes old deliveries, oldest first, skipping locked ones; clients' receipts stay. A delivery that comes again after that is done again, so keep them for longer than the sender repeats.
p_cutoff: deliveries claimed before this instant go. p_batch: how many at most, 1 to 10,000.
Answers one row with the number of deleted deliveries.
Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

alter function public.inbox_forget(text, text) rows 1;
comment on function public.inbox_forget(text, text) is
$$Deletes one row of the inbox, so that what it stands for can be done again: the operator's way out of a receipt that stays incomplete, or to have a delivery done again.
p_source: the door, 1 to 200 characters. p_event_id: the delivery's id or the client's idempotency key, 1 to 200 characters.
Answers one row with the event id. No row: there is none, or an open transaction holds it; nothing changed.
Errors: 22004 for NULL, 22023 for an empty text, 22001 for text over its width, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;
