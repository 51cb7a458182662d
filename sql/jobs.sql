-- Fenced jobs.

-- An operator for varchar that somebody made in schema public would otherwise get into the check of status.
set local search_path = pg_catalog, pg_temp;
create table public.jobs (
  id uuid primary key default pg_catalog.gen_random_uuid(),
  kind varchar(200) not null,
  -- The arbiter of job_claim: two claims of one new key meet here. By it a job is also found to be claimed again.
  job_key varchar(200) not null unique,
  status varchar(16) not null check (status in ('running', 'failed', 'done')),
  current_step varchar(200),
  fencing_token bigint not null check (fencing_token >= 1),
  claimed_by varchar(200),
  lease_expires_at timestamptz,
  payload jsonb not null,
  error text,
  created_at timestamptz not null,
  updated_at timestamptz not null
)
-- A job is updated a few times: room on its page keeps its versions together.
with (fillfactor = 70);
-- What jobs_sweep reads (done jobs, oldest first), and what hfs_lite_health counts running and failed jobs by. Its price: an
-- update of a job is not HOT any more.
create index jobs_status_idx on public.jobs (status, updated_at);
set local search_path = public, pg_temp;
alter table public.jobs enable row level security, force row level security;

comment on table public.jobs is
  'Fenced jobs, one row each. Written by the functions of fenced jobs only.';
comment on column public.jobs.id is 'The job''s id, answered by job_claim; the guarded writes ask for it.';
comment on column public.jobs.kind is 'What kind of job it is: the first claim''s p_kind.';
comment on column public.jobs.job_key is 'The key that callers claim the job by; one job a key, until it is swept.';
comment on column public.jobs.status is 'running, failed or done. Failed jobs, and running ones whose lease ended, can be claimed again.';
comment on column public.jobs.current_step is 'The step that job_advance noted last; kept when the job is claimed again.';
comment on column public.jobs.fencing_token is 'The fencing token: 1 at the first claim, one more at every further one. It never falls.';
comment on column public.jobs.claimed_by is 'The worker that claimed the job last; it stays after the end, as history.';
comment on column public.jobs.lease_expires_at is 'When the lease ends; NULL once the job is done or failed.';
comment on column public.jobs.payload is 'The first claim''s p_payload.';
comment on column public.jobs.error is 'The reason of the last failure; cleared when the job is claimed again.';
comment on column public.jobs.created_at is 'The instant of the first claim.';
comment on column public.jobs.updated_at is 'The instant of the last write; a heartbeat leaves it as it is.';

alter function public.job_claim(varchar, varchar, varchar, timestamptz, jsonb, timestamptz) rows 1;
comment on function public.job_claim(varchar, varchar, varchar, timestamptz, jsonb, timestamptz) is
$$Claims a job by its key, or claims it again after it failed or its lease ended, in one atomic step.
p_kind: what kind of job, 1 to 200 characters; a stored kind stays. p_job_key: the job's key, 1 to 200 characters. p_worker: who claims, 1 to 200 characters. p_lease_end: when the lease ends, later than p_now. p_payload: stored at the first claim only. p_now: the caller's instant; NULL means the database's clock.
Answers one row: the id, the stored kind, the fencing token (1 for a new job, one more at every further claim), the stored step and payload. No row: the job is done, or somebody holds a live lease.
Errors: 22004 for NULL, 22023 for an empty text, an infinite instant or a lease that does not end after p_now, 22001 for text over its width, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

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

alter function public.job_heartbeat(uuid, bigint, timestamptz, timestamptz) rows 1;
comment on function public.job_heartbeat(uuid, bigint, timestamptz, timestamptz) is
$$Prolongs the lease of a running job, if the caller still holds it; also where the lease has ended and nobody has taken the job over. A lease never becomes shorter by it.
p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_lease_end: when the lease is to end, later than p_now. p_now: the caller's instant; NULL means the database's clock.
Answers one row with the id and the instant at which the lease ends now: p_lease_end, or what it was where that is later. No row: the token is no longer the job's, or the job is not running; nothing changed, and the caller must stop.
Errors: 22004 for NULL, 22023 for a token below 1, an infinite instant or a lease that does not end after p_now, 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

alter function public.job_advance(uuid, bigint, varchar, timestamptz) rows 1;
comment on function public.job_advance(uuid, bigint, varchar, timestamptz) is
$$Notes the step that a running job has come to, if the caller still holds it.
p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_step: the step, 1 to 200 characters. p_now: the caller's instant; NULL means the database's clock.
Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed, and the caller must stop.
Errors: 22004 for NULL, 22023 for a token below 1, an empty step or an infinite instant, 22001 for a step over its width, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.job_complete(uuid, bigint, timestamptz) rows 1;
comment on function public.job_complete(uuid, bigint, timestamptz) is
$$Ends a running job as done, if the caller still holds it, and clears its lease. A done job is never claimed again.
p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_now: the caller's instant; NULL means the database's clock.
Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed.
Errors: 22004 for NULL, 22023 for a token below 1 or an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.job_fail(uuid, bigint, text, timestamptz) rows 1;
comment on function public.job_fail(uuid, bigint, text, timestamptz) is
$$Ends an attempt at a running job as failed, if the caller still holds it, and clears its lease; the job may then be claimed again.
p_id: the job's id. p_token: the caller's fencing token, 1 or more. p_reason: why; NULL and any text are accepted, and what is longer than 10,000 characters is cut there and ends in a mark that says so. p_now: the caller's instant; NULL means the database's clock.
Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed.
Errors: 22004 for a NULL id or token, 22023 for a token below 1 or an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

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
