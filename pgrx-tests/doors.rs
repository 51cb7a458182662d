//! Doors: which role may call what, and that nothing but the functions is open.

use super::checks::{AWKWARD, caught, contents, quoted};
use super::harness::{Database, column, refusal, refused, rows, value};
use postgres::Client;
use postgres::error::SqlState;

/// Every function for applications; a name that stands twice has two forms.
const APPLICATION: [&str; 31] = [
    "canonical_json",
    "event_bus_archive",
    "event_bus_archive_many",
    "event_bus_bury",
    "event_bus_dead_letters",
    "event_bus_extend",
    "event_bus_read",
    "event_bus_requeue",
    "event_bus_send",
    "event_bus_send",
    "event_bus_send_many",
    "inbox_claim_client",
    "inbox_claim_event",
    "inbox_claim_events",
    "inbox_claim_request",
    "inbox_save_client_outcome",
    "inbox_sweep_clients",
    "job_advance",
    "job_claim",
    "job_claim_many",
    "job_complete",
    "job_complete_many",
    "job_fail",
    "job_fail_many",
    "job_heartbeat",
    "job_tick_claim",
    "queue_mark_sent",
    "queue_waiting",
    "queue_write",
    "queue_write_many",
    "request_fingerprint",
];
const OPERATOR_TOO: [&str; 13] = [
    "event_bus_all_dead_letters",
    "event_bus_check",
    "event_bus_record",
    "event_bus_repair",
    "event_bus_subscribe",
    "event_bus_sweep",
    "event_bus_unsubscribe",
    "hfs_lite_age",
    "hfs_lite_health",
    "inbox_forget",
    "inbox_sweep_events",
    "jobs_sweep",
    "queue_sweep",
];
/// What changes nothing.
const MONITOR: [&str; 4] = ["event_bus_all_dead_letters", "event_bus_check", "hfs_lite_age", "hfs_lite_health"];
const TABLES: [&str; 5] =
    ["public.event_bus_subscriptions", "public.inbox", "public.job_ticks", "public.jobs", "public.queue"];
const VIEWS: [&str; 3] = ["public.hfs_lite_dead_letters", "public.hfs_lite_jobs", "public.hfs_lite_outbox"];
const SUPERUSER: [&str; 2] = ["hfs_lite_grant", "hfs_lite_revoke"];

/// The extension's functions; those of its tests are in another schema.
const FUNCTIONS: &str = "(
    select p.*, p.ctid, p.xmin from pg_proc p join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid
     where d.deptype = 'e' and d.refobjid = (select oid from pg_extension where extname = 'hfs_lite')
       and p.pronamespace = 'public'::regnamespace)";

/// The functions that a role may call.
fn callable(superuser: &mut Client, role: &str) -> Vec<String> {
    let may = format!(
        "select proname from {FUNCTIONS} p where has_function_privilege({}, p.oid, 'execute')
          order by proname collate \"C\"",
        quoted(role)
    );
    column(superuser, &may)
}

/// All rights on the extension's members that are neither the owner's nor those that app_be was granted.
fn rights(superuser: &mut Client) -> Vec<Vec<String>> {
    let on_functions = format!(
        "select p.oid::regprocedure::text, coalesce(r.rolname, 'PUBLIC'), a.privilege_type
           from {FUNCTIONS} p cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
           left join pg_roles r on r.oid = a.grantee
          where a.grantee <> p.proowner and r.rolname is distinct from 'app_be'"
    );
    let relations = format!("(array['{}']::regclass[])", [&TABLES[..], &VIEWS].concat().join("', '"));
    let on_tables = format!(
        "select c.oid::regclass::text, coalesce(r.rolname, 'PUBLIC'), a.privilege_type
           from pg_class c cross join aclexplode(c.relacl) a left join pg_roles r on r.oid = a.grantee
          where c.oid = any {relations} and a.grantee <> c.relowner"
    );
    let on_columns = format!(
        "select attrelid::regclass || '.' || attname, '', '' from pg_attribute
          where attrelid = any {relations} and attacl is not null"
    );
    rows(superuser, &format!("{on_functions} union all {on_tables} union all {on_columns} order by 1, 2, 3"))
}

