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
  'Fenced jobs, one row each. Written by job_claim, job_advance, job_complete and job_fail only.';
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
comment on column public.jobs.updated_at is 'The instant of the last write.';

alter function public.job_claim(varchar, varchar, varchar, timestamptz, jsonb, timestamptz) rows 1;
comment on function public.job_claim(varchar, varchar, varchar, timestamptz, jsonb, timestamptz) is
$$Claims a job by its key, or claims it again after it failed or its lease ended, in one atomic step.
p_kind: what kind of job, 1 to 200 characters; a stored kind stays. p_job_key: the job's key, 1 to 200 characters. p_worker: who claims, 1 to 200 characters. p_lease_end: when the lease ends, later than p_now. p_payload: stored at the first claim only. p_now: the caller's instant; NULL means the database's clock.
Answers one row: the id, the stored kind, the fencing token (1 for a new job, one more at every further claim), the stored step and payload. No row: the job is done, or somebody holds a live lease.
Errors: 22004 for NULL, 22023 for an empty text, an infinite instant or a lease that does not end after p_now, 22001 for text over its width, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

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
