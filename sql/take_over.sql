-- Adoption: each table that was set aside is compared with the one that this script has just made, by the catalog, so
-- that the other files here stay the only description of a table. Where all can be taken over, each is brought to that
-- form and put into its place; where anything can't, all that differs is said at once, and nothing has changed.
-- Where nothing was set aside, every view here is empty.
set local search_path = pg_catalog, pg_temp;

-- ---------------------------------------------------------------------------------------------------------------------
-- What there is: `theirs` is the application's, `ours` what this script made. Materialized, since the tables are locked by now
-- and the catalog takes its time.
-- ---------------------------------------------------------------------------------------------------------------------

create materialized view hfs_lite_set_aside.members as
select d.classid, d.objid
  from pg_depend d
  join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
 where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e';

-- `obstacle` says why a relation is no table that could be taken over; `mend`, how it becomes one.
create materialized view hfs_lite_set_aside.relations as
select format('public.%I', c.relname) as title, h.oid as theirs, c.oid as ours, o.obstacle, o.mend
  from hfs_lite_set_aside.members m
  join pg_class c on m.classid = 'pg_class'::regclass and c.oid = m.objid and c.relkind = 'r'
  join pg_class h on h.relname = c.relname and h.relnamespace = 'hfs_lite_set_aside'::regnamespace
  left join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = h.oid and d.deptype = 'e'
  left join pg_extension e on e.oid = d.refobjid
 cross join lateral (
   select case
            when h.relkind <> 'r' then format('is a %s, not a table', case h.relkind
              when 'v' then 'view' when 'm' then 'materialized view' when 'p' then 'partitioned table'
              when 'f' then 'foreign table' when 'S' then 'sequence' else 'relation of another kind' end)
            when h.relispartition then 'is a partition'
            when exists (select from pg_inherits where inhrelid = h.oid) then 'inherits from another table'
            when exists (select from pg_inherits where inhparent = h.oid) then 'has tables that inherit from it'
            when h.reloftype <> 0 then 'is a typed table'
            when h.relpersistence <> 'p' then 'is unlogged'
            when h.relam <> c.relam then 'has another access method'
            when e.oid is not null then format('belongs to extension %I', e.extname)
          end,
          case
            when h.relkind in ('v', 'm') then
              format('ALTER %s public.%I RENAME TO %I', case h.relkind when 'v' then 'VIEW' else 'MATERIALIZED VIEW' end,
                     h.relname, h.relname || '_old')
            when h.relkind = 'S' then format('ALTER SEQUENCE public.%I RENAME TO %I', h.relname, h.relname || '_old')
            when h.relispartition then
              (select format('ALTER TABLE %s DETACH PARTITION public.%I', inhparent::regclass, h.relname)
                 from pg_inherits where inhrelid = h.oid)
            when h.reloftype <> 0 then format('ALTER TABLE public.%I NOT OF', h.relname)
            when h.relpersistence <> 'p' then format('ALTER TABLE public.%I SET LOGGED', h.relname)
            when e.oid is not null then format('ALTER EXTENSION %I DROP TABLE public.%I', e.extname, h.relname)
            else 'copy its rows into an ordinary table of that name'
          end) as o (obstacle, mend);

create materialized view hfs_lite_set_aside.tables as
select title, theirs, ours from hfs_lite_set_aside.relations where obstacle is null;

create materialized view hfs_lite_set_aside.sides as
select title, theirs as id, false as is_ours from hfs_lite_set_aside.tables
union all
select title, ours, true from hfs_lite_set_aside.tables;

create materialized view hfs_lite_set_aside.columns as
select s.title, s.is_ours, a.attname as name, a.atttypid as type_id, a.attnotnull as is_not_null,
       a.attidentity <> '' or a.attgenerated <> '' as is_computed,
       format_type(a.atttypid, a.atttypmod)
         || case when a.attcollation <> t.typcollation then ' COLLATE ' || a.attcollation::regcollation else '' end as type,
       pg_get_expr(d.adbin, d.adrelid) as value, col_description(a.attrelid, a.attnum) as comment
  from hfs_lite_set_aside.sides s
  join pg_attribute a on a.attrelid = s.id and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum;

create materialized view hfs_lite_set_aside.indexes as
select s.title, s.is_ours, i.indexrelid as id, c.relname as name, k.contype, i.indisunique as is_unique,
       i.indisvalid and i.indisready and i.indislive and i.indimmediate as is_usable,
       -- All but the names of the index and of its table.
       i.indisunique || substring(pg_get_indexdef(i.indexrelid) from ' USING .*$') as definition
  from hfs_lite_set_aside.sides s
  join pg_index i on i.indrelid = s.id
  join pg_class c on c.oid = i.indexrelid
  left join pg_constraint k on k.conindid = i.indexrelid and k.conrelid = i.indrelid;

