//! What the extension consists of, against a list that is checked in: nothing appears, changes or vanishes by accident.

use super::harness::{Database, column, rows};
use std::fmt::Write;

const SURFACE: &str = include_str!("surface.txt");

/// The extension's members as `m`, without those of schema `tests`, which exist only in test builds.
const MEMBERS: &str = "
    with m as (
      select d.classid, d.objid
        from pg_depend d
        join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
        cross join lateral pg_identify_object(d.classid, d.objid, 0) o
       where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
         and o.schema is distinct from 'tests' and o.identity <> 'tests'),
      functions as (
      select p.* from m join pg_proc p on m.classid = 'pg_proc'::regclass and p.oid = m.objid),
      relations as (
      select c.* from m join pg_class c on m.classid = 'pg_class'::regclass and c.oid = m.objid)";

#[test]
fn the_extension_consists_of_what_the_checked_in_list_says() {
    let database = Database::new();
    let mut session = database.connect();
    session.batch_execute("set search_path = pg_catalog").unwrap();
    let mut part = |title: &str, query: &str| {
        let lines = column(&mut session, &format!("{MEMBERS} {query}"));
        let lines = if lines.is_empty() { "  none\n".into() } else { format!("  {}\n", lines.join("\n  ")) };
        format!("{title}\n{lines}")
    };
    let surface = [
        part("Functions", FUNCTIONS),
        part("Tables", TABLES),
        part("Columns", COLUMNS),
        part("Constraints", CONSTRAINTS),
        part("Indexes", INDEXES),
        part("Other members", OTHERS),
    ]
    .join("\n");
    if surface != SURFACE {
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/target");
        std::fs::create_dir_all(target).unwrap();
        std::fs::write(format!("{target}/surface.txt"), &surface).unwrap();
        panic!(
            "the extension has changed:\n{}\nIf that is meant, it belongs into an upgrade script and CHANGELOG.md;\n\
             then cp target/surface.txt pgrx-tests/surface.txt",
            difference(SURFACE, &surface)
        );
    }
}

const FUNCTIONS: &str = "
    select format('%s.%s(%s) returns %s; %s, %s, %s, parallel %s, rows %s, %s',
             p.pronamespace::regnamespace, p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
             case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
             case when p.proisstrict then 'strict' else 'called on null' end,
             case when p.prosecdef then 'security definer' else 'security invoker' end,
             case p.proparallel when 's' then 'safe' when 'r' then 'restricted' else 'unsafe' end,
             p.prorows, coalesce(array_to_string(p.proconfig, ', '), 'no settings'))
      from functions p order by p.proname collate \"C\", p.pronargs";

const TABLES: &str = "
    select format('%s.%s%s%s; %s%s', c.relnamespace::regnamespace, c.relname,
             case when c.relkind = 'r' then '' else ' of kind ' || c.relkind::text end,
             coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', ''),
             case when c.relrowsecurity then 'row level security' else 'no row level security' end,
             case when c.relforcerowsecurity then ', forced' else '' end)
      from relations c order by c.relname collate \"C\"";

const COLUMNS: &str = "
    select format('%s.%s %s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
             case when a.attnotnull then ' not null' else '' end,
             coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
      from relations c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
     order by c.relname collate \"C\", a.attnum";

// From PostgreSQL 18 on, NOT NULL is a constraint too; it stands with its column already.
const CONSTRAINTS: &str = "
    select format('%s: %s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
      from relations c join pg_constraint k on k.conrelid = c.oid and k.contype <> 'n'
     order by c.relname collate \"C\", k.conname collate \"C\"";

const INDEXES: &str = "
    select pg_get_indexdef(i.indexrelid)
      from relations c join pg_index i on i.indrelid = c.oid
     order by pg_get_indexdef(i.indexrelid) collate \"C\"";

// Types come with their tables.
const OTHERS: &str = "
    select o.type || ' ' || o.identity
      from m cross join lateral pg_identify_object(m.classid, m.objid, 0) o
     where m.classid not in ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_type'::regclass)
     order by o.type || ' ' || o.identity collate \"C\"";

/// The lines that only one of two texts has, in their order.
fn difference(before: &str, after: &str) -> String {
    let mut out = String::new();
    for line in before.lines().filter(|line| !after.lines().any(|other| other == *line)) {
        writeln!(out, "- {}", line.trim()).unwrap();
    }
    for line in after.lines().filter(|line| !before.lines().any(|other| other == *line)) {
        writeln!(out, "+ {}", line.trim()).unwrap();
    }
    out
}

/// What a query over the members finds, one line each; it must find nothing.
#[track_caller]
fn nothing(query: &str) {
    let database = Database::new();
    let mut session = database.connect();
    session.batch_execute("set search_path = pg_catalog").unwrap();
    let found: Vec<_> = rows(&mut session, &format!("{MEMBERS} {query}")).iter().map(|row| row.join(" ")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_function_that_touches_tables_is_security_definer_with_a_pinned_search_path() {
    nothing(
        "select p.oid::regprocedure from functions p
          where p.proname not in ('canonical_json', 'request_fingerprint', 'hfs_lite_age')
            and not (p.prosecdef and 'search_path=pg_catalog, pg_temp' = any (p.proconfig))",
    );
}

#[test]
fn public_may_not_execute_any_function() {
    nothing(
        "select p.oid::regprocedure from functions p
          where exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0)",
    );
}

#[test]
fn no_role_but_the_owner_has_a_right_on_a_table() {
    nothing(
        "select c.relname, a.grantee::regrole, a.privilege_type
           from relations c cross join lateral aclexplode(c.relacl) a
          where a.grantee <> c.relowner and c.relkind = 'r'",
    );
}

#[test]
fn no_two_functions_share_a_name_and_a_possible_number_of_arguments() {
    nothing(
        "select a.oid::regprocedure, b.oid::regprocedure
           from functions a join functions b on a.proname = b.proname and a.oid < b.oid
          where a.pronargs - a.pronargdefaults <= b.pronargs and b.pronargs - b.pronargdefaults <= a.pronargs",
    );
}

#[test]
fn every_function_table_and_column_has_a_comment() {
    nothing("select p.oid::regprocedure from functions p where obj_description(p.oid, 'pg_proc') is null");
    nothing("select c.relname from relations c where obj_description(c.oid, 'pg_class') is null");
    nothing(
        "select c.relname, a.attname
           from relations c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          where c.relkind = 'r' and col_description(c.oid, a.attnum) is null",
    );
}

/// An update of pgmq drops its types with CASCADE, and would take such a member, and the extension, along.
#[test]
fn no_member_depends_on_a_type_or_a_table_of_pgmq() {
    nothing(
        "select o.identity, r.identity
           from m
           join pg_depend d on d.classid = m.classid and d.objid = m.objid
           cross join lateral pg_identify_object(m.classid, m.objid, 0) o
           cross join lateral pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid) r
          where r.schema = 'pgmq'",
    );
    nothing(
        "select p.oid::regprocedure, t.oid::regtype
           from functions p
           cross join lateral unnest(p.proargtypes::oid[] || coalesce(p.proallargtypes, '{}') || p.prorettype) of (type)
           join pg_type t on t.oid = of.type
          where t.typnamespace = 'pgmq'::regnamespace",
    );
}
