-- From 0.1.0 to 0.2.0: sweeps, recorded subscriptions, watching.
--
-- The indexes are what takes time on large tables, and writers wait for it: build each before the update with CREATE INDEX
-- CONCURRENTLY under the same name, and it is found here.

-- Nothing that somebody made in schema public gets into what is made here.
set local search_path = pg_catalog, pg_temp;

-- What is new must find its names free. A function of one of them is in the way whatever its arguments are: callers send
-- arguments without types.
do $$
declare
  in_the_way text;
begin
  select string_agg(line, E'\n' order by line collate "C")
    into in_the_way
    from (
      select pg_describe_object('pg_class'::regclass, oid, 0)
        from pg_class
       where relnamespace = 'public'::regnamespace
         and relname in ('event_bus_subscriptions', 'event_bus_subscriptions_pkey', 'hfs_lite_dead_letters', 'hfs_lite_jobs',
                         'hfs_lite_outbox')
      union all
      select pg_describe_object('pg_type'::regclass, oid, 0)
        from pg_type
       where typnamespace = 'public'::regnamespace and typrelid = 0 and typelem = 0
         and typname in ('event_bus_subscriptions', 'hfs_lite_dead_letters', 'hfs_lite_jobs', 'hfs_lite_outbox')
      union all
      select pg_describe_object('pg_proc'::regclass, oid, 0)
        from pg_proc
       where pronamespace = 'public'::regnamespace
         and proname in ('event_bus_all_dead_letters', 'event_bus_check', 'event_bus_record', 'event_bus_repair',
                         'event_bus_sweep', 'event_bus_unsubscribe', 'hfs_lite_age', 'hfs_lite_health', 'inbox_sweep_events',
                         'jobs_sweep', 'queue_sweep')) as found (line);
  if in_the_way is not null then
    raise exception using
      errcode = '55000',
      message = 'schema public holds objects of names that are hfs_lite''s from 0.2.0 on',
      detail = in_the_way,
      hint = 'Rename or drop them, and update again.';
  end if;
end $$;

-- What has such a name and is another index, or one whose building was interrupted, must not be taken for it.
do $$
declare
  wrong text := (
    select pg_catalog.string_agg('public.' || c.relname, ', ' order by c.relname)
      from (values
        ('jobs_status_idx', 'CREATE INDEX jobs_status_idx ON public.jobs USING btree (status, updated_at)'),
        ('queue_sent_idx',
         'CREATE INDEX queue_sent_idx ON public.queue USING btree (sent_at) WHERE (sent_at IS NOT NULL)'),
        ('inbox_kept_idx',
         'CREATE INDEX inbox_kept_idx ON public.inbox USING btree (( CASE WHEN (request_fingerprint IS NULL) THEN ''d''::"char" WHEN (outcome IS NULL) THEN ''i''::"char" ELSE ''c''::"char" END), claimed_at)')) needed (name, definition)
      join pg_catalog.pg_class c on c.relnamespace = 'public'::pg_catalog.regnamespace and c.relname = needed.name
      left join pg_catalog.pg_index i on i.indexrelid = c.oid
     where i.indisvalid is not true
        or pg_catalog.regexp_replace(pg_catalog.pg_get_indexdef(c.oid), '\s+', ' ', 'g') <> needed.definition);
begin
  if wrong is not null then
    raise exception using
      errcode = '55000',
      message = pg_catalog.format('what hfs_lite needs as an index is invalid, or something else: %s', wrong),
      hint = 'Drop it, and update again, or build it before with the statement that docs/upgrading.md shows.';
  end if;
end $$;

-- Sweeps.

comment on column public.jobs.job_key is 'The key that callers claim the job by; one job a key, until it is swept.';

-- What jobs_sweep reads (done jobs, oldest first), and what hfs_lite_health counts running and failed jobs by. Its price: an
-- update of a job is not HOT any more.
create index if not exists jobs_status_idx on public.jobs (status, updated_at);

