-- Watching. The views run with the rights of the extension's owner, so SELECT on a view is all that a person needs.

alter function public.hfs_lite_health() rows 30;
-- Its numbers come from indexes, whatever the planner thinks that a scan would save.
alter function public.hfs_lite_health() set enable_seqscan = off;
alter function public.hfs_lite_health() set enable_bitmapscan = off;
comment on function public.hfs_lite_health() is
$$Says how the work stands: what waits, runs, is stuck or dead, and since when. It reads no more than 10,000 index entries for a number, so a count of 10,000 means that many or more, and it answers in a moment whatever the size of the tables.
Answers rows of area, name, metric, value and unit, always in one order. area jobs: running, lease_ended (running, and the lease is over), failed, oldest_failed_age, to_sweep (done, and older than hfs_lite.retain_jobs). area queue: waiting, oldest_waiting_age, to_sweep (sent, and older than hfs_lite.retain_queue). area inbox: incomplete (receipts claimed more than a minute ago that have no outcome), oldest_incomplete_age. area event_bus, for each queue by name: visible, in_flight (hidden), oldest_age, dead (in its dead-letter queue; no row where it has none). Each also dead_tuples, as PostgreSQL's statistics have them. Ages are in seconds; NULL where there is nothing.
Since 0.2.0.$$;

comment on function public.hfs_lite_age(timestamptz, timestamptz) is
$$The time since an instant, or until it, in words: the largest unit that fits, as in '3 minutes', '1 day' and 'in 2 hours'.
p_instant: the instant. p_now: the caller's instant; NULL means the database's clock.
Answers the words; NULL for a NULL or an infinite p_instant.
Errors: 22023 for an infinite p_now.
Since 0.2.0.$$;

-- Neither an operator nor a function that somebody made in schema public gets into the views.
set local search_path = pg_catalog, pg_temp;
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
set local search_path = public, pg_temp;
