//! Upgrades, of this extension and of pgmq. Three scenarios for every released version: A, the upgraded catalog is the fresh
//! one; B1, the new library works on the older schema; B2, what was written and begun before goes on after.

use super::everything::{Sessions, contents, fill, functions, problems, work_goes_on};
use crate::black_box::harness::{Database, column, refusal, refused, rows, start, value};
use postgres::Client;
use postgres::error::SqlState;
use std::path::Path;

const CURRENT: &str = env!("CARGO_PKG_VERSION");

/// The versions whose install script is kept in `released/`, but the current one.
pub fn released_versions() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pgrx-tests/lifecycle/released");
    let mut versions: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_prefix("hfs_lite--").unwrap().strip_suffix(".sql").unwrap().to_owned())
        .filter(|version| version != CURRENT)
        .collect();
    versions.sort_by_key(|version| number(version));
    assert!(!versions.is_empty());
    versions
}

/// A version as numbers, which sort as versions do.
fn number(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap()).collect()
}

/// A database with an older version of the extension in it.
fn at(version: &str) -> Database {
    let database = Database::empty();
    database
        .connect()
        .batch_execute(&format!("create extension hfs_lite version '{version}' cascade"))
        .unwrap_or_else(|error| panic!("{version}, as scripts/pgrx-test installs it: {error}"));
    database
}

// ---------------------------------------------------------------------------------------------------------------------
// The scripts
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn every_released_version_leads_to_this_one_by_steps_from_one_version_to_the_next() {
    let mut versions = released_versions();
    versions.push(CURRENT.to_owned());
    let mut steps: Vec<_> = versions.windows(2).map(|pair| format!("hfs_lite--{}--{}.sql", pair[0], pair[1])).collect();
    steps.sort();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("hfs_lite--"))
        .collect();
    scripts.sort();
    assert_eq!(scripts, steps, "the upgrade scripts in sql/");
    let database = Database::empty();
    let mut session = database.connect();
    for version in released_versions() {
        let path = "select path from pg_extension_update_paths('hfs_lite') where source = $1 and target = $2";
        let path: Option<String> = session.query_one(path, &[&version, &CURRENT]).unwrap().get(0);
        assert!(path.is_some(), "from {version}");
    }
}