create function public.jobs_sweep(
  "p_cutoff" timestamptz,
  "p_batch" INT
) RETURNS TABLE (
  "deleted_count" INT
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'jobs_sweep_wrapper';
alter function public.jobs_sweep(timestamptz, integer) rows 1;
-- A sweep reads its index from the old end, and never scans, whatever the planner thinks that it would save.
alter function public.jobs_sweep(timestamptz, integer) set enable_seqscan = off;
alter function public.jobs_sweep(timestamptz, integer) set enable_bitmapscan = off;
comment on function public.jobs_sweep(timestamptz, integer) is
$$Deletes old done jobs, oldest first, skipping locked ones; running and failed jobs stay. A job that is gone is not known any more: claimed under its key again, it is a new job.
p_cutoff: jobs done before this instant go, by their updated_at. p_batch: how many at most, 1 to 10,000.
Answers one row with the number of deleted jobs.
Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

-- What queue_sweep reads, oldest first.
create index if not exists queue_sent_idx on public.queue (sent_at) where sent_at is not null;

create function public.queue_sweep(
  "p_cutoff" timestamptz,
  "p_batch" INT
) RETURNS TABLE (
  "deleted_count" INT
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'queue_sweep_wrapper';
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

-- What the sweeps read, oldest first, each kind of row by itself: (d)eliveries, and (c)ompleted receipts. The (i)ncomplete ones
-- between them are what hfs_lite_health looks for. One index, so that a claim has one to write.
create index if not exists inbox_kept_idx on public.inbox (
  (case when request_fingerprint is null then 'd'::"char" when outcome is null then 'i' else 'c' end), claimed_at);
drop index public.inbox_clients_idx;

comment on function public.inbox_claim_client(text, text, text, timestamptz) is
$$Claims a client's request, or answers what is stored of it. The caller compares the fingerprints; inbox_claim_request does that itself.
p_source: the door, 1 to 200 characters. p_event_id: the client's idempotency key, 1 to 200 characters. p_request_fingerprint: the fingerprint of the request, 1 to 64 characters. p_now: the caller's instant; NULL means the database's clock.
Answers always one row. Claimed now: the caller's fingerprint, a NULL outcome, incomplete false. There before: the stored fingerprint and outcome, and incomplete true where there is no outcome yet; nothing is written. A row that a delivery claimed answers a NULL fingerprint and incomplete true. A concurrent caller waits for the first one, then answers its outcome, or claims if it was rolled back.
Errors: 22004 for NULL, 22023 for an empty text or an infinite instant, 22001 for text over its width, 55000 where a trigger keeps the row out, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;
comment on function public.inbox_claim_request(text, text, text, jsonb, timestamptz) is
$$Claims a client's request by its whole content, or answers what is stored of it: source and fingerprint are made inside, and compared.
p_principal_id: who asks; p_operation: what for; 1 or more characters without ':', and client:<p_principal_id>:<p_operation> at most 200. p_idempotency_key: the client's key, 1 to 200 characters. p_request: the request. p_now: the caller's instant; NULL means the database's clock.
Answers always one row: the source client:<p_principal_id>:<p_operation>, the request's fingerprint, the outcome, and a state: claimed (do the work, and save its outcome), replay (answer the outcome) or incomplete (claimed before, and no outcome yet).
Errors: LT001 where the key was used with another request, 22004 for NULL, 22023 for an empty text, a ':' or an infinite instant, 22001 for text over its width, 22003 for a number that no double holds, 55000 where a trigger keeps the row out, 40001 from PostgreSQL above READ COMMITTED.
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

create function public.inbox_sweep_events(
  "p_cutoff" timestamptz,
  "p_batch" INT
) RETURNS TABLE (
  "deleted_count" INT
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'inbox_sweep_events_wrapper';
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

create function public.event_bus_all_dead_letters(
  "p_limit" INT DEFAULT 100
) RETURNS TABLE (
  "queue" text,
  "msg_id" bigint,
  "attempts" INT,
  "enqueued_at" timestamptz,
  "buried_at" timestamptz,
  "reason" text,
  "message" jsonb,
  "headers" jsonb
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_all_dead_letters_wrapper';
alter function public.event_bus_all_dead_letters(integer) rows 100;
comment on function public.event_bus_all_dead_letters(integer) is
$$Shows the dead letters of all queues, queue by queue in the order of their names, oldest first; it hides and counts nothing. The view hfs_lite_dead_letters shows them with their ages in words.
p_limit: how many of each queue at most, 1 to 10,000; 100 unless given.
Answers the queue's name, without __dead, and what event_bus_dead_letters answers of it.
Errors: 22004 for NULL, 22023 out of range.
Since 0.2.0.$$;

create function public.event_bus_sweep(
  "p_queue" text,
  "p_cutoff" timestamptz,
  "p_batch" INT
) RETURNS TABLE (
  "deleted_count" INT
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_sweep_wrapper';
alter function public.event_bus_sweep(text, timestamptz, integer) rows 1;
-- A sweep reads its index from the old end, and never scans, whatever the planner thinks that it would save.
alter function public.event_bus_sweep(text, timestamptz, integer) set enable_seqscan = off;
alter function public.event_bus_sweep(text, timestamptz, integer) set enable_bitmapscan = off;
comment on function public.event_bus_sweep(text, timestamptz, integer) is
$$Deletes old messages from a queue's archive, oldest first, skipping locked ones; what is in the queue stays.
p_queue: any queue that pgmq has. p_cutoff: messages archived before this instant go. p_batch: how many at most, 1 to 10,000.
Answers one row with the number of deleted messages.
Errors: 22004 for NULL, 22023 for an empty name, out of range or for an infinite instant, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

-- Subscriptions of the event bus, recorded beside pgmq's own bindings. No foreign key leads to pgmq's tables: a parallel restore
-- would load the two in any order.

create table public.event_bus_subscriptions (
  topic varchar(255) not null,
  queue varchar(47) not null,
  subscribed_at timestamptz not null default pg_catalog.now(),
  primary key (topic, queue)
);
alter table public.event_bus_subscriptions enable row level security, force row level security;

comment on table public.event_bus_subscriptions is
  'Which queue is bound to which topic. Written by event_bus_subscribe, event_bus_unsubscribe and event_bus_record; event_bus_check compares it with what pgmq has.';
comment on column public.event_bus_subscriptions.topic is 'The topic, or a pattern of topics where pgmq''s wildcards are used.';
comment on column public.event_bus_subscriptions.queue is 'The queue that is bound to it.';
comment on column public.event_bus_subscriptions.subscribed_at is 'When the subscription was recorded.';

alter function public.event_bus_subscribe(text, text) rows 1;
comment on function public.event_bus_subscribe(text, text) is
$$Creates a consumer's queue `<topic>__<consumer>` and its dead-letter queue `<topic>__<consumer>__dead`, and binds the queue to the topic; what is there already stays as it is. The subscription is recorded in event_bus_subscriptions, so that event_bus_check knows what must be there. It may be called any number of times, also at once from many sessions.
p_topic: words of a-z and 0-9, a letter first, joined by single '.', '_' or '-'. p_consumer: the same without '.', not 'dead', and not ending in _vt_idx, _pkey or _msg_id_seq. The queue's name has at most 41 characters.
Answers one row with the names of both queues.
Errors: 22004 for NULL, 22023 for a name that breaks these rules, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

create function public.event_bus_unsubscribe(
  "p_topic" text,
  "p_queue" text
) RETURNS TABLE (
  "topic" text,
  "queue" text
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_unsubscribe_wrapper';
alter function public.event_bus_unsubscribe(text, text) rows 1;
comment on function public.event_bus_unsubscribe(text, text) is
$$Ends a subscription: events of the topic are no longer sent to the queue, and the record of it is deleted. The queue, its dead-letter queue and what they hold stay.
p_topic: the topic or pattern that the queue is bound to. p_queue: the queue.
Answers one row with both. No row: there was no such binding and no record of one.
Errors: 22004 for NULL, 22023 for an empty text, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

create function public.event_bus_record(
  "p_queue" text DEFAULT NULL
) RETURNS TABLE (
  "topic" text,
  "queue" text
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_record_wrapper';
alter function public.event_bus_record(text) rows 10;
comment on function public.event_bus_record(text) is
$$Records the bindings that pgmq has and event_bus_subscriptions lacks, such as those that a migration made with pgmq.bind_topic, so that event_bus_check knows what must be there.
p_queue: of this queue only; NULL means of all queues.
Answers one row for each subscription recorded now, by queue and topic.
Errors: 22023 for an empty name, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

create function public.event_bus_check(

) RETURNS TABLE (
  "problem" text,
  "topic" text,
  "queue" text,
  "mend" text,
  "repairable" bool
)
STRICT VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_check_wrapper';
alter function public.event_bus_check() rows 10;
comment on function public.event_bus_check() is
$$Lists what is wrong with the event bus; it changes nothing. Ask it after a restore.
Answers a row for each problem, in the order in which they are to be mended: the problem, the topic where it is about one, the queue, the call or command that mends it, and whether event_bus_repair does so by itself. Problems: pgmq_too_old (older than 1.11.1; nothing else is looked for), pgmq_other_owner (a role that is no superuser owns pgmq and could replace what is called as the extension's owner), missing_queue (a queue that is recorded or bound), missing_table (a queue without its table or its archive), missing_dead_letter_queue (the queue is named), missing_binding (it is recorded, and pgmq has none), unrecorded_subscription (pgmq has a binding of which there is no record), orphaned_dead_letter_queue (its queue is gone), other_owner (a queue's table belongs to another role than the extension's owner; unless that is a superuser, calls have no more than that role's rights there). No row: all is well.
Since 0.2.0.$$;

create function public.event_bus_repair(

) RETURNS TABLE (
  "problem" text,
  "topic" text,
  "queue" text,
  "mend" text
)
STRICT VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_repair_wrapper';
alter function public.event_bus_repair() rows 10;
comment on function public.event_bus_repair() is
$$Mends what event_bus_check lists as repairable: queues, tables and dead-letter queues that are missing are made, and recorded subscriptions that are not bound are bound. No message is lost: a table that is there is taken as it is. It may be called any number of times, also at once from many sessions.
Answers a row for each problem that was mended, as event_bus_check listed it. No row: there was nothing to mend.
Errors: 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

-- Watching.

create function public.hfs_lite_health(

) RETURNS TABLE (
  "area" text,
  "name" text,
  "metric" text,
  "value" double precision,
  "unit" text
)
STRICT VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'hfs_lite_health_wrapper';
-- Watching. The views run with the rights of the extension's owner, so SELECT on a view is all that a person needs.

alter function public.hfs_lite_health() rows 30;
-- Its numbers come from indexes, whatever the planner thinks that a scan would save.
alter function public.hfs_lite_health() set enable_seqscan = off;
alter function public.hfs_lite_health() set enable_bitmapscan = off;
comment on function public.hfs_lite_health() is
$$Says how the work stands: what waits, runs, is stuck or dead, and since when. It reads no more than 10,000 index entries for a number, so a count of 10,000 means that many or more, and it answers in a moment whatever the size of the tables.
Answers rows of area, name, metric, value and unit, always in one order. area jobs: running, lease_ended (running, and the lease is over), failed, oldest_failed_age, to_sweep (done, and older than hfs_lite.retain_jobs). area queue: waiting, oldest_waiting_age, to_sweep (sent, and older than hfs_lite.retain_queue). area inbox: incomplete (receipts claimed more than a minute ago that have no outcome), oldest_incomplete_age. area event_bus, for each queue by name: visible, in_flight (hidden), oldest_age, dead (in its dead-letter queue; no row where it has none). Each also dead_tuples, as PostgreSQL's statistics have them. Ages are in seconds; NULL where there is nothing.
Since 0.2.0.$$;

create function public.hfs_lite_age(
  "p_instant" timestamptz,
  "p_now" timestamptz DEFAULT NULL
) RETURNS text
VOLATILE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'hfs_lite_age_wrapper';
comment on function public.hfs_lite_age(timestamptz, timestamptz) is
$$The time since an instant, or until it, in words: the largest unit that fits, as in '3 minutes', '1 day' and 'in 2 hours'.
p_instant: the instant. p_now: the caller's instant; NULL means the database's clock.
Answers the words; NULL for a NULL or an infinite p_instant.
Errors: 22023 for an infinite p_now.
Since 0.2.0.$$;

create view public.hfs_lite_jobs as
select j.kind, j.job_key, case when j.status = 'running' and j.lease_expires_at < clock_timestamp() then 'lease ended'
                               else j.status::text end as state,
       j.current_step, j.claimed_by, public.hfs_lite_age(j.lease_expires_at) as lease_end,
       public.hfs_lite_age(j.created_at) as age, public.hfs_lite_age(j.updated_at) as last_write, j.error, j.fencing_token, j.id
  from public.jobs j;
comment on view public.hfs_lite_jobs is
  'The jobs, for people: state is running, lease ended, failed or done; lease_end, age and last_write are in words.';

create view public.hfs_lite_outbox as
select q.queue, case when q.sent_at is null then 'waiting' else 'sent' end as state, public.hfs_lite_age(q.created_at) as age,
       public.hfs_lite_age(q.sent_at) as sent, q.correlation_id, q.payload, q.created_at, q.id
  from public.queue q;
comment on view public.hfs_lite_outbox is
  'The outbox, for people: state is waiting or sent; age and sent are in words.';

create view public.hfs_lite_dead_letters as
select d.queue, d.msg_id, d.reason, d.attempts, public.hfs_lite_age(d.enqueued_at) as age,
       public.hfs_lite_age(d.buried_at) as buried, d.message, d.headers
  from public.event_bus_all_dead_letters(10000) d;
comment on view public.hfs_lite_dead_letters is
  'The dead letters of all consumers, for people: at most 10,000 of each queue; age (since the first enqueueing) and buried are in words.';

-- Doors.

comment on function public.hfs_lite_grant(name, text) is
$$Gives a role what it needs to call the functions: EXECUTE, and nothing on any table or on schema pgmq. It may be called any number of times.
p_role: the role. p_as: 'application' (the functions that applications call), 'operator' (those too that maintain and watch, and SELECT on the views) or 'monitor' (only those that watch, which change nothing, and the views).
Answers nothing.
Errors: 22004 for NULL, 22023 for another kind, and for anon, authenticated and roles that they are members of, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
Since 0.1.0.$$;

comment on function public.hfs_lite_revoke(name) is
$$Takes all rights on the functions and views back from a role. It may be called any number of times.
p_role: the role.
Answers nothing.
Errors: 22004 for NULL, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
Since 0.1.0.$$;

-- What is dumped, and who may do what.
select pg_catalog.pg_extension_config_dump('public.event_bus_subscriptions', '');

-- Nobody but the owner has a right on what is new: not PUBLIC, nor the roles of ALTER DEFAULT PRIVILEGES. Operators get theirs by
-- hfs_lite_grant after the update: what this script would grant counts as the extension's own, and pg_dump would leave it out.
do $$
declare
  new_one record;
begin
  for new_one in
    select case when p.oid is not null then 'function ' || p.oid::pg_catalog.regprocedure
                else 'table ' || c.oid::pg_catalog.regclass end as name,
           coalesce(pg_catalog.quote_ident(r.rolname), 'public') as grantee
      from pg_catalog.pg_depend d
      join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
      left join pg_catalog.pg_proc p on d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and p.oid = d.objid
      left join pg_catalog.pg_class c on d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and c.oid = d.objid
     cross join lateral (
       select distinct a.grantee
         from pg_catalog.aclexplode(case when p.oid is not null
                                         then coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner)) else c.relacl end) a
        where a.grantee <> coalesce(p.proowner, c.relowner)) a
      left join pg_catalog.pg_roles r on r.oid = a.grantee
     where d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype = 'e'
       and (p.proname in ('jobs_sweep', 'queue_sweep', 'inbox_sweep_events', 'event_bus_unsubscribe', 'event_bus_record',
                          'event_bus_check', 'event_bus_repair', 'event_bus_all_dead_letters', 'event_bus_sweep',
                          'hfs_lite_health', 'hfs_lite_age')
            or c.relname in ('event_bus_subscriptions', 'hfs_lite_jobs', 'hfs_lite_outbox', 'hfs_lite_dead_letters'))
  loop
    execute pg_catalog.format('revoke all on %s from %s', new_one.name, new_one.grantee);
  end loop;
end $$;
