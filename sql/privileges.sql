-- Last: what is dumped, and who may do what. Nothing in a schema that others can write to is to be called by mistake.
set local search_path = pg_catalog, pg_temp;

-- The rows of an extension's tables are only part of a dump if the extension says so.
select pg_extension_config_dump('public.jobs', '');
select pg_extension_config_dump('public.job_ticks', '');
select pg_extension_config_dump('public.queue', '');
select pg_extension_config_dump('public.inbox', '');
select pg_extension_config_dump('public.event_bus_subscriptions', '');

-- Nobody but the owner has any right at first: neither PUBLIC, nor the roles that a database's ALTER DEFAULT PRIVILEGES hands
-- every new table and function to.
do $$
declare
  member record;
begin
  for member in
    select case d.classid when 'pg_proc'::regclass then 'function ' || p.oid::regprocedure
                          else 'table ' || c.oid::regclass end as name,
           coalesce(quote_ident(r.rolname), 'public') as grantee
      from pg_catalog.pg_depend d
      join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
      left join pg_catalog.pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
      left join pg_catalog.pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid and c.relkind in ('r', 'v')
     cross join lateral (
       select distinct a.grantee
         from aclexplode(case d.classid when 'pg_proc'::regclass then coalesce(p.proacl, acldefault('f', p.proowner))
                                        else c.relacl end) a
        where a.grantee <> coalesce(p.proowner, c.relowner)) a
      left join pg_catalog.pg_roles r on r.oid = a.grantee
     where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
  loop
    execute format('revoke all on %s from %s', member.name, member.grantee);
  end loop;
end $$;

-- The back end's role, where there is one, gets its rights at once.
select public.hfs_lite_grant(rolname) from pg_catalog.pg_roles where rolname = 'app_be';