#[test]
fn there_is_no_way_back_to_an_older_version() {
    let database = Database::new();
    for version in released_versions() {
        let error =
            refusal(database.connect().simple_query(&format!("alter extension hfs_lite update to '{version}'")));
        assert_eq!(error.code(), &SqlState::INVALID_PARAMETER_VALUE);
        let expected = format!("has no update path from version \"{CURRENT}\" to version \"{version}\"");
        assert!(error.message().contains(&expected), "{}", error.message());
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// A: the upgraded catalog is the fresh one
// ---------------------------------------------------------------------------------------------------------------------

/// Every member of the extension, with all that the catalog says of it but what differs from one database to the next.
fn catalog(superuser: &mut Client) -> Vec<String> {
    superuser.batch_execute("set search_path = pg_catalog").unwrap();
    let catalog = column(superuser, CATALOG);
    superuser.batch_execute("reset search_path").unwrap();
    catalog
}

const CATALOG: &str = r#"
    with m as (
      select d.classid, d.objid, o.type, o.identity
        from pg_depend d
        join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
        cross join lateral pg_identify_object(d.classid, d.objid, 0) o
       where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
         -- Only test builds have this schema.
         and o.schema is distinct from 'tests' and o.identity <> 'tests'),
      relations as (select c.* from m join pg_class c on m.classid = 'pg_class'::regclass and c.oid = m.objid)
    select format('member %s %s', type, identity) from m
    union all
    select format('comment %s %s: %s', m.identity, coalesce(a.attname, ''), d.description)
      from m
      join pg_description d on d.classoid = m.classid and d.objoid = m.objid
      left join pg_attribute a
        on m.classid = 'pg_class'::regclass and a.attrelid = m.objid and a.attnum = d.objsubid and d.objsubid > 0
    union all
    -- The default values stand in the arguments; as PostgreSQL keeps them, they tell where in the script they stood.
    select format('function %s(%s): %s', m.identity, pg_get_function_arguments(p.oid),
             to_jsonb(p) - '{oid,proacl,proargdefaults}'::text[])
      from m join pg_proc p on m.classid = 'pg_proc'::regclass and p.oid = m.objid
    union all
    select format('right on %s: %s to %s by %s', m.identity, a.privilege_type, a.grantee::regrole, a.grantor::regrole)
      from m
      left join pg_proc p on m.classid = 'pg_proc'::regclass and p.oid = m.objid
      left join pg_class c on m.classid = 'pg_class'::regclass and c.oid = m.objid
      cross join lateral aclexplode(
        coalesce(p.proacl, c.relacl, acldefault(case when p.oid is null then 'r' else 'f' end::"char", coalesce(p.proowner, c.relowner)))) a
     where m.type in ('function', 'table', 'view', 'sequence')
    union all
    -- What pg_dump takes as the extension's own.
    select format('first right on %s: %s to %s', m.identity, a.privilege_type, a.grantee::regrole)
      from m
      join pg_init_privs i on i.classoid = m.classid and i.objoid = m.objid
      cross join lateral aclexplode(i.initprivs) a
     where a.grantee <> a.grantor
    union all
    select format('relation %s: %s', c.oid::regclass,
             to_jsonb(c) - '{oid,relacl,relfilenode,reltype,reltoastrelid,relpages,reltuples,relallvisible,relallfrozen,relfrozenxid,relminmxid}'::text[])
      from relations c
    union all
    select format('column %s.%s: %s default %s', c.oid::regclass, a.attnum,
             to_jsonb(a) - '{attrelid,atthasmissing,attmissingval,attoptions}'::text[], pg_get_expr(d.adbin, d.adrelid))
      from relations c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    union all
    select format('constraint %s.%s: %s, valid %s', c.oid::regclass, k.conname, pg_get_constraintdef(k.oid), k.convalidated)
      from relations c join pg_constraint k on k.conrelid = c.oid
    union all
    select format('index %s, valid %s, comment %s', pg_get_indexdef(i.indexrelid), i.indisvalid,
             obj_description(i.indexrelid, 'pg_class'))
      from relations c join pg_index i on i.indrelid = c.oid
    union all
    select format('view %s: %s', c.oid::regclass, pg_get_viewdef(c.oid)) from relations c where c.relkind = 'v'
    union all
    select format('trigger %s', pg_get_triggerdef(t.oid)) from relations c join pg_trigger t on t.tgrelid = c.oid
    union all
    select format('policy %s', to_jsonb(p) - '{oid,polrelid}'::text[])
      from relations c join pg_policy p on p.polrelid = c.oid
    union all
    select format('statistics %s', pg_get_statisticsobjdef(s.oid))
      from relations c join pg_statistic_ext s on s.stxrelid = c.oid
    union all
    select format('dumped, %s: %s', dumped.position, dumped.relation::regclass::text || coalesce(e.extcondition[position], ''))
      from pg_extension e cross join lateral unnest(e.extconfig) with ordinality dumped (relation, position)
     where e.extname = 'hfs_lite'
    union all
    select format('extension %s', to_jsonb(e) - '{oid,extconfig,extcondition}'::text[])
      from pg_extension e where e.extname = 'hfs_lite'
    order by 1"#;

/// Roles that hold rights by ALTER DEFAULT PRIVILEGES, which must come to nothing.
const DEFAULT_PRIVILEGES: &str = "
    alter default privileges in schema public grant all on tables to anon, operator;
    alter default privileges in schema public grant all on functions to anon, operator, public;
    alter default privileges grant all on tables to authenticated";

/// Rights of each kind, asked for once the extension is this version's.
const GRANTS: &str = "select public.hfs_lite_grant('operator', 'operator'), public.hfs_lite_grant('app_be')";

#[track_caller]
fn assert_upgraded_is_fresh(version: &str, before: &str, between: &str) {
    let (fresh_database, upgraded_database) = (Database::empty(), Database::empty());
    let mut fresh = fresh_database.connect();
    fresh.batch_execute(&format!("{before}; create extension hfs_lite cascade")).unwrap();
    fresh.batch_execute(GRANTS).unwrap();
    let mut upgraded = upgraded_database.connect();
    upgraded.batch_execute(&format!("{before}; create extension hfs_lite version '{version}' cascade")).unwrap();
    upgraded.batch_execute(GRANTS).unwrap();
    let members = functions(&mut upgraded);
    for command in between.split(';') {
        upgraded.batch_execute(command).unwrap();
    }
    upgraded.batch_execute("alter extension hfs_lite update").unwrap();
    upgraded.batch_execute(GRANTS).unwrap();
    let (fresh, upgraded) = (catalog(&mut fresh), catalog(&mut upgraded));
    // What CREATE EXTENSION gives app_be at once, an update leaves to hfs_lite_grant: pg_dump would leave it out.
    let granted_later = |line: &str| {
        let right =
            line.strip_prefix("first right on public.").and_then(|right| right.strip_suffix(": EXECUTE to app_be"));
        right
            .and_then(|right| right.split('(').next())
            .is_some_and(|name| !members.iter().any(|member| member.split('/').next() == Some(name)))
    };
    let missing: Vec<_> = fresh.iter().filter(|line| !upgraded.contains(line) && !granted_later(line)).collect();
    let too_much: Vec<_> = upgraded.iter().filter(|line| !fresh.contains(line)).collect();
    assert!(
        missing.is_empty() && too_much.is_empty(),
        "from {version}, missing: {missing:#?}\ntoo much: {too_much:#?}"
    );
}

#[test]
fn a_an_upgraded_catalog_is_that_of_a_fresh_install() {
    for version in released_versions() {
        assert_upgraded_is_fresh(&version, "", "");
    }
}

#[test]
fn a_default_privileges_come_to_nothing_in_an_upgrade_too() {
    for version in released_versions() {
        assert_upgraded_is_fresh(&version, DEFAULT_PRIVILEGES, "");
    }
}

/// As docs/upgrading.md tells to do where the tables are large.
#[test]
fn a_indexes_that_were_built_before_the_upgrade_are_found_by_it() {
    let build = "create index concurrently jobs_status_idx on public.jobs (status, updated_at);
        create index concurrently queue_sent_idx on public.queue (sent_at) where sent_at is not null;
        create index concurrently inbox_kept_idx on public.inbox ((case when request_fingerprint is null then 'd'::\"char\"
                                                                        when outcome is null then 'i' else 'c' end), claimed_at)";
    assert_upgraded_is_fresh("0.1.0", "", build);
}

#[test]
fn an_index_that_only_has_the_name_of_one_that_is_needed_stops_the_upgrade_with_the_way_out() {
    let database = at("0.1.0");
    let mut session = database.connect();
    session
        .batch_execute(
            "create index queue_sent_idx on public.queue (sent_at);
             create index jobs_status_idx on public.jobs (status, updated_at);
             update pg_index set indisvalid = false where indexrelid = 'jobs_status_idx'::regclass",
        )
        .unwrap();
    let update = "alter extension hfs_lite update";
    let error = refused(&mut session, update, "55000", "public.jobs_status_idx, public.queue_sent_idx");
    assert!(error.hint().is_some_and(|hint| hint.starts_with("Drop it")), "{error:?}");
    assert_eq!(value(&mut session, "select extversion from pg_extension where extname = 'hfs_lite'"), "0.1.0");
    session.batch_execute("drop index queue_sent_idx, jobs_status_idx").unwrap();
    session.batch_execute(update).unwrap();
}

#[test]
fn names_that_are_taken_stop_the_upgrade_with_the_list() {
    for (version, new_from, taken, detail) in [
        (
            "0.1.0",
            "0.2.0",
            "create view public.hfs_lite_jobs as select 1;
             create function public.event_bus_check(integer default 0) returns integer language sql return 1",
            "function public.event_bus_check(integer)\nview public.hfs_lite_jobs",
        ),
        (
            "0.2.0",
            "0.3.0",
            "create function public.job_heartbeat(integer) returns integer language sql return 1;
             create function public.event_bus_extend() returns integer language sql return 1",
            "function public.event_bus_extend()\nfunction public.job_heartbeat(integer)",
        ),
    ] {
        let database = at(version);
        let mut session = database.connect();
        session.batch_execute(taken).unwrap();
        let update = "alter extension hfs_lite update";
        let error = refused(&mut session, update, "55000", &format!("names that are hfs_lite's from {new_from} on"));
        assert_eq!(error.detail(), Some(detail));
        for name in detail.lines() {
            session.batch_execute(&format!("drop {name}")).unwrap();
        }
        session.batch_execute(update).unwrap();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// B1: the new library works on every older schema
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn b1_every_function_of_an_older_version_works_with_the_new_library_before_and_after_the_upgrade() {
    for version in released_versions() {
        let database = at(&version);
        let mut sessions = Sessions::new(&database);
        sessions.superuser.batch_execute("select public.hfs_lite_grant('operator', 'operator')").unwrap();
        sessions.call_every_function("before");
        sessions.call_every_function("again");
        database.connect().batch_execute("alter extension hfs_lite update").unwrap();
        database.connect().batch_execute(GRANTS).unwrap();
        sessions.call_every_function("after");
        rows(&mut sessions.operator, "select * from public.event_bus_record()");
        assert!(problems(&mut sessions.operator).is_empty());
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// B2: what was written and begun before goes on after
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn b2_what_was_in_flight_before_an_upgrade_is_finished_after_it_in_the_same_sessions() {
    for version in released_versions() {
        let database = at(&version);
        let mut sessions = Sessions::new(&database);
        fill(&mut sessions.superuser);
        sessions.call_every_function("before");
        let before = contents(&mut sessions.superuser);
        database.connect().batch_execute("alter extension hfs_lite update").unwrap();
        let after = contents(&mut sessions.superuser);
        for (name, digest) in &before {
            assert_eq!(after.get(name), Some(digest), "{name}, from {version}");
        }
        let unrecorded = problems(&mut sessions.superuser);
        assert!(unrecorded.iter().all(|problem| problem[0] == "unrecorded_subscription"), "{unrecorded:?}");
        rows(&mut sessions.superuser, "select * from public.event_bus_record()");
        assert!(problems(&mut sessions.superuser).is_empty());
        work_goes_on(&mut sessions.superuser, &mut sessions.application);
        database.connect().batch_execute(GRANTS).unwrap();
        sessions.call_every_function("after");
    }
}

#[test]
fn b2_an_upgrade_that_builds_indexes_waits_for_who_writes_and_any_lets_them_go_on() {
    for version in released_versions() {
        let database = at(&version);
        let mut writer = database.connect();
        // Each upgrade makes an index on one of these tables.
        writer
            .batch_execute(
                "select pgmq.create('q'); begin; select pgmq.bind_topic('t', 'q');
                 select public.queue_write('mail', '{}', null, 'open')",
            )
            .unwrap();
        let upgrade =
            start(database.connect(), "alter extension hfs_lite update").wait_until_blocked(&mut database.connect());
        writer.batch_execute("select public.queue_write('mail', '{}', null, 'open'); commit").unwrap();
        upgrade.rows();
        assert_eq!(value(&mut writer, "select count(*) from public.queue_waiting(10)"), "2");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// pgmq
// ---------------------------------------------------------------------------------------------------------------------

/// The index on pgmq's bindings, which is no member of the extension but goes with it.
pub const TOPIC_HEADS: &str = "
    select string_agg(pg_get_indexdef(i.indexrelid) || ', ' || coalesce(e.extname, 'of no extension'), E'\n')
      from pg_index i
      left join pg_depend d
        on d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refclassid = 'pg_extension'::regclass
       and d.deptype = 'x'
      left join pg_extension e on e.oid = d.refobjid
     where i.indexrelid = to_regclass('pgmq.hfs_lite_topic_heads_idx')";
pub const TOPIC_HEADS_NOW: &str = "CREATE INDEX hfs_lite_topic_heads_idx ON pgmq.topic_bindings USING btree \
     (regexp_replace(translate(pattern, '#'::text, '*'::text), '[*].*'::text, '*'::text) COLLATE \"C\"), hfs_lite";

#[test]
fn the_index_on_pgmqs_bindings_comes_with_the_extension_by_an_upgrade_too_and_goes_with_it() {
    for version in released_versions() {
        let database = at(&version);
        let mut superuser = database.connect();
        superuser.batch_execute("alter extension hfs_lite update").unwrap();
        assert_eq!(value(&mut superuser, TOPIC_HEADS), TOPIC_HEADS_NOW, "from {version}");
    }
    let database = Database::new();
    let mut superuser = database.connect();
    assert_eq!(value(&mut superuser, TOPIC_HEADS), TOPIC_HEADS_NOW);
    superuser.batch_execute("drop extension hfs_lite").unwrap();
    assert_eq!(value(&mut superuser, TOPIC_HEADS), "∅");
    superuser.batch_execute("create extension hfs_lite").unwrap();
    assert_eq!(value(&mut superuser, TOPIC_HEADS), TOPIC_HEADS_NOW);
}

#[test]
fn an_update_of_pgmq_leaves_the_extension_its_tables_and_every_message_and_its_sessions_go_on() {
    let database = Database::empty();
    let mut superuser = database.connect();
    superuser.batch_execute("create extension pgmq version '1.11.1'; create extension hfs_lite").unwrap();
    let mut sessions = Sessions::new(&database);
    fill(&mut sessions.superuser);
    sessions.call_every_function("before");
    let (before, members) = (contents(&mut superuser), catalog(&mut superuser));

    superuser.batch_execute("alter extension pgmq update to '1.13.0'").unwrap();

    assert_eq!(value(&mut superuser, "select extversion from pg_extension where extname = 'pgmq'"), "1.13.0");
    assert_eq!(value(&mut superuser, TOPIC_HEADS), TOPIC_HEADS_NOW);
    assert_eq!(contents(&mut superuser), before);
    assert_eq!(catalog(&mut superuser), members);
    assert!(problems(&mut sessions.operator).is_empty());
    work_goes_on(&mut sessions.superuser, &mut sessions.application);
    sessions.call_every_function("after");
    assert!(problems(&mut sessions.operator).is_empty());
}
