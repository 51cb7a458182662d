-- First of all: what the extension cannot do without, said in words of its own; then whether its names are free.

-- Until the end of this file nothing is found in a schema that others can write to.
set local search_path = pg_catalog, pg_temp;

do $$
declare
  installed text := (select extversion from pg_catalog.pg_extension where extname = 'pgmq');
begin
  if installed is null or pg_catalog.string_to_array(pg_catalog.substring(installed, '^[0-9.]*[0-9]'), '.')::integer[]
                          < array[1, 11, 1] then
    raise exception using
      errcode = '0A000',
      message = pg_catalog.format('hfs_lite needs pgmq 1.11.1 or newer, and %s is installed',
                                  coalesce('pgmq ' || installed, 'no pgmq')),
      detail = 'Before 1.11.1, the bindings of topics to queues were not part of a dump.',
      hint = 'Install the files of a newer pgmq on the server (they come with its crate, its packages and its repository), '
             'then ALTER EXTENSION pgmq UPDATE, and create hfs_lite again.';
  end if;
  -- Who owns pgmq can replace its functions, and ours call them with the rights of a superuser.
  if exists (select from pg_catalog.pg_extension e join pg_catalog.pg_roles r on r.oid = e.extowner
              where e.extname = 'pgmq' and not r.rolsuper) then
    raise exception using
      errcode = '55000',
      message = 'pgmq belongs to a role that is no superuser',
      detail = 'hfs_lite calls its functions with the rights of a superuser, and their owner can replace them.',
      hint = 'Have a superuser drop extension pgmq and create it again: queues keep their tables, and pgmq.create takes each '
             'with its messages. See docs/security.md.';
  end if;
  if pg_catalog.has_schema_privilege('public', 'public', 'create') then
    raise warning using
      errcode = '01000',
      message = 'every role may create objects in schema public',
      detail = 'Who can do so can make functions of our names that an application''s calls are led to.',
      hint = 'REVOKE CREATE ON SCHEMA public FROM PUBLIC; as databases have it from PostgreSQL 15 on.';
  end if;
  if pg_catalog.getdatabaseencoding() <> 'UTF8' then
    raise exception using
      errcode = '0A000',
      message = pg_catalog.format('hfs_lite needs a database of encoding UTF8, and this one has %s',
                                  pg_catalog.getdatabaseencoding()),
      detail = 'Canonical JSON and the lengths of names are defined on Unicode characters.',
      hint = 'Create the database with ENCODING ''UTF8'' TEMPLATE template0.';
  end if;
end $$;

-- What stands here is set aside while the extension makes its own; take_over.sql puts the two together.
do $$
begin
  if to_regnamespace('hfs_lite_set_aside') is not null then
    raise exception using
      errcode = '55000',
      message = 'hfs_lite needs a schema named hfs_lite_set_aside for a moment, and there is one',
      hint = 'Rename or drop that schema, and create the extension again.';
  end if;
end $$;
create schema hfs_lite_set_aside;
-- What takes time and can be done, or left out, before anything is locked.
load 'MODULE_PATHNAME';
set local jit = off;

do $$
declare
  -- Every name of a table, of another relation, and of a function that this script will make in schema public.
  tables constant name[] := array['event_bus_subscriptions', 'inbox', 'job_ticks', 'jobs', 'queue'];
  relations constant name[] := array[
    'event_bus_subscriptions_pkey', 'hfs_lite_dead_letters', 'hfs_lite_jobs', 'hfs_lite_outbox', 'inbox_kept_idx',
    'inbox_pkey', 'job_ticks_pkey', 'jobs_job_key_key', 'jobs_pkey', 'jobs_status_idx', 'queue_pkey',
    'queue_sent_idx', 'queue_waiting_idx'];
  functions constant name[] := array[
    'canonical_json', 'event_bus_all_dead_letters', 'event_bus_archive', 'event_bus_archive_many', 'event_bus_bury',
    'event_bus_check', 'event_bus_dead_letters', 'event_bus_extend', 'event_bus_read', 'event_bus_record',
    'event_bus_repair', 'event_bus_requeue', 'event_bus_send', 'event_bus_send_many', 'event_bus_subscribe',
    'event_bus_sweep', 'event_bus_unsubscribe', 'hfs_lite_age', 'hfs_lite_grant', 'hfs_lite_health',
    'hfs_lite_revoke', 'inbox_claim_client', 'inbox_claim_event', 'inbox_claim_events', 'inbox_claim_request',
    'inbox_forget', 'inbox_save_client_outcome', 'inbox_sweep_clients', 'inbox_sweep_events', 'job_advance',
    'job_claim', 'job_claim_many', 'job_complete', 'job_complete_many', 'job_fail', 'job_fail_many', 'job_heartbeat',
    'job_tick_claim', 'jobs_sweep', 'queue_mark_sent', 'queue_sweep', 'queue_waiting', 'queue_write',
    'queue_write_many', 'request_fingerprint'];
  adopting constant boolean := coalesce(nullif(current_setting('hfs_lite.adopt', true), ''), 'off');
  in_the_way text;
  locked text;
  elsewhere text;
  command text;