/// A call of each function that a role of kind application may make, with arguments that are accepted.
const CALLS: [&str; 31] = [
    "select * from public.job_claim('mail', 'k', 'w', '3000-01-01', '{}', null)",
    "select * from public.job_advance('00000000-0000-0000-0000-000000000000', '1', 's', null)",
    "select * from public.job_fail('00000000-0000-0000-0000-000000000000', '1', 'r', null)",
    "select * from public.job_complete('00000000-0000-0000-0000-000000000000', '1', null)",
    "select * from public.job_tick_claim('daily', '2026-01-01 12:00+00', null)",
    "select * from public.queue_write('q', '{}', null, 'c')",
    "select * from public.queue_waiting('10')",
    "select * from public.queue_mark_sent('{00000000-0000-0000-0000-000000000000}', null)",
    "select * from public.inbox_claim_event('door', '1')",
    "select * from public.inbox_claim_client('door', '2', 'f', null)",
    "select * from public.inbox_claim_request('alice', 'pay', 'k', '{\"n\": 1.50}', null)",
    "select * from public.inbox_save_client_outcome('door', '2', '{}')",
    "select * from public.inbox_sweep_clients('2000-01-01', '10')",
    "select * from public.canonical_json('{\"n\": 1.50}')",
    "select * from public.request_fingerprint('{}')",
    "select * from public.event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}')",
    "select * from public.event_bus_send('e', 'order.created', '{\"dedupeKey\": \"d\"}', 'c')",
    "select * from public.event_bus_read('order.created__billing', '0', '10')",
    "select * from public.event_bus_archive('order.created__billing', '1', null)",
    "select * from public.event_bus_bury('order.created__billing', '2', 'r', null)",
    "select * from public.event_bus_dead_letters('order.created__billing', '10')",
    "select * from public.event_bus_requeue('order.created__billing', '1')",
    "select * from public.job_claim_many('mail', '{k1,k2}', 'w', '3000-01-01', '{1,2}', null)",
    "select * from public.job_heartbeat('00000000-0000-0000-0000-000000000000', '1', '3000-01-01', null)",
    "select * from public.job_complete_many('{00000000-0000-0000-0000-000000000000}', '{1}', null)",
    "select * from public.job_fail_many('{00000000-0000-0000-0000-000000000000}', '{1}', '{r}', null)",
    "select * from public.queue_write_many('q', '{1,2}', null, 'c')",
    "select * from public.inbox_claim_events('door', '{1,2}')",
    r#"select * from public.event_bus_send_many('order.created', '{"{\"payload\": {\"dedupeKey\": \"d\"}}"}')"#,
    "select * from public.event_bus_archive_many('order.created__billing', '{1,2}', '{1,1}')",
    "select * from public.event_bus_extend('order.created__billing', '1', '1', '60')",
];
const OPERATORS_CALLS: [&str; 9] = [
    "select * from public.event_bus_subscribe('order.created', 'billing')",
    "select * from public.inbox_forget('door', '1')",
    "select * from public.jobs_sweep('2000-01-01', '10')",
    "select * from public.queue_sweep('2000-01-01', '10')",
    "select * from public.inbox_sweep_events('2000-01-01', '10')",
    "select * from public.event_bus_sweep('order.created__billing', '2000-01-01', '10')",
    "select * from public.event_bus_unsubscribe('order.created', 'no queue')",
    "select * from public.event_bus_record()",
    "select * from public.event_bus_repair()",
];
const MONITORS_CALLS: [&str; 7] = [
    "select * from public.event_bus_all_dead_letters()",
    "select * from public.event_bus_check()",
    "select * from public.hfs_lite_health()",
    "select * from public.hfs_lite_age('2026-01-01')",
    "select * from public.hfs_lite_jobs",
    "select * from public.hfs_lite_outbox",
    "select * from public.hfs_lite_dead_letters",
];

