-- Ticks of schedulers.

create table public.job_ticks (
  name varchar(200) not null,
  minute timestamptz not null,
  claimed_at timestamptz not null,
  -- The arbiter of job_tick_claim; read backwards it gives a name's newest minute, forwards its oldest ones, to prune.
  primary key (name, minute)
);
alter table public.job_ticks enable row level security, force row level security;

comment on table public.job_ticks is
  'One row a claimed minute of a scheduler. Written by job_tick_claim only, which also prunes what is two days older than a name''s newest minute.';
comment on column public.job_ticks.name is 'The scheduler''s name.';
comment on column public.job_ticks.minute is 'The minute that was claimed, as its first instant (UTC).';
comment on column public.job_ticks.claimed_at is 'When it was claimed: the caller''s p_now.';

alter function public.job_tick_claim(varchar, timestamptz, timestamptz) rows 1;
comment on function public.job_tick_claim(varchar, timestamptz, timestamptz) is
$$Claims a minute for the scheduler of this name, so that of many that wake at once one runs it.
p_name: the scheduler's name, 1 to 200 characters. p_minute: an instant of the minute; it is cut to the UTC minute. p_now: the caller's instant; NULL means the database's clock.
Answers one row with the name and the minute to the first caller. No row: somebody has that minute, or it is more than 24 hours older than the newest minute claimed under that name. Minutes may be claimed in any order.
Rows more than 48 hours older than the name's newest are deleted in passing, at most 100 a call, once no open transaction can still overlook them.
Errors: 22004 for NULL, 22023 for an empty name or an infinite instant, 22001 for a name over its width, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;