begin
  -- A setting that the owner of the database left behind must not make somebody else's CREATE EXTENSION adopt anything.
  if adopting and exists (
       select from pg_db_role_setting, unnest(setconfig) as setting
        where setting ilike 'hfs_lite.adopt=%'
          and setdatabase in (0, (select oid from pg_database where datname = current_database()))) then
    raise exception using
      errcode = '55000',
      message = 'hfs_lite.adopt is set for a database or a role',
      hint = 'Take it back with ALTER DATABASE or ALTER ROLE ... RESET hfs_lite.adopt, and set it with SET LOCAL in the '
             'transaction that adopts.';
  end if;

  select string_agg(line, E'\n' order by line collate "C")
    into in_the_way
    from (
      select pg_describe_object('pg_class'::regclass, c.oid, 0)
        from pg_class c
        left join pg_index i on i.indexrelid = c.oid
        left join pg_class t on t.oid = i.indrelid
       where c.relnamespace = 'public'::regnamespace and c.relname = any(tables || relations)
         -- When adopting, these are set aside below, the indexes with their tables.
         and not (adopting and (c.relname = any(tables) and c.relkind not in ('i', 'I', 'c')
                                or c.relname = any(relations) and t.oid is not null and t.relname = any(tables)))
      union all
      select pg_describe_object('pg_type'::regclass, t.oid, 0)
        from pg_type t
       where t.typnamespace = 'public'::regnamespace and t.typname = any(tables || relations) and t.typrelid = 0
         and not exists (select from pg_type e where e.typarray = t.oid)
      union all
      select pg_describe_object('pg_proc'::regclass, p.oid, 0)
        from pg_proc p
       where p.pronamespace = 'public'::regnamespace and p.proname = any(functions) and not adopting) as found (line);
  if in_the_way is not null then
    raise exception using
      errcode = '55000',
      message = 'schema public holds objects of names that are hfs_lite''s',
      detail = in_the_way,
      hint = case when adopting
               then 'Rename or drop them, and adopt again.'
               else 'If they are an application''s own, hfs_lite can take them over, with all rows: BEGIN; SET LOCAL '
                    'hfs_lite.adopt = on; CREATE EXTENSION hfs_lite CASCADE; COMMIT; (see docs/adopting.md). If not, '
                    'rename or drop them.'
             end;
  end if;
  if not adopting then
    return;
  end if;

  select string_agg(c.oid::regclass::text, ', ' order by c.relname)
    into locked
    from pg_class c
   where c.relnamespace = 'public'::regnamespace and c.relname = any(tables) and c.relkind in ('r', 'p');
  if locked is not null then
    execute format('lock table %s in access exclusive mode', locked);
  else
    select string_agg(format('ALTER TABLE %s SET SCHEMA public;', c.oid::regclass), ' ' order by c.oid::regclass::text collate "C")
      into elsewhere
      from pg_class c
     where c.relname = any(tables) and c.relkind in ('r', 'p') and c.relpersistence <> 't';
    raise warning using
      message = 'found no table to adopt in schema public',
      detail = 'The extension makes its own tables, without a row.',
      hint = coalesce('If these are the application''s, roll back, do this, and adopt again: ' || elsewhere,
                      'Adopt in the database that holds the application''s tables, or create the extension without hfs_lite.adopt.');
  end if;
  for command in
    select format('alter table %s set schema hfs_lite_set_aside', c.oid::regclass)
      from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relname = any(tables)
    union all
    select format('alter routine %s set schema hfs_lite_set_aside', p.oid::regprocedure)
      from pg_proc p
     where p.pronamespace = 'public'::regnamespace and p.proname = any(functions)
  loop
    execute command;
  end loop;
end $$;

-- pgrx writes the functions without their schema.
set local search_path = public, pg_temp;