#[test]
fn a_role_may_call_what_its_kind_may_and_nothing_else() {
    let database = Database::new();
    let mut superuser = database.connect();
    let mut all = [&APPLICATION[..], &OPERATOR_TOO, &SUPERUSER].concat();
    all.sort_unstable();
    assert_eq!(column(&mut superuser, &format!("select proname from {FUNCTIONS} p order by 1")), all);
    let mut operators = [&APPLICATION[..], &OPERATOR_TOO].concat();
    operators.sort_unstable();
    assert_eq!(callable(&mut superuser, "app_be"), APPLICATION);
    assert_eq!(callable(&mut superuser, "operator"), operators);
    superuser
        .batch_execute("create role monitor_of_this_test; select hfs_lite_grant('monitor_of_this_test', 'monitor')")
        .unwrap();
    assert_eq!(callable(&mut superuser, "monitor_of_this_test"), MONITOR);
    assert!(callable(&mut superuser, "anon").is_empty());
    assert!(callable(&mut superuser, "authenticated").is_empty());

    // And so it is when they call.
    let mut operator = database.connect_as("operator");
    let mut session = database.connect_as("app_be");
    for call in OPERATORS_CALLS.iter().chain(&MONITORS_CALLS).chain(&CALLS) {
        rows(&mut operator, call);
    }
    for call in CALLS {
        rows(&mut session, call);
    }
    let before = contents(&mut superuser);
    let grant = ["select public.hfs_lite_grant('app_be')", "select public.hfs_lite_revoke('operator')"];
    for call in OPERATORS_CALLS.iter().chain(&MONITORS_CALLS).chain(&grant) {
        assert_eq!(refusal(session.simple_query(call)).code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
    }
    for call in grant {
        assert_eq!(refusal(operator.simple_query(call)).code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
    }
    for role in ["anon", "authenticated"] {
        let mut browser = database.connect();
        browser.batch_execute(&format!("set role {role}")).unwrap();
        for call in CALLS.iter().chain(&OPERATORS_CALLS).chain(&MONITORS_CALLS).chain(&grant) {
            assert_eq!(refusal(browser.simple_query(call)).code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{role}: {call}");
        }
    }
    let mut monitor = database.connect();
    monitor.batch_execute("set role monitor_of_this_test").unwrap();
    for call in MONITORS_CALLS {
        rows(&mut monitor, call);
    }
    for call in CALLS.iter().chain(&OPERATORS_CALLS).chain(&grant) {
        assert_eq!(refusal(monitor.simple_query(call)).code(), &SqlState::INSUFFICIENT_PRIVILEGE, "monitor: {call}");
    }
    assert_eq!(contents(&mut superuser), before);
    monitor.batch_execute("reset role").unwrap();
    superuser.batch_execute("select hfs_lite_revoke('monitor_of_this_test'); drop role monitor_of_this_test").unwrap();
}

#[test]
fn no_role_but_the_owner_has_a_right_on_a_table_or_on_schema_pgmq() {
    let database = Database::new();
    let mut superuser = database.connect();
    rows(&mut superuser, OPERATORS_CALLS[0]);
    let on_tables = "select r.rolname, c.oid::regclass
          from pg_class c cross join pg_roles r
         where c.relkind in ('r', 'S') and c.relnamespace in ('public'::regnamespace, 'pgmq'::regnamespace)
           and r.rolname in ('app_be', 'operator', 'anon', 'authenticated')
           and case when c.relkind = 'S' then has_sequence_privilege(r.oid, c.oid, 'usage, select, update')
                    else has_table_privilege(r.oid, c.oid,
                           'select, insert, update, delete, truncate, references, trigger')
                      or has_any_column_privilege(r.oid, c.oid, 'select, insert, update, references') end
           and not (c.relnamespace = 'pgmq'::regnamespace and not has_schema_privilege(r.oid, 'pgmq', 'usage'))";
    assert!(rows(&mut superuser, on_tables).is_empty());
    let on_schema = "select r from unnest(array['app_be', 'operator', 'anon', 'authenticated']) r
         where has_schema_privilege(r, 'pgmq', 'usage, create') or has_schema_privilege(r, 'public', 'create')";
    assert!(rows(&mut superuser, on_schema).is_empty());
    let guarded = "select 'public.' || relname from pg_class where relrowsecurity and relforcerowsecurity
          and relnamespace = 'public'::regnamespace order by 1";
    assert_eq!(column(&mut superuser, guarded), TABLES, "row level security is enabled and forced");
    let mut session = database.connect_as("app_be");
    for table in TABLES.iter().chain(&VIEWS).chain(&["pgmq.meta"]) {
        let mut statements = vec![format!("select from {table}")];
        // Some views cannot be written at all, whatever the rights.
        if !VIEWS.contains(table) {
            statements.extend([format!("delete from {table}"), format!("insert into {table} default values")]);
        }
        for statement in statements {
            assert_eq!(
                refusal(session.simple_query(&statement)).code(),
                &SqlState::INSUFFICIENT_PRIVILEGE,
                "{statement}"
            );
        }
    }
}

#[test]
fn default_privileges_of_the_database_open_nothing() {
    let database = Database::empty();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "alter default privileges grant all on tables to anon, authenticated, app_be, public;
             alter default privileges grant all on sequences to anon, authenticated, app_be, public;
             alter default privileges grant all on functions to anon, authenticated, app_be;
             alter default privileges in schema public grant all on tables to anon, authenticated, app_be;
             alter default privileges in schema public grant all on functions to anon, authenticated, app_be, public;
             create extension hfs_lite cascade",
        )
        .unwrap();
    assert_eq!(rights(&mut superuser), Vec::<Vec<String>>::new());
    assert_eq!(callable(&mut superuser, "app_be"), APPLICATION, "app_be gets its rights at once, and no more");
    for role in ["anon", "authenticated", "operator"] {
        assert!(callable(&mut superuser, role).is_empty(), "{role}");
    }
    let mut session = database.connect_as("app_be");
    for table in TABLES.iter().chain(&VIEWS) {
        let select = format!("select from {table}");
        assert_eq!(refusal(session.simple_query(&select)).code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{table}");
    }
}

#[test]
fn public_has_no_right_and_only_app_be_and_those_granted_have_one() {
    let database = Database::empty();
    let mut superuser = database.connect();
    superuser.batch_execute("create extension hfs_lite cascade").unwrap();
    assert_eq!(rights(&mut superuser), Vec::<Vec<String>>::new());
    assert_eq!(callable(&mut superuser, "app_be"), APPLICATION);
    assert!(callable(&mut superuser, "operator").is_empty());
    // Each right is EXECUTE, or SELECT on a view, without the right to pass it on.
    superuser.batch_execute("select hfs_lite_grant('operator', 'operator')").unwrap();
    let granted = rights(&mut superuser);
    let on = |privilege: &str| granted.iter().filter(|right| right[1..] == ["operator", privilege]).count();
    assert_eq!((on("EXECUTE"), on("SELECT"), granted.len()), (44, 3, 47), "{granted:?}");
    let passed_on = format!(
        "select count(*) from {FUNCTIONS} p, aclexplode(p.proacl) a where a.is_grantable and a.grantee <> p.proowner"
    );
    assert_eq!(value(&mut superuser, &passed_on), "0");
}

#[test]
fn granting_and_revoking_may_be_repeated() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser.batch_execute("begin; create role worker; create role \"it's \"\"x\"\" \\ %I;\"").unwrap();
    let rights = format!(
        "select p.ctid, p.xmin, p.proacl::text from {FUNCTIONS} p
         union all select ctid, xmin, relacl::text from pg_class where oid = any ('{{{}}}'::regclass[]) order by 3, 1",
        VIEWS.join(",")
    );
    for role in ["worker", "it's \"x\" \\ %I;"] {
        let name = quoted(role);
        let before = rows(&mut superuser, &rights).into_iter().map(|mut row| row.remove(2)).collect::<Vec<_>>();
        for _ in 0..2 {
            rows(&mut superuser, &format!("select hfs_lite_revoke({name})"));
            assert!(callable(&mut superuser, role).is_empty());
        }
        for call in [format!("hfs_lite_grant({name})"), format!("hfs_lite_grant({name}, 'application')")] {
            rows(&mut superuser, &format!("select {call}"));
            assert_eq!(callable(&mut superuser, role), APPLICATION);
        }
        rows(&mut superuser, &format!("select hfs_lite_grant({name}, 'operator')"));
        assert_eq!(callable(&mut superuser, role).len(), 44, "an application may become an operator");
        let once = rows(&mut superuser, &rights);
        rows(&mut superuser, &format!("select hfs_lite_grant({name}, 'operator')"));
        assert_eq!(rows(&mut superuser, &rights), once, "a repeat writes nothing");
        for _ in 0..2 {
            rows(&mut superuser, &format!("select hfs_lite_revoke({name})"));
            assert!(callable(&mut superuser, role).is_empty());
        }
        let after = rows(&mut superuser, &rights).into_iter().map(|mut row| row.remove(2)).collect::<Vec<_>>();
        assert_eq!(after, before, "other roles keep theirs");
    }
    superuser.batch_execute("rollback").unwrap();
}

#[test]
fn what_a_role_was_granted_by_hand_is_taken_back_too() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "begin; create role worker; grant all on all functions in schema public to worker;
             select hfs_lite_revoke('worker')",
        )
        .unwrap();
    assert!(callable(&mut superuser, "worker").is_empty());
    superuser.batch_execute("select hfs_lite_revoke('app_be')").unwrap();
    assert!(callable(&mut superuser, "app_be").is_empty());
    superuser.batch_execute("rollback").unwrap();
    assert_eq!(callable(&mut superuser, "app_be"), APPLICATION);
}

