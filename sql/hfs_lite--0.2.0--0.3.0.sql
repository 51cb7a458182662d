-- From 0.2.0 to 0.3.0: set operations, heartbeats, and an index of the bindings.

-- Nothing that somebody made in schema public gets into what is made here.
set local search_path = pg_catalog, pg_temp;

-- What is new must find its names free. A function of one of them is in the way whatever its arguments are: callers send
-- arguments without types.
do $$
declare
  in_the_way text;
begin
  select string_agg(pg_describe_object('pg_proc'::regclass, oid, 0), E'\n'
                    order by pg_describe_object('pg_proc'::regclass, oid, 0) collate "C")
    into in_the_way
    from pg_proc
   where pronamespace = 'public'::regnamespace
     and proname in ('event_bus_archive_many', 'event_bus_extend', 'event_bus_send_many',
                     'inbox_claim_events', 'job_claim_many', 'job_complete_many',
                     'job_fail_many', 'job_heartbeat', 'queue_write_many');
  if in_the_way is not null then
    raise exception using
      errcode = '55000',
      message = 'schema public holds objects of names that are hfs_lite''s from 0.3.0 on',
      detail = in_the_way,
      hint = 'Rename or drop them, and update again.';
  end if;
end $$;

comment on table public.jobs is
  'Fenced jobs, one row each. Written by the functions of fenced jobs only.';
comment on column public.jobs.updated_at is 'The instant of the last write; a heartbeat leaves it as it is.';
comment on table public.queue is
  'The outbox: rows written by queue_write and queue_write_many in business transactions, and taken by a relay with queue_waiting and queue_mark_sent.';