-- A check that went through a dump may read in another way, and is the same.
do $$
declare
  command text;
begin
  for command in
    select format('create table hfs_lite_set_aside.%I (like %s)', 'restored_' || c.relname, c.oid::regclass)
      from hfs_lite_set_aside.tables t
      join pg_class c on c.oid = t.ours
    union all
    select format('alter table hfs_lite_set_aside.%I add constraint %I %s', 'restored_' || c.relname, k.conname,
                  pg_get_constraintdef(k.oid))
      from hfs_lite_set_aside.tables t
      join pg_class c on c.oid = t.ours
      join pg_constraint k on k.conrelid = t.ours and k.contype = 'c'
  loop
    execute command;
  end loop;
end $$;

-- Checks, and from PostgreSQL 18 on NOT NULL, which is a constraint there too.
create materialized view hfs_lite_set_aside.constraints as
select s.title, s.is_ours, k.oid as id, k.conname as name, k.contype, k.conrelid, k.conkey, k.convalidated as is_valid,
       regexp_replace(pg_get_constraintdef(k.oid), ' NOT VALID$', '') as definition, pg_get_constraintdef(r.oid) as restored
  from hfs_lite_set_aside.sides s
  join pg_constraint k on k.conrelid = s.id and k.contype in ('c', 'n')
  left join pg_class c on c.relnamespace = 'hfs_lite_set_aside'::regnamespace
                      and c.relname = (select 'restored_' || relname from pg_class where oid = s.id)
  left join pg_constraint r on r.conrelid = c.oid and r.conname = k.conname;

-- Each index and each constraint of ours, and theirs of the same definition, whatever it is called.
create materialized view hfs_lite_set_aside.index_pairs as
select o.*, h.id as their_id, h.name as their_name, h.contype as their_contype
  from hfs_lite_set_aside.indexes o
  left join lateral (
    select * from hfs_lite_set_aside.indexes h
     where not h.is_ours and h.title = o.title and h.definition = o.definition and h.is_usable
     order by h.contype is not distinct from o.contype desc, h.name = o.name desc, h.name
     limit 1) as h on true
 where o.is_ours;

create materialized view hfs_lite_set_aside.constraint_pairs as
select o.*, h.id as their_id, h.name as their_name
  from hfs_lite_set_aside.constraints o
  left join lateral (
    select * from hfs_lite_set_aside.constraints h
     where not h.is_ours and h.title = o.title and h.contype = o.contype and h.definition in (o.definition, o.restored)
     order by h.name = o.name desc, h.is_valid desc, h.name
     limit 1) as h on true
 where o.is_ours;

-- Over this size of its table, in bytes, an index is not built while everybody waits: 32 MB take some tenths of a second.
create view hfs_lite_set_aside.missing_indexes as
select p.title, p.name, pg_get_indexdef(p.id) as build,
       regexp_replace(pg_get_indexdef(p.id), ' INDEX ', ' INDEX CONCURRENTLY ') as build_concurrently,
       pg_relation_size(t.theirs) < 32 * 1024 * 1024 as is_quick
  from hfs_lite_set_aside.index_pairs p
  join hfs_lite_set_aside.tables t using (title)
 where p.their_id is null;

-- `ours` replaces theirs where name and arguments are the same; `rival` is one that a call could not be told from.
create view hfs_lite_set_aside.functions as
select p.oid as theirs, replace(p.oid::regprocedure::text, 'hfs_lite_set_aside.', 'public.') as title, p.proname as name,
       p.proowner, p.proacl, min(o.oid) filter (where o.proargtypes = p.proargtypes) as ours,
       min(o.oid) filter (where p.pronargs - p.pronargdefaults <= o.pronargs
                            and (o.pronargs - o.pronargdefaults <= p.pronargs or p.provariadic <> 0)) as rival
  from pg_proc p
  join hfs_lite_set_aside.members m on m.classid = 'pg_proc'::regclass
  join pg_proc o on o.oid = m.objid and o.proname = p.proname
 where p.pronamespace = 'hfs_lite_set_aside'::regnamespace
 group by p.oid;

-- Foreign keys by which deleting a row of ours writes other tables. Before PostgreSQL 18, AFTER triggers there run as whoever
-- deleted: the extension's owner.
create view hfs_lite_set_aside.cascades as
with recursive reached as (
  select t.title, k.oid as part_id, k.conrelid as written
    from hfs_lite_set_aside.tables t
    join pg_constraint k on k.confrelid = t.theirs and k.contype = 'f' and k.conparentid = 0 and k.confdeltype in ('c', 'n', 'd')
   where current_setting('server_version_num')::integer < 180000
  union
  select r.title, r.part_id, e.written
    from reached r
   cross join lateral (
     select conrelid from pg_constraint
      where confrelid = r.written and contype = 'f' and (confdeltype in ('c', 'n', 'd') or confupdtype in ('c', 'n', 'd'))
      union all select inhrelid from pg_inherits where inhparent = r.written) as e (written))