#[test]
fn the_owner_keeps_its_rights() {
    let database = Database::new();
    let mut superuser = database.connect();
    let owner = value(&mut superuser, "select quote_literal(current_user)");
    let before = rows(&mut superuser, &format!("select proacl from {FUNCTIONS} p order by oid"));
    for call in ["hfs_lite_grant", "hfs_lite_revoke"] {
        rows(&mut superuser, &format!("select public.{call}({owner})"));
        assert_eq!(rows(&mut superuser, &format!("select proacl from {FUNCTIONS} p order by oid")), before);
    }
}

#[test]
fn browser_roles_and_what_they_are_members_of_are_refused() {
    let database = Database::new();
    let mut superuser = database.connect();
    // Roles are the server's: they are made and unmade in one transaction, so that no other test sees them.
    superuser
        .batch_execute(
            "begin;
             create role web; create role web_base; create role signed_in noinherit; create role harmless;
             grant web to anon; grant web_base to web; grant signed_in to authenticated; grant anon to harmless",
        )
        .unwrap();
    let before = rows(&mut superuser, &format!("select proacl from {FUNCTIONS} p order by oid"));
    for (role, browser) in [
        ("anon", "anon"),
        ("authenticated", "authenticated"),
        ("web", "anon"),
        ("web_base", "anon"),
        ("signed_in", "authenticated"),
    ] {
        for kind in ["", ", 'application'", ", 'operator'"] {
            let call = format!("select * from public.hfs_lite_grant('{role}'{kind})");
            let error = refused(&mut superuser, &call, "22023", "p_role");
            assert!(error.hint().unwrap().contains(browser), "{error:?}");
            caught(&mut superuser, &call, "22023");
        }
        rows(&mut superuser, &format!("select public.hfs_lite_revoke('{role}')"));
    }
    assert_eq!(rows(&mut superuser, &format!("select proacl from {FUNCTIONS} p order by oid")), before);
    rows(&mut superuser, "select public.hfs_lite_grant('harmless')");
    assert!(callable(&mut superuser, "anon").is_empty() && callable(&mut superuser, "authenticated").is_empty());
    superuser.batch_execute("rollback").unwrap();
}