create function public.job_claim_many(
  "p_kind" varchar,
  "p_job_keys" varchar[],
  "p_worker" varchar,
  "p_lease_end" timestamptz,
  "p_payloads" jsonb[],
  "p_now" timestamptz
) RETURNS TABLE (
  "job_key" varchar,
  "id" uuid,
  "kind" varchar,
  "fencing_token" bigint,
  "current_step" varchar,
  "payload" jsonb
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'job_claim_many_wrapper';
alter function public.job_claim_many(varchar, varchar[], varchar, timestamptz, jsonb[], timestamptz) rows 100;
-- Each item is a look by its key, and never a scan, whatever the planner thinks of how large the table is.
alter function public.job_claim_many(varchar, varchar[], varchar, timestamptz, jsonb[], timestamptz) set enable_seqscan = off;
alter function public.job_claim_many(varchar, varchar[], varchar, timestamptz, jsonb[], timestamptz) set enable_bitmapscan = off;
comment on function public.job_claim_many(varchar, varchar[], varchar, timestamptz, jsonb[], timestamptz) is
$$Claims many jobs of one kind by their keys, each as job_claim does, in one call: what is new, failed or has a lease that ended is the worker's, under one lease.
p_kind: what kind of jobs, 1 to 200 characters; a stored kind stays. p_job_keys: the jobs' keys, at most 10,000, each of 1 to 200 characters; of equal ones the first counts. p_worker: who claims, 1 to 200 characters. p_lease_end: when the leases end, later than p_now. p_payloads: one for each key, stored at the first claim only. p_now: the caller's instant; NULL means the database's clock.
Answers one row for each job that was claimed, in no order: its key, and what job_claim answers. A key without a row is done, or somebody holds a live lease. No row: none was claimed.
Errors: 22004 for NULL, also inside an array, 22023 for an empty text, an infinite instant, a lease that does not end after p_now, arrays of two lengths, of more than one dimension or of more than 10,000 elements, 22001 for text over its width; a message names the element as p_job_keys[3], counted from 1. 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

create function public.job_heartbeat(
  "p_id" uuid,
  "p_token" bigint,
  "p_lease_end" timestamptz,
  "p_now" timestamptz
) RETURNS TABLE (
  "id" uuid,
  "lease_expires_at" timestamptz
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'job_heartbeat_wrapper';
alter function public.job_heartbeat(uuid, bigint, timestamptz, timestamptz) rows 1;
comment on function public.job_heartbeat(uuid, bigint, timestamptz, timestamptz) is
$$Prolongs the lease of a running job, if the caller still holds it; also where the lease has ended and nobody has taken the job over. A lease never becomes shorter by it.
p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_lease_end: when the lease is to end, later than p_now. p_now: the caller's instant; NULL means the database's clock.
Answers one row with the id and the instant at which the lease ends now: p_lease_end, or what it was where that is later. No row: the token is no longer the job's, or the job is not running; nothing changed, and the caller must stop.
Errors: 22004 for NULL, 22023 for a token below 1, an infinite instant or a lease that does not end after p_now, 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

create function public.job_complete_many(
  "p_ids" uuid[],
  "p_tokens" bigint[],
  "p_now" timestamptz
) RETURNS TABLE (
  "id" uuid,
  "verdict" text
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'job_complete_many_wrapper';
alter function public.job_complete_many(uuid[], bigint[], timestamptz) rows 100;
-- Each item is a look by its key, and never a scan, whatever the planner thinks of how large the table is.
alter function public.job_complete_many(uuid[], bigint[], timestamptz) set enable_seqscan = off;
alter function public.job_complete_many(uuid[], bigint[], timestamptz) set enable_bitmapscan = off;
comment on function public.job_complete_many(uuid[], bigint[], timestamptz) is
$$Ends many running jobs as done in one call, each as job_complete does: if the caller still holds it by its token.
p_ids: the jobs' ids, at most 10,000. p_tokens: the fencing token of each, 1 or more. p_now: the caller's instant; NULL means the database's clock.
Answers one row for each item, in their order: the id and a verdict. done: this call ended the job. stale: the token is no longer the job's, or the job is not running; nothing changed there. unknown: there is no such job. Equal items have one verdict.
Errors: 22004 for NULL, also inside an array, 22023 for a token below 1, an infinite instant, arrays of two lengths, of more than one dimension or of more than 10,000 elements; a message names the element as p_tokens[3], counted from 1. 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

create function public.job_fail_many(
  "p_ids" uuid[],
  "p_tokens" bigint[],
  "p_reasons" text[],
  "p_now" timestamptz
) RETURNS TABLE (
  "id" uuid,
  "verdict" text
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'job_fail_many_wrapper';
alter function public.job_fail_many(uuid[], bigint[], text[], timestamptz) rows 100;
-- Each item is a look by its key, and never a scan, whatever the planner thinks of how large the table is.
alter function public.job_fail_many(uuid[], bigint[], text[], timestamptz) set enable_seqscan = off;
alter function public.job_fail_many(uuid[], bigint[], text[], timestamptz) set enable_bitmapscan = off;
alter function public.job_fail_many(uuid[], bigint[], text[], timestamptz) set enable_hashjoin = off;
alter function public.job_fail_many(uuid[], bigint[], text[], timestamptz) set enable_mergejoin = off;
alter function public.job_fail_many(uuid[], bigint[], text[], timestamptz) set enable_material = off;
alter function public.job_fail_many(uuid[], bigint[], text[], timestamptz) set enable_memoize = off;
comment on function public.job_fail_many(uuid[], bigint[], text[], timestamptz) is
$$Ends attempts at many running jobs as failed in one call, each as job_fail does: if the caller still holds it by its token.
p_ids: the jobs' ids, at most 10,000. p_tokens: the fencing token of each, 1 or more. p_reasons: why, one for each item; NULL for none at all. NULL and any text are accepted inside it, and what is longer than 10,000 characters is cut there and ends in a mark that says so; of equal items the first one's is kept. p_now: the caller's instant; NULL means the database's clock.
Answers one row for each item, in their order: the id and a verdict. done: this call failed the job. stale: the token is no longer the job's, or the job is not running; nothing changed there. unknown: there is no such job. Equal items have one verdict.
Errors: 22004 for NULL ids or tokens, also inside the arrays, 22023 for a token below 1, an infinite instant, arrays of two lengths, of more than one dimension or of more than 10,000 elements; a message names the element as p_tokens[3], counted from 1. 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

create function public.queue_write_many(
  "p_queue" varchar,
  "p_payloads" jsonb[],
  "p_created_at" timestamptz,
  "p_correlation_id" varchar
) RETURNS TABLE (
  "id" uuid
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'queue_write_many_wrapper';
alter function public.queue_write_many(varchar, jsonb[], timestamptz, varchar) rows 100;
comment on function public.queue_write_many(varchar, jsonb[], timestamptz, varchar) is
$$Writes many rows into the outbox in one call, each as queue_write does. A relay takes them in the order in which they were passed.
p_queue: where they are to be carried, 1 to 200 characters. p_payloads: what is to be carried, at most 10,000. p_created_at: the rows' instant; NULL means the database's clock. p_correlation_id: that of all of them: NULL, or 1 to 200 characters without control characters (Unicode's category Cc).
Answers the ids of the rows, in the order of the payloads.
Errors: 22004 for a NULL queue or payload, 22023 for an empty text, a control character, an infinite instant, an array of more than one dimension or of more than 10,000 elements, 22001 for text over its width; a message names the element as p_payloads[3], counted from 1.
Since 0.3.0.$$;

create function public.inbox_claim_events(
  "p_source" text,
  "p_event_ids" text[]
) RETURNS TABLE (
  "event_id" text
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'inbox_claim_events_wrapper';
alter function public.inbox_claim_events(text, text[]) rows 100;
comment on function public.inbox_claim_events(text, text[]) is
$$Claims many deliveries of one source in one call, each as inbox_claim_event does. Claim them in the transaction that does the work, so that all of it is committed or none.
p_source: the door they came in through, 1 to 200 characters. p_event_ids: the deliveries' ids, at most 10,000, each of 1 to 200 characters.
Answers the ids of those that were not claimed before, in the order in which they were passed, each once however often it was passed. No row: all of them were claimed before. A repeat during another's open transaction waits for it, and claims if that was rolled back.
Errors: 22004 for NULL, also inside the array, 22023 for an empty text, an array of more than one dimension or of more than 10,000 elements, 22001 for text over its width; a message names the element as p_event_ids[3], counted from 1. 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

create function public.event_bus_send_many(
  "p_topic" text,
  "p_envelopes" jsonb[]
) RETURNS TABLE (
  "queues" INT
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_send_many_wrapper';
alter function public.event_bus_send_many(text, jsonb[]) rows 1;
comment on function public.event_bus_send_many(text, jsonb[]) is
$$Sends many envelopes to every queue bound to a topic, in the caller's transaction; each as event_bus_send does. All of them are checked before any is sent, and a queue has them in the order in which they were passed.
p_topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters. p_envelopes: at most 10,000, each as event_bus_send takes it.
Answers one row with the number of queues that they were sent to; 0 where none is bound. No row: the array was empty. A bound queue whose table is gone is passed over with a warning (42P01).
Errors: 22004 for NULL, also inside the array, 22023 for a topic or an envelope that breaks these rules, an array of more than one dimension or of more than 10,000 elements, 22001 for a topic over its width; a message names the element as p_envelopes[3], counted from 1.
Since 0.3.0.$$;

create function public.event_bus_archive_many(
  "p_queue" text,
  "p_msg_ids" bigint[],
  "p_read_cts" integer[]
) RETURNS TABLE (
  "msg_id" bigint,
  "verdict" text
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_archive_many_wrapper';
alter function public.event_bus_archive_many(text, bigint[], integer[]) rows 100;
-- Each item is a look by its key, and never a scan, whatever the planner thinks of how large the table is.
alter function public.event_bus_archive_many(text, bigint[], integer[]) set enable_seqscan = off;
alter function public.event_bus_archive_many(text, bigint[], integer[]) set enable_bitmapscan = off;
comment on function public.event_bus_archive_many(text, bigint[], integer[]) is
$$Ends many messages as handled in one call, each as event_bus_archive does: if this delivery still holds it.
p_queue: any queue that pgmq has. p_msg_ids: the messages' ids, at most 10,000. p_read_cts: the read_ct of each one's delivery.
Answers one row for each item, in their order: the message's id and a verdict. done: this call archived it. stale: a later delivery holds it. unknown: it is not in the queue (any more). Equal items have one verdict. What another call takes while this one waits for it may answer stale.
Errors: 22004 for NULL, also inside an array, 22023 for an empty name, arrays of two lengths, of more than one dimension or of more than 10,000 elements; a message names the element as p_msg_ids[3], counted from 1. 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

create function public.event_bus_extend(
  "p_queue" text,
  "p_msg_id" bigint,
  "p_read_ct" INT,
  "p_vt" INT
) RETURNS TABLE (
  "msg_id" bigint,
  "vt" timestamptz
)
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'event_bus_extend_wrapper';
alter function public.event_bus_extend(text, bigint, integer, integer) rows 1;
comment on function public.event_bus_extend(text, bigint, integer, integer) is
$$Hides a message for longer, if this delivery still holds it; also where its timeout has ended and nobody has read it since. A message never becomes visible earlier by it.
p_queue: any queue that pgmq has. p_msg_id: the message's id. p_read_ct: the read_ct of the delivery that works on it. p_vt: for how many seconds from now on, 0 or more.
Answers one row with the message's id and vt (until when it is hidden now). No row: it is gone, or a later delivery holds it; the caller must stop.
Errors: 22004 for NULL, 22023 for an empty name or a timeout below 0, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

-- Nobody but the owner has a right on what is new: not PUBLIC, nor the roles of ALTER DEFAULT PRIVILEGES. Roles get theirs by
-- hfs_lite_grant after the update: what this script would grant counts as the extension's own, and pg_dump would leave it out.
do $$
declare
  new_one record;
begin
  for new_one in
    select p.oid::pg_catalog.regprocedure as name, coalesce(pg_catalog.quote_ident(r.rolname), 'public') as grantee
      from pg_catalog.pg_depend d
      join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
      join pg_catalog.pg_proc p on d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and p.oid = d.objid
     cross join lateral (
       select distinct a.grantee
         from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
        where a.grantee <> p.proowner) a
      left join pg_catalog.pg_roles r on r.oid = a.grantee
     where d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype = 'e'
       and p.proname in ('event_bus_archive_many', 'event_bus_extend', 'event_bus_send_many',
                         'inbox_claim_events', 'job_claim_many', 'job_complete_many',
                         'job_fail_many', 'job_heartbeat', 'queue_write_many')
  loop
    execute pg_catalog.format('revoke all on function %s from %s', new_one.name, new_one.grantee);
  end loop;
end $$;

-- What event_bus_send finds a topic's bindings by.
create index hfs_lite_topic_heads_idx on pgmq.topic_bindings (
  (pg_catalog.regexp_replace(pg_catalog.translate(pattern, '#', '*'), '[*].*', '*') collate "C"));
alter index pgmq.hfs_lite_topic_heads_idx depends on extension hfs_lite;