select * from reached;

-- Functions, operators and types of somebody who is no superuser, in whatever runs when a row of a table is written.
-- The extension's functions write as its owner, a superuser, and would lend them that right.
create view hfs_lite_set_aside.lent_rights as
with recursive parts as (
  select t.title, p.classid, p.id
    from hfs_lite_set_aside.tables t
   cross join lateral (
     select 'pg_trigger'::regclass, oid from pg_trigger where tgrelid = t.theirs and not tgisinternal
      union all select 'pg_constraint'::regclass, oid from pg_constraint where conrelid = t.theirs and contype <> 'f'
      union all select 'pg_attrdef'::regclass, oid from pg_attrdef where adrelid = t.theirs
      union all select 'pg_class'::regclass, indexrelid from pg_index where indrelid = t.theirs
      union all select 'pg_statistic_ext'::regclass, oid from pg_statistic_ext where stxrelid = t.theirs) as p (classid, id)
  union all
  select c.title, 'pg_trigger'::regclass, g.oid
    from hfs_lite_set_aside.cascades c
    join pg_trigger g on g.tgrelid = c.written and not g.tgisinternal),
  needed as (
  select title, classid as part_class, id as part_id, classid::oid, id from parts
  union
  -- Of what came with PostgreSQL itself, pg_depend keeps nothing: the walk ends there.
  select n.title, n.part_class, n.part_id, e.classid, e.id
    from needed n
   cross join lateral (
     select refclassid, refobjid from pg_depend where classid = n.classid and objid = n.id
      -- What runs with a type or an operator class though it is made after it: checks of a domain, casts (to_jsonb looks for
      -- one), the operators that compare. And what runs when a view is read.
      union all
      select classid, objid from pg_depend
       where refclassid = n.classid and refobjid = n.id
         and (classid in ('pg_cast'::regclass, 'pg_opclass'::regclass, 'pg_amop'::regclass, 'pg_amproc'::regclass)
              or (refclassid, classid) in (('pg_type'::regclass, 'pg_constraint'::regclass),
                                           ('pg_class'::regclass, 'pg_rewrite'::regclass)) and deptype <> 'n')
      -- The row type of a table leads to its columns; a composite type is found the other way round.
      union all
      select 'pg_class'::regclass, typrelid from pg_type where n.classid = 'pg_type'::regclass and oid = n.id and typrelid <> 0
      -- Which the planner puts in the place of an operator.
      union all
      select 'pg_operator'::regclass, other
        from pg_operator cross join lateral (values (oprcom), (oprnegate)) as o (other)
       where n.classid = 'pg_operator'::regclass and oid = n.id and other <> 0) as e (classid, id))
select n.title, n.part_class, n.part_id, n.classid, n.id, r.rolname as owner, p.prosecdef as is_definer,
       -- A row type belongs to whom its table belongs to.
       case when c.relkind <> 'c' then c.oid end as row_of
  from needed n
  left join pg_proc p on n.classid = 'pg_proc'::regclass and p.oid = n.id
  left join pg_operator o on n.classid = 'pg_operator'::regclass and o.oid = n.id
  -- An array or a multirange is no more than the type that it is of, and the adopted tables' own row types become ours.
  left join pg_type t on n.classid = 'pg_type'::regclass and t.oid = n.id and t.typtype <> 'm'
        and not exists (select from pg_type e where e.typarray = t.oid)
        and not exists (select from hfs_lite_set_aside.tables where theirs = t.typrelid)
  left join pg_class c on c.oid = t.typrelid
  join pg_roles r on r.oid = coalesce(p.proowner, o.oprowner, t.typowner) and not r.rolsuper;

-- ---------------------------------------------------------------------------------------------------------------------
-- What can't be taken over, and the statement that mends it
-- ---------------------------------------------------------------------------------------------------------------------

create view hfs_lite_set_aside.differences as
select title, obstacle as difference, mend from hfs_lite_set_aside.relations where obstacle is not null