#[test]
fn only_a_superuser_grants_and_revokes_even_where_execute_was_granted() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser.batch_execute("grant execute on all functions in schema public to app_be").unwrap();
    let mut session = database.connect_as("app_be");
    let before = rows(&mut superuser, &format!("select proacl from {FUNCTIONS} p order by oid"));
    for call in [
        "select * from public.hfs_lite_grant('app_be', 'operator')",
        "select * from public.hfs_lite_grant('operator')",
        "select * from public.hfs_lite_grant('anon')",
        "select * from public.hfs_lite_revoke('operator')",
        "select * from public.hfs_lite_revoke('app_be')",
    ] {
        refused(&mut session, call, "42501", "superuser");
        caught(&mut session, call, "42501");
        // Nor a superuser who took the role on.
        superuser.batch_execute("set role app_be").unwrap();
        refused(&mut superuser, call, "42501", "superuser");
        superuser.batch_execute("reset role").unwrap();
    }
    assert_eq!(rows(&mut superuser, &format!("select proacl from {FUNCTIONS} p order by oid")), before);
}

#[test]
fn every_argument_of_the_doors_is_checked() {
    let database = Database::new();
    let mut superuser = database.connect();
    let awkward = quoted(&AWKWARD.chars().take(40).collect::<String>());
    for (call, sqlstate, argument) in [
        ("hfs_lite_grant(null)", "22004", "p_role"),
        ("hfs_lite_grant('app_be', null)", "22004", "p_as"),
        ("hfs_lite_grant('')", "22023", "p_role"),
        ("hfs_lite_grant('app_be', '')", "22023", "p_as"),
        ("hfs_lite_grant('app_be', 'admin')", "22023", "p_as"),
        ("hfs_lite_grant('app_be', 'Operator')", "22023", "p_as"),
        ("hfs_lite_grant('app_be', 'operator ')", "22023", "p_as"),
        ("hfs_lite_grant('nobody')", "42704", "p_role"),
        ("hfs_lite_grant('APP_BE')", "42704", "p_role"),
        ("hfs_lite_grant('public')", "42704", "p_role"),
        (&format!("hfs_lite_grant({awkward})"), "42704", "p_role"),
        (&format!("hfs_lite_grant('app_be', {awkward})"), "22023", "p_as"),
        ("hfs_lite_revoke(null)", "22004", "p_role"),
        ("hfs_lite_revoke('')", "22023", "p_role"),
        ("hfs_lite_revoke('nobody')", "42704", "p_role"),
        (&format!("hfs_lite_revoke({awkward})"), "42704", "p_role"),
    ] {
        let call = format!("select * from public.{call}");
        refused(&mut superuser, &call, sqlstate, argument);
        caught(&mut superuser, &call, sqlstate);
    }
    assert_eq!(callable(&mut superuser, "app_be"), APPLICATION);
}

