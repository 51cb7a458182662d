-- The outbox.

create table public.queue (
  id uuid primary key default pg_catalog.gen_random_uuid(),
  queue varchar(200) not null,
  payload jsonb not null,
  correlation_id varchar(200),
  created_at timestamptz not null,
  sent_at timestamptz
);
-- What queue_waiting reads, in its order. Rows leave it when they are sent, so its size is that of what waits.
create index queue_waiting_idx on public.queue (created_at, id) where sent_at is null;
-- What queue_sweep reads, oldest first.
create index queue_sent_idx on public.queue (sent_at) where sent_at is not null;
alter table public.queue enable row level security, force row level security;

comment on table public.queue is
  'The outbox: rows written by queue_write and queue_write_many in business transactions, and taken by a relay with queue_waiting and queue_mark_sent.';
comment on column public.queue.id is 'The row''s id; a relay passes it on, so that a receiver can tell a repeat.';
comment on column public.queue.queue is 'Where the row is to be carried.';
comment on column public.queue.payload is 'What is to be carried.';
comment on column public.queue.correlation_id is 'The correlation id of the request behind it; NULL where there is none.';
comment on column public.queue.created_at is 'When it was written; the oldest rows are taken first.';
comment on column public.queue.sent_at is 'When a relay marked it as sent; NULL while it waits.';

comment on function public.queue_write(varchar, jsonb, timestamptz, varchar) is
$$Writes one row into the outbox, in the caller's transaction: rolled back, it was never there.
p_queue: where it is to be carried, 1 to 200 characters. p_payload: what is to be carried. p_created_at: the row's instant; NULL means the database's clock. p_correlation_id: NULL, or 1 to 200 characters without control characters (Unicode's category Cc).
Answers nothing.
Errors: 22004 for a NULL queue or payload, 22023 for an empty text, a control character or an infinite instant, 22001 for text over its width.
Since 0.1.0.$$;

alter function public.queue_write_many(varchar, jsonb[], timestamptz, varchar) rows 100;
comment on function public.queue_write_many(varchar, jsonb[], timestamptz, varchar) is
$$Writes many rows into the outbox in one call, each as queue_write does. A relay takes them in the order in which they were passed.
p_queue: where they are to be carried, 1 to 200 characters. p_payloads: what is to be carried, at most 10,000. p_created_at: the rows' instant; NULL means the database's clock. p_correlation_id: that of all of them: NULL, or 1 to 200 characters without control characters (Unicode's category Cc).
Answers the ids of the rows, in the order of the payloads.
Errors: 22004 for a NULL queue or payload, 22023 for an empty text, a control character, an infinite instant, an array of more than one dimension or of more than 10,000 elements, 22001 for text over its width; a message names the element as p_payloads[3], counted from 1.
Since 0.3.0.$$;

alter function public.queue_waiting(integer) rows 100;
comment on function public.queue_waiting(integer) is
$$Takes the oldest waiting rows of the outbox, locked until the caller's transaction ends; rows that another relay holds are skipped. Call it inside a transaction: in autocommit the locks end with the call, and two relays carry the same rows.
p_batch: how many at most, 1 to 10,000.
Answers the rows by (created_at, id): id, queue, payload and correlation id; a row without a correlation id answers its id as text. No row: nothing waits that is free.
Errors: 22004 for NULL, 22023 out of range, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

comment on function public.queue_mark_sent(uuid[], timestamptz) is
$$Marks rows of the outbox as sent, in the transaction of the queue_waiting that took them.
p_ids: the rows' ids; one that is unknown or stands twice is no error, and an empty array does nothing. p_sent_at: when; NULL means the database's clock. A row that was sent before keeps its first instant.
Answers nothing.
Errors: 22004 for NULL, also inside the array, 22023 for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.queue_sweep(timestamptz, integer) rows 1;
-- A sweep reads its index from the old end, and never scans, whatever the planner thinks that it would save.
alter function public.queue_sweep(timestamptz, integer) set enable_seqscan = off;
alter function public.queue_sweep(timestamptz, integer) set enable_bitmapscan = off;
comment on function public.queue_sweep(timestamptz, integer) is
$$Deletes old sent rows of the outbox, oldest first, skipping locked ones; waiting rows stay.
p_cutoff: rows sent before this instant go, by their sent_at. p_batch: how many at most, 1 to 10,000.
Answers one row with the number of deleted rows.
Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;
