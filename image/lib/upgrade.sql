-- Brings one database to the versions of the files that are installed. :lock_timeout is what is waited for a lock.
-- What the database's owner has set for its sessions does not count. Every call names the types of its arguments: a
-- function of the owner's whose types fit a bare literal better would be called instead, as the superuser.
begin isolation level read committed read write;
set local lock_timeout = :'lock_timeout';

create temporary table outdated on commit drop as
select e.extname as name, e.extversion as was, a.default_version as becomes
  from pg_extension e
  join pg_available_extensions a on a.name = e.extname
 where e.extversion <> a.default_version;

do $$
declare
  stuck text := (
    select string_agg(format('%s %s', o.name, o.was), ', ' order by o.name)
      from outdated o
     where not exists (select from pg_extension_update_paths(o.name) p
                        where p.source = o.was and p.target = o.becomes and p.path is not null));
begin
  if stuck is not null then
    raise exception using
      message = 'no upgrade leads from here to the image''s versions: ' || stuck,
      hint = 'Is the image older than the one that this volume was used with?';
  end if;
end $$;

-- Who had been let in, and as what, by the functions that tell the kinds apart (docs/doors.md).
create temporary table let_in on commit drop as
select role,
       case when 'event_bus_subscribe' = any(functions) then 'operator'
            when 'job_claim' = any(functions) then 'application'
            when 'hfs_lite_health' = any(functions) then 'monitor' end as kind
  from (select r.rolname as role, array_agg(p.proname::text) as functions
          from pg_extension e
          join pg_depend d on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid and d.deptype = 'e'
                          and d.classid = 'pg_proc'::regclass
          join pg_proc p on p.oid = d.objid
         cross join aclexplode(p.proacl) a
          join pg_roles r on r.oid = a.grantee and r.oid <> p.proowner
         where e.extname = 'hfs_lite'
         group by r.rolname) rights;

-- pgmq first: the others may need it.
select format('alter extension %I update', name) from outdated order by name <> 'pgmq', name = 'hfs_lite', name \gexec
select format('%s %s -> %s', name, was, becomes) from outdated order by name <> 'pgmq', name = 'hfs_lite', name;

select exists (select from outdated where name = 'hfs_lite') as hfs_lite_upgraded,
       exists (select from outdated where name = 'hfs_lite' and was = '0.1.0') as record_subscriptions \gset
\if :hfs_lite_upgraded
  select format('select public.hfs_lite_grant(%L::name, %L::text)', role, kind)
    from let_in where kind is not null order by role \gexec
  select 'granted again: ' || string_agg(format('%s (%s)', role, kind), ', ' order by role)
    from let_in where kind is not null having count(*) > 0;
  select 'some functions only, left as it is: ' || role from let_in where kind is null order by role;
\endif
\if :record_subscriptions
  select format('%s subscriptions recorded', count(*)) from public.event_bus_record(null::text);
\endif
select 'nothing to do' where not exists (select from outdated);
commit;

-- What only its administrator can judge.
select format('collation of the database was %s, is %s: REINDEX it, then ALTER DATABASE ... REFRESH COLLATION VERSION',
              datcollversion, pg_database_collation_actual_version(oid))
  from pg_database
 where datname = current_database() and datcollversion <> pg_database_collation_actual_version(oid);