#[test]
fn a_hostile_search_path_of_the_caller_does_not_matter() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "create schema hostile authorization app_be;
             grant temporary on database :database to app_be"
                .replace(":database", &value(&mut database.connect(), "select quote_ident(current_database())"))
                .as_str(),
        )
        .unwrap();
    rows(&mut superuser, OPERATORS_CALLS[0]);
    let mut session = database.connect_as("app_be");
    // Functions and operators of the names and types that the extension's statements use; each gives itself away.
    let functions = [
        "now()",
        "clock_timestamp()",
        "gen_random_uuid()",
        "lower(text)",
        "left(text, integer)",
        "char_length(text)",
        "replace(text, text, text)",
        "age(xid)",
        "jsonb_build_object(variadic \"any\")",
        "jsonb_typeof(jsonb)",
        "jsonb_path_query_first_tz(jsonb, jsonpath, jsonb, boolean)",
        "substring(text, text)",
        "sha256(bytea)",
        "pg_stat_get_activity(integer)",
        "unnest(anyarray)",
    ];
    for function in functions {
        // A VARIADIC "any" needs C; one with the same number of arguments does as well.
        let function = function.replace("variadic \"any\"", "text, jsonb");
        session
            .batch_execute(&format!(
                "create function hostile.{function} returns text language plpgsql as
                   $$ begin raise 'hijacked as %', current_user; end $$"
            ))
            .unwrap();
    }
    let operators = [
        ("=", "varchar", "varchar"),
        ("=", "varchar", "text"),
        ("=", "text", "text"),
        ("=", "uuid", "uuid"),
        ("=", "bigint", "bigint"),
        ("=", "integer", "integer"),
        ("=", "timestamptz", "timestamptz"),
        ("<", "timestamptz", "timestamptz"),
        (">", "timestamptz", "timestamptz"),
        ("<=", "timestamptz", "timestamptz"),
        (">=", "timestamptz", "timestamptz"),
        ("+", "bigint", "integer"),
        ("+", "integer", "integer"),
        ("-", "timestamptz", "interval"),
        ("-", "jsonb", "text"),
        ("||", "jsonb", "jsonb"),
        ("||", "text", "text"),
        ("->", "jsonb", "text"),
        ("->>", "jsonb", "text"),
        ("#>", "jsonb", "text[]"),
        ("#>>", "jsonb", "text[]"),
        ("~", "text", "text"),
        ("~~", "text", "text"),
        ("<>", "text", "text"),
        (">", "integer", "integer"),
    ];
    for (operator, left, right) in operators {
        let function = format!("hostile.\"op {operator}\"({left}, {right})");
        session
            .batch_execute(&format!(
                "create function {function} returns boolean language plpgsql as
                   $$ begin raise 'hijacked as %', current_user; end $$;
                 create operator hostile.{operator}
                   (leftarg = {left}, rightarg = {right}, function = hostile.\"op {operator}\")"
            ))
            .unwrap();
    }
    session
        .batch_execute(
            "create temporary table jobs (id integer); create temporary table job_ticks (id integer);
             create temporary table queue (id integer); create temporary table inbox (id integer);
             create table hostile.jobs (id integer); create table hostile.meta (queue_name text);
             create type hostile.jsonb as (x integer); create type pg_temp.uuid as (x integer);
             create function pg_temp.job_claim(varchar, varchar, varchar, timestamptz, jsonb, timestamptz) returns text
               language plpgsql as $$ begin raise 'hijacked'; end $$;
             set search_path = hostile, pg_temp, public, pg_catalog",
        )
        .unwrap();
    let mut operator = database.connect_as("operator");
    superuser.batch_execute("grant usage on schema hostile to operator").unwrap();
    operator.batch_execute("set search_path = hostile, pg_temp, public, pg_catalog").unwrap();
    // The trap works: an operator and a function of the schema come first.
    assert!(refusal(session.simple_query("select 'a'::text = 'b'::text")).message().contains("hijacked as app_be"));
    assert!(refusal(session.simple_query("select now()")).message().contains("hijacked as app_be"));
    let mut answers = 0;
    // Twice: with plans that are made now, and with those that were saved.
    for _ in 0..2 {
        for call in CALLS {
            answers += rows(&mut session, call).len();
        }
        for call in OPERATORS_CALLS.iter().chain(&MONITORS_CALLS) {
            rows(&mut operator, call);
        }
        assert_eq!(value(&mut session, "show search_path"), "hostile, pg_temp, public, pg_catalog");
    }
    assert!(answers > 20, "{answers}");
    assert_eq!(value(&mut superuser, "select count(*) from public.jobs"), "3");
    assert_eq!(value(&mut superuser, "select count(*) from public.queue"), "6");
    assert_eq!(value(&mut superuser, "select count(*) from public.inbox"), "2", "one of three was forgotten");
    // The superuser's doors are called with the same path.
    superuser.batch_execute("set search_path = hostile, pg_temp, public, pg_catalog").unwrap();
    superuser.batch_execute("select public.hfs_lite_revoke('operator'::pg_catalog.name)").unwrap();
    superuser.batch_execute("select public.hfs_lite_grant('operator'::pg_catalog.name, 'operator')").unwrap();
    superuser.batch_execute("reset search_path").unwrap();
    assert_eq!(callable(&mut superuser, "operator").len(), 44);
}