union all
select title, d.difference, d.mend
  from (select * from hfs_lite_set_aside.columns where not is_ours) as h
  full join (select * from hfs_lite_set_aside.columns where is_ours) as o using (title, name)
 -- How ALTER TABLE gets from the one type to the other: of itself, by an explicit cast, or not at all.
 cross join lateral (
   select case
            when h.type_id = o.type_id then 'assigned'
            else coalesce((select case castcontext when 'e' then 'cast' else 'assigned' end
                             from pg_cast where castsource = h.type_id and casttarget = o.type_id),
                          (select case when ours.typcategory = 'S' then 'assigned' when theirs.typcategory = 'S' then 'cast' end
                             from pg_type theirs, pg_type ours where theirs.oid = h.type_id and ours.oid = o.type_id))
          end) as w (way)
 cross join lateral (values
   (h.name is null and o.is_not_null,
    format('column %I is missing', name),
    format('ALTER TABLE %s ADD COLUMN %I %s; fill it; ALTER TABLE %1$s ALTER COLUMN %2$I SET NOT NULL', title, name, o.type)),
   (o.name is null,
    format('column %I is none of ours, and pg_dump would leave it out', name),
    format('ALTER TABLE %s DROP COLUMN %I, once its values are in a table of your own', title, name)),
   (h.type <> o.type,
    format('column %I is %s, not %s', name, h.type, o.type),
    case
      when h.type_id = 'timestamp'::regtype and o.type_id = 'timestamptz'::regtype then
        format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING %2$I AT TIME ZONE ''<the zone in which the application wrote them>''',
               title, name, o.type)
      when w.way = 'assigned' then format('ALTER TABLE %s ALTER COLUMN %I TYPE %s', title, name, o.type)
      when w.way = 'cast' then
        format('ALTER TABLE %s %sALTER COLUMN %I TYPE %s USING %3$I::%4$s', title,
               case when h.value is not null then format('ALTER COLUMN %I DROP DEFAULT, ', name) end, name, o.type)
      else
        format('no cast leads there, so a new column must be filled: ALTER TABLE %s RENAME COLUMN %I TO %I; '
               'ALTER TABLE %1$s ADD COLUMN %2$I %4$s; fill it, and move to it what stands on the old one', title, name,
               name || '_old', o.type)
    end),
   (h.is_computed and o.name is not null,
    format('column %I is an identity or generated column', name),
    format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY or DROP EXPRESSION', title, name)),
   (not h.is_not_null and o.is_not_null,
    format('column %I can be NULL', name),
    format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%I IS NOT NULL) NOT VALID; ALTER TABLE %1$s VALIDATE CONSTRAINT %2$I; '
           'ALTER TABLE %1$s ALTER COLUMN %3$I SET NOT NULL, DROP CONSTRAINT %2$I', title, name || '_is_given', name)),
   (h.is_not_null and not o.is_not_null,
    format('column %I cannot be NULL', name),
    format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', title, name))) as d (applies, difference, mend)
 where d.applies

union all
-- Without these, ON CONFLICT finds no arbiter. Theirs may be an index only: it is made a constraint in a moment.
select title,
       case when their_id is null then format('%s %I is missing', kind, name)
            else format('%I should be a %s', their_name, kind) end,
       case when their_name = name then format('ALTER INDEX public.%I RENAME TO %I; ', name, name || '_old') else '' end
         || regexp_replace(pg_get_indexdef(id), ' INDEX ', ' INDEX CONCURRENTLY ')
         || case when their_id is null then ''
              else format('; ALTER TABLE %s DROP CONSTRAINT %I', title,
                          their_name || case when their_name = name then '_old' else '' end) end
  from hfs_lite_set_aside.index_pairs
 cross join lateral (
   select case contype when 'p' then 'primary key' when 'u' then 'unique constraint' else 'unique index' end) as k (kind)
 where is_unique and (their_id is null or their_contype <> contype)

union all
select h.title, format('primary key %I is of other columns', h.name),
       format('ALTER TABLE %s DROP CONSTRAINT %I', h.title, h.name)
  from hfs_lite_set_aside.indexes h
 where not h.is_ours and h.contype = 'p'
   and not exists (select from hfs_lite_set_aside.index_pairs o where o.their_id = h.id)

union all
select h.title, format('index %I has a name of ours, and another definition or is not valid', h.name),
       format('ALTER INDEX public.%I RENAME TO %I', h.name, h.name || '_old')
  from hfs_lite_set_aside.indexes h
  join hfs_lite_set_aside.index_pairs o using (title, name)
 where not h.is_ours and o.their_id is distinct from h.id

union all
select title, format('%s is missing, or is written in another way', definition),
       format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I, ADD CONSTRAINT %2$I %s NOT VALID; '
              'ALTER TABLE %1$s VALIDATE CONSTRAINT %2$I', title, name, definition)
  from hfs_lite_set_aside.constraint_pairs o
 where contype = 'c' and their_id is null
   -- A column that differs makes its check differ; the column is what is said.
   and not exists (
     select from pg_attribute a
       join hfs_lite_set_aside.columns c on c.title = o.title and c.name = a.attname and c.is_ours
       left join hfs_lite_set_aside.columns h on h.title = o.title and h.name = a.attname and not h.is_ours
      where a.attrelid = o.conrelid and a.attnum = any(o.conkey) and h.type is distinct from c.type)

union all
select title, format('constraint %I is not validated', name), format('ALTER TABLE %s VALIDATE CONSTRAINT %I', title, name)
  from hfs_lite_set_aside.constraints where not is_ours and not is_valid

union all
select t.title, format('foreign key %I: another table would decide which calls succeed, and pg_dump would leave it out', k.conname),
       format('ALTER TABLE %s DROP CONSTRAINT %I', t.title, k.conname)
  from hfs_lite_set_aside.tables t
  join pg_constraint k on k.conrelid = t.theirs and k.contype = 'f'

union all
select t.title, format('rule %I', r.rulename), format('DROP RULE %I ON %s', r.rulename, t.title)
  from hfs_lite_set_aside.tables t
  join pg_rewrite r on r.ev_class = t.theirs

union all
select title,
       format('%s runs %s, which belongs to %I, with the rights of a superuser',
              pg_describe_object(part_class, part_id, 0), pg_describe_object(classid, id, 0), owner),
       format('read what it does first; then %sALTER %s %s OWNER TO %I; or drop what runs it',
              -- As SECURITY DEFINER it would hand a superuser's rights to whoever calls it.
              case when is_definer then format('ALTER %s %s SECURITY INVOKER; and only then ', kind, called) end,
              kind, called, current_user)
  from hfs_lite_set_aside.lent_rights
 cross join lateral pg_identify_object(classid, id, 0) o
 cross join lateral (
   select case when row_of is null then upper(o.type) else 'TABLE' end,
          case when row_of is null then o.identity else row_of::regclass::text end) as k (kind, called)

-- PostgreSQL's own functions, and other superusers', do much that only a superuser may have done, or read a query from an
-- argument. Whoever wrote the expression has chosen it. Indexes and statistics take immutable functions only.
union all
select distinct t.title,
       format('%s calls %s with the rights of a superuser', pg_describe_object(e.classid, e.id, 0), p.oid::regprocedure), e.mend
  from hfs_lite_set_aside.tables t
 cross join lateral (
   select 'pg_constraint'::regclass, oid, conbin, format('ALTER TABLE %s DROP CONSTRAINT %I', t.title, conname)
     from pg_constraint where conrelid = t.theirs and contype = 'c'
    union all
   select 'pg_trigger'::regclass, oid, tgqual, format('DROP TRIGGER %I ON %s', tgname, t.title)
     from pg_trigger where tgrelid = t.theirs and not tgisinternal) as e (classid, id, expression, mend)
 cross join lateral regexp_matches(e.expression::text, ':(?:op)?funcid (\d+)', 'g') as f (ids)
  join pg_proc p on p.oid = f.ids[1]::oid
 where p.provolatile = 'v' and p.oid <> 'clock_timestamp()'::regprocedure or p.proname like '%to\_xml%'

union all
select c.title,
       format('%s: deleting a row would run triggers on %s, which %s may make, with the rights of a superuser',
              pg_describe_object('pg_constraint'::regclass, c.part_id, 0), c.written::regclass, string_agg(distinct w.who, ', ')),
       case when o.rolsuper
         then format('REVOKE TRIGGER ON %s FROM %s CASCADE', c.written::regclass, string_agg(distinct w.who, ', '))
         else format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::regclass, k.conname) end
  from hfs_lite_set_aside.cascades c
  join pg_constraint k on k.oid = c.part_id
  join pg_class r on r.oid = c.written
  join pg_roles o on o.oid = r.relowner
 cross join lateral aclexplode(coalesce(r.relacl, acldefault('r', r.relowner))) a
  left join pg_roles g on g.oid = a.grantee
 cross join lateral (values (case a.grantee when 0 then 'PUBLIC' else quote_ident(g.rolname) end)) as w (who)
 where a.privilege_type = 'TRIGGER' and g.rolsuper is not true
 group by c.title, c.part_id, c.written, k.conrelid, k.conname, o.rolsuper

union all
select distinct t.title,
       format('%s reads it with rights that it will not have any more', pg_describe_object('pg_class'::regclass, v.oid, 0)),
       format('ALTER %s %s %s', case v.relkind when 'm' then 'MATERIALIZED VIEW' else 'VIEW' end, v.oid::regclass,
              case when r.rolsuper then 'RESET (security_invoker)' else format('OWNER TO %I', current_user) end)
         || '; or drop it, and create it again as a superuser'
  from hfs_lite_set_aside.tables t
  join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.theirs and d.classid = 'pg_rewrite'::regclass
  join pg_rewrite w on w.oid = d.objid
  join pg_class v on v.oid = w.ev_class and v.oid <> t.theirs
  join pg_roles r on r.oid = v.relowner
 where not r.rolsuper
    or exists (select from pg_options_to_table(v.reloptions)
                where option_name = 'security_invoker' and option_value::boolean)

union all
select f.title, format('belongs to extension %I', e.extname), format('ALTER EXTENSION %I DROP FUNCTION %s', e.extname, f.title)
  from hfs_lite_set_aside.functions f
  join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = f.theirs and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid

union all
select f.title, format('%s depends on it', pg_describe_object(d.classid, d.objid, d.objsubid)),
       'drop that, and create it again afterwards'
  from hfs_lite_set_aside.functions f
  join pg_depend d on d.refclassid = 'pg_proc'::regclass and d.refobjid = f.theirs and d.deptype <> 'i'
 where f.ours is not null

union all
select title, format('a call could mean it or %s', rival::regprocedure), format('ALTER ROUTINE %s RENAME TO %I', title, name || '_old')
  from hfs_lite_set_aside.functions where ours is null and rival is not null;

-- ---------------------------------------------------------------------------------------------------------------------
-- What is done where nothing is in the way: each step a command, a line of the report, or both
-- ---------------------------------------------------------------------------------------------------------------------

create view hfs_lite_set_aside.steps as
select title, 1 as step, format('DROP TABLE %s', title) as command, null::text as report from hfs_lite_set_aside.tables
union all
select title, 2, format('ALTER TABLE %s SET SCHEMA public', theirs::regclass), null from hfs_lite_set_aside.tables

union all
select t.title, 3, format('ALTER TABLE %s OWNER TO %I', t.title, current_user),
       format('owner is %I, no longer %s', current_user, c.relowner::regrole)
  from hfs_lite_set_aside.tables t
  join pg_class c on c.oid = t.theirs
 where c.relowner <> (select oid from pg_roles where rolname = current_user)

union all
select t.title, 4, format('REVOKE ALL ON TABLE %s FROM %s CASCADE', t.title, g.grantee),
       format('rights of %s taken back: %s', g.grantee, g.rights)
  from hfs_lite_set_aside.tables t
  join pg_class c on c.oid = t.theirs
 cross join lateral (
   select case a.grantee when 0 then 'PUBLIC' else a.grantee::regrole::text end as grantee,
          string_agg(distinct a.privilege_type, ', ') as rights
     from (select relacl from pg_class where oid = t.theirs union all select attacl from pg_attribute where attrelid = t.theirs) as of (acl)
    cross join lateral aclexplode(of.acl) a
    where a.grantee <> c.relowner
    group by 1) as g

-- Row level security is forced without a policy, as on every table of ours.
union all
select t.title, 4, format('DROP POLICY %I ON %s', y.polname, t.title),
       format('policy %I dropped: the functions are the only door; keep its statement if you may leave again', y.polname)
  from hfs_lite_set_aside.tables t
  join pg_policy y on y.polrelid = t.theirs

union all
select o.title, 5, format('ALTER TABLE %s ADD COLUMN %I %s%s', o.title, o.name, o.type, ' DEFAULT ' || o.value),
       format('column %I added', o.name)
  from hfs_lite_set_aside.columns o
 where o.is_ours
   and not exists (select from hfs_lite_set_aside.columns h where h.title = o.title and h.name = o.name and not h.is_ours)

union all
select title, 6,
       case when o.value is null then format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', title, name)
            else format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', title, name, o.value) end,
       format('default of column %I is %s, no longer %s', name, coalesce(o.value, 'none'), coalesce(h.value, 'none'))
  from (select * from hfs_lite_set_aside.columns where not is_ours) as h
  join (select * from hfs_lite_set_aside.columns where is_ours) as o using (title, name)
 where o.value is distinct from h.value

union all
select t.title, 7, format('ALTER TABLE %s SET (%I = %L)', t.title, o.option_name, o.option_value),
       format('%s is %s', o.option_name, o.option_value)
  from hfs_lite_set_aside.tables t
 cross join lateral (
   select p.* from pg_class c cross join lateral pg_options_to_table(c.reloptions) p where c.oid = t.ours
   except
   select p.* from pg_class c cross join lateral pg_options_to_table(c.reloptions) p where c.oid = t.theirs) as o

union all
select t.title, 8, format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', t.title),
       'row level security enabled and forced'
  from hfs_lite_set_aside.tables t
  join pg_class c on c.oid = t.theirs
 where not (c.relrowsecurity and c.relforcerowsecurity)

union all
select title, 9,
       format('ALTER TABLE %s ADD CONSTRAINT %I %s USING INDEX %I', title, name,
              case contype when 'p' then 'PRIMARY KEY' else 'UNIQUE' end, their_name),
       format('constraint %I made of index %I', name, their_name)
  from hfs_lite_set_aside.index_pairs where contype is not null and their_id is not null and their_contype is null
union all
select title, 9, format('ALTER INDEX public.%I RENAME TO %I', their_name, name),
       format('index %I renamed to %I', their_name, name)
  from hfs_lite_set_aside.index_pairs where their_contype is not distinct from contype and their_name <> name
union all
select title, 9, format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', title, their_name, name),
       format('constraint %I renamed to %I', their_name, name)
  from hfs_lite_set_aside.constraint_pairs where their_name <> name

union all
select title, 10, build, format('index %I created', name) from hfs_lite_set_aside.missing_indexes where is_quick

union all
select t.title, 11, format('COMMENT ON TABLE %s IS %L', t.title, obj_description(t.ours, 'pg_class')), 'comment written'
  from hfs_lite_set_aside.tables t
 where obj_description(t.ours, 'pg_class') is distinct from obj_description(t.theirs, 'pg_class')
union all
select o.title, 11, format('COMMENT ON COLUMN %s.%I IS %L', o.title, o.name, o.comment), null
  from hfs_lite_set_aside.columns o
 where o.is_ours

union all
select title, 12, format('ALTER EXTENSION hfs_lite ADD TABLE %s', title), 'taken over with its rows'
  from hfs_lite_set_aside.tables

-- What stays theirs.
union all
select title, 13, null, format('%s stays, and pg_dump will leave it out: keep its statement', what)
  from (
    select h.title, format('index %I', h.name)
      from hfs_lite_set_aside.indexes h
     where not h.is_ours and not exists (select from hfs_lite_set_aside.index_pairs o where o.their_id = h.id)
    union all
    select h.title, format('constraint %I', h.name)
      from hfs_lite_set_aside.constraints h
     where not h.is_ours and not exists (select from hfs_lite_set_aside.constraint_pairs o where o.their_id = h.id)
    union all
    select t.title, w.what
      from hfs_lite_set_aside.tables t
      join pg_class c on c.oid = t.theirs
     cross join lateral (
       select format('statistics object %I', stxname) from pg_statistic_ext where stxrelid = c.oid
       union all
       select format('its place in publication %I', p.pubname)
         from pg_publication_rel m join pg_publication p on p.oid = m.prpubid where m.prrelid = c.oid
       union all
       select 'its replica identity' where c.relreplident <> 'd'
       union all
       select format('tablespace %I', spcname) from pg_tablespace where oid = c.reltablespace
       union all
       select format('option %s=%s', o.name, o.value)
         from (select option_name, option_value from pg_options_to_table(c.reloptions)
               union all
               select 'toast.' || option_name, option_value
                 from pg_class x cross join lateral pg_options_to_table(x.reloptions) where x.oid = c.reltoastrelid) as o (name, value)
        where not exists (select from pg_class x cross join lateral pg_options_to_table(x.reloptions)
                           where x.oid = t.ours and option_name = o.name)
       union all
       select format('%s of column %I', v.what, a.attname)
         from pg_attribute a
         join pg_type y on y.oid = a.atttypid
        cross join lateral (values
          ('storage', a.attstorage <> y.typstorage), ('compression', a.attcompression <> ''),
          ('statistics target', coalesce(a.attstattarget, -1) <> -1),
          ('n_distinct', exists (select from unnest(a.attoptions) o where o like 'n\_distinct%'))) as v (what, applies)
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and v.applies) as w (what)) as stays (title, what)
union all
select t.title, 13, null,
       format('trigger %I stays, and pg_dump will leave it out: keep its statement', g.tgname)
         || case when exists (select from unnest(p.proconfig) as setting where setting like 'search\_path=%') then ''
              else format('; under hfs_lite''s functions, %s runs with search_path pg_catalog, pg_temp', p.oid::regprocedure) end
  from hfs_lite_set_aside.tables t
  join pg_trigger g on g.tgrelid = t.theirs and not g.tgisinternal
  join pg_proc p on p.oid = g.tgfoid
union all
select t.title, 13, null,
       format('foreign key %I of %s stays, ON DELETE %s: ', k.conname, k.conrelid::regclass,
              case k.confdeltype when 'c' then 'CASCADE' when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT'
                                 when 'r' then 'RESTRICT' else 'NO ACTION' end)
         || case when k.confdeltype = 'c' then 'a sweep that deletes a row deletes the rows that refer to it too'
                 when k.confdeltype in ('n', 'd') then 'a sweep that deletes a row changes the rows that refer to it'
                 else 'a sweep that meets a row that is referred to fails with 23503, and never gets past it' end
  from hfs_lite_set_aside.tables t
  join pg_constraint k on k.confrelid = t.theirs and k.contype = 'f' and k.conparentid = 0

-- What pg_depend knows of; the text of a function is none of it.
union all
select distinct t.title, 13, null::text,
       format('%s uses it with the rights of %s; it will be denied', pg_describe_object(d.classid, d.objid, 0),
              case when p.prosecdef then quote_ident(r.rolname) else 'whoever runs it' end)
  from hfs_lite_set_aside.tables t
  join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.theirs
                  and d.classid in ('pg_proc'::regclass, 'pg_policy'::regclass)
  left join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
  left join pg_roles r on r.oid = p.proowner
  left join pg_policy y on d.classid = 'pg_policy'::regclass and y.oid = d.objid
 where not exists (select from hfs_lite_set_aside.tables where theirs = y.polrelid)
   and not exists (select from hfs_lite_set_aside.functions f where f.theirs = p.oid and f.ours is not null)
   and (p.prosecdef and r.rolsuper) is not true

union all
select title, 1, format('DROP ROUTINE %s', theirs::regprocedure), 'replaced'
  from hfs_lite_set_aside.functions where ours is not null
union all
select title, 1, format('ALTER ROUTINE %s SET SCHEMA public', theirs::regprocedure), null
  from hfs_lite_set_aside.functions where ours is null
union all
select distinct on (w.who) w.who, 1, null,
       case when a.grantee = 0
         then 'anybody could call functions that were replaced: let the roles in that did, by SELECT hfs_lite_grant(...)'
         else format('could call functions that were replaced: SELECT hfs_lite_grant(%L)', r.rolname) end
  from hfs_lite_set_aside.functions f
 cross join lateral aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a
  left join pg_roles r on r.oid = a.grantee
 cross join lateral (values (case a.grantee when 0 then 'PUBLIC' else 'role ' || quote_ident(r.rolname) end)) as w (who)
 where f.ours is not null
   and (a.grantee = 0 or not r.rolsuper and r.rolname not in ('app_be', 'anon', 'authenticated'));

-- ---------------------------------------------------------------------------------------------------------------------
-- All of it, or nothing
-- ---------------------------------------------------------------------------------------------------------------------

do $$
declare
  differences text[] := (
    select array_agg(replace(format('%s: %s. To mend it: %s.', title, difference, mend), 'hfs_lite_set_aside.', 'public.')
                     order by title collate "C", difference collate "C")
      from hfs_lite_set_aside.differences);
  left_out text[] := (
    select array_agg(format('%s;', build_concurrently) order by build_concurrently collate "C")
      from hfs_lite_set_aside.missing_indexes where not is_quick);
  titles text[];
  commands text[];
  reports text[];
begin
  if differences is not null then
    raise exception using
      errcode = '55000',
      message = format('hfs_lite cannot adopt schema public as it is: %s %s', cardinality(differences),
                       case cardinality(differences) when 1 then 'thing differs' else 'things differ' end),
      detail = array_to_string(differences, E'\n'),
      hint = 'Nothing was changed. Mend what differs, rehearse with scripts/adopt-check.sql, and adopt again; see docs/adopting.md.';
  end if;
  -- All is read before anything is done: the first steps drop what is read here.
  select array_agg(title order by title collate "C", step, report collate "C"),
         array_agg(command order by title collate "C", step, report collate "C"),
         array_agg(report order by title collate "C", step, report collate "C")
    into titles, commands, reports
    from hfs_lite_set_aside.steps;
  for i in 1 .. coalesce(cardinality(commands), 0) loop
    if commands[i] is not null then
      execute commands[i];
    end if;
    if reports[i] is not null then
      -- INFO reaches the client whatever client_min_messages is.
      raise info '%: %', titles[i], reports[i];
    end if;
  end loop;
  if left_out is not null then
    raise warning using
      message = format('%s of hfs_lite''s indexes were not created, since their tables are large', cardinality(left_out)),
      detail = array_to_string(left_out, E'\n'),
      hint = 'Create them by these statements, before adoption or after it: they keep nobody waiting.';
  end if;
end $$;

drop view hfs_lite_set_aside.missing_indexes, hfs_lite_set_aside.functions, hfs_lite_set_aside.cascades,
  hfs_lite_set_aside.lent_rights, hfs_lite_set_aside.differences, hfs_lite_set_aside.steps;
drop materialized view hfs_lite_set_aside.members, hfs_lite_set_aside.relations, hfs_lite_set_aside.tables,
  hfs_lite_set_aside.sides, hfs_lite_set_aside.columns, hfs_lite_set_aside.indexes, hfs_lite_set_aside.constraints,
  hfs_lite_set_aside.index_pairs, hfs_lite_set_aside.constraint_pairs;
do $$
declare
  command text;
begin
  for command in
    select format('drop table %s', oid::regclass) from pg_class
     where relnamespace = 'hfs_lite_set_aside'::regnamespace and relname like 'restored\_%'
  loop
    execute command;
  end loop;
end $$;
-- What else is still in there would be lost, and so this fails.
drop schema hfs_lite_set_aside;
set local search_path = public, pg_temp;