#[test]
fn in_a_read_only_transaction_what_writes_gets_postgresqls_own_error() {
    let database = Database::new();
    rows(&mut database.connect(), OPERATORS_CALLS[0]);
    let mut session = database.connect_as("operator");
    let before = contents(&mut database.connect());
    session.batch_execute("begin read only").unwrap();
    for call in CALLS.iter().chain(&OPERATORS_CALLS).chain(&MONITORS_CALLS) {
        session.batch_execute("savepoint s").unwrap();
        let result = session.simple_query(call);
        let only_read = ["canonical_json", "request_fingerprint", "event_bus_dead_letters"];
        if only_read.iter().any(|function| call.contains(function)) || MONITORS_CALLS.contains(call) {
            assert!(result.is_ok(), "{call}: {result:?}");
        } else {
            assert_eq!(refusal(result).code(), &SqlState::READ_ONLY_SQL_TRANSACTION, "{call}");
        }
        session.batch_execute("rollback to savepoint s").unwrap();
    }
    session.batch_execute("rollback").unwrap();
    assert_eq!(contents(&mut database.connect()), before);
}

#[test]
fn no_state_is_left_in_the_session() {
    let database = Database::new();
    rows(&mut database.connect(), OPERATORS_CALLS[0]);
    let mut session = database.connect_as("operator");
    let state = "select 'setting', name, setting from pg_settings where source = 'session'
        union all select 'statement', name, '' from pg_prepared_statements
        union all select 'cursor', name, '' from pg_cursors
        union all select 'temporary', oid::regclass::text, '' from pg_class where relpersistence = 't'
        union all select 'lock', locktype, mode from pg_locks where pid = pg_backend_pid() and locktype <> 'virtualxid'
                     and relation is null
        union all select 'role', current_user, session_user";
    let before = rows(&mut session, state);
    for call in CALLS.iter().chain(&OPERATORS_CALLS) {
        rows(&mut session, call);
    }
    refused(&mut session, "select * from public.queue_waiting(0)", "22023", "p_batch");
    assert_eq!(rows(&mut session, state), before);
}

#[test]
fn every_function_can_be_called_with_untyped_parameters_and_without_its_defaults() {
    let database = Database::new();
    let mut session = database.connect();
    let signatures = format!(
        "select p.oid::regprocedure, proname, n, pg_get_function_arguments(p.oid)
           from {FUNCTIONS} p, generate_series(pronargs - pronargdefaults, pronargs::integer) n"
    );
    let signatures = rows(&mut session, &signatures);
    let mut seen = std::collections::HashSet::new();
    for signature in &signatures {
        let [function, name, arguments] = &signature[..3] else { unreachable!() };
        assert!(seen.insert((name, arguments)), "{name} has two forms with {arguments} arguments");
        let count: usize = arguments.parse().unwrap();
        let parameters: Vec<String> = (1..=count).map(|i| format!("${i}")).collect();
        let statement = format!("select * from public.{name}({})", parameters.join(", "));
        let prepared = session.prepare(&statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        assert_eq!(prepared.params().len(), count, "{function}");
    }
    assert_eq!(signatures.len(), 46 + 11, "46 functions and 11 defaults");
}

#[test]
fn the_functions_run_as_a_superuser_with_a_pinned_path() {
    let database = Database::new();
    let mut superuser = database.connect();
    let loose = format!(
        "select p.oid::regprocedure from {FUNCTIONS} p
          where not (p.prosecdef and 'search_path=pg_catalog, pg_temp' = any (p.proconfig)
                     or p.proname in ('canonical_json', 'request_fingerprint', 'hfs_lite_age'))
             or not (select rolsuper from pg_roles r where r.oid = p.proowner)"
    );
    assert!(rows(&mut superuser, &loose).is_empty());
}
