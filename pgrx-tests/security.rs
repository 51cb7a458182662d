//! Hostile tries: roles that reach for what they were not given, names that were put in the way, and queues of others. Each
//! fails with a clear error, or comes to nothing.

use super::checks::{AWKWARD, contents, quoted};
use super::harness::{Database, column, refusal, rows, try_rows, value};
use postgres::Client;

/// Every function: its arguments in a call that is accepted, and the roles that may make it. A new function fails these
/// tests until it stands here.
const DOORS: [(&str, &[&str], &str); 46] = [
    ("canonical_json", &["'{\"n\": 1.50}'"], "app_be operator"),
    ("event_bus_all_dead_letters", &["'10'"], "operator monitor"),
    ("event_bus_archive", &["'order.created__billing'", "'1'", "null"], "app_be operator"),
    ("event_bus_archive_many", &["'order.created__billing'", "'{1}'", "'{1}'"], "app_be operator"),
    ("event_bus_bury", &["'order.created__billing'", "'2'", "'why'", "null"], "app_be operator"),
    ("event_bus_check", &[], "operator monitor"),
    ("event_bus_dead_letters", &["'order.created__billing'", "'10'"], "app_be operator"),
    ("event_bus_extend", &["'order.created__billing'", "'1'", "'1'", "'60'"], "app_be operator"),
    ("event_bus_read", &["'order.created__billing'", "'0'", "'10'"], "app_be operator"),
    ("event_bus_record", &["'order.created__billing'"], "operator"),
    ("event_bus_repair", &[], "operator"),
    ("event_bus_requeue", &["'order.created__billing'", "'1'"], "app_be operator"),
    ("event_bus_send", &["'order.created'", "'{\"payload\": {\"dedupeKey\": \"d\"}}'"], "app_be operator"),
    ("event_bus_send", &["'e'", "'order.created'", "'{\"dedupeKey\": \"d\"}'", "'c'"], "app_be operator"),
    ("event_bus_send_many", &["'order.created'", r#"'{"{\"payload\": {\"dedupeKey\": \"d\"}}"}'"#], "app_be operator"),
    ("event_bus_subscribe", &["'order.created'", "'shipping'"], "operator"),
    ("event_bus_sweep", &["'order.created__billing'", "'2026-01-01'", "'10'"], "operator"),
    ("event_bus_unsubscribe", &["'order.created'", "'order.created__billing'"], "operator"),
    ("hfs_lite_age", &["'2026-01-01'", "'2026-01-02'"], "operator monitor"),
    ("hfs_lite_grant", &["'operator'", "'operator'"], ""),
    ("hfs_lite_health", &[], "operator monitor"),
    ("hfs_lite_revoke", &["'operator'"], ""),
    ("inbox_claim_client", &["'door'", "'2'", "'f'", "null"], "app_be operator"),
    ("inbox_claim_event", &["'door'", "'3'"], "app_be operator"),
    ("inbox_claim_events", &["'door'", "'{4,5}'"], "app_be operator"),
    ("inbox_claim_request", &["'alice'", "'pay'", "'k'", "'{\"n\": 1.50}'", "null"], "app_be operator"),
    ("inbox_forget", &["'door'", "'1'"], "operator"),
    ("inbox_save_client_outcome", &["'door'", "'2'", "'{}'"], "app_be operator"),
    ("inbox_sweep_clients", &["'2026-01-01'", "'10'"], "app_be operator"),
    ("inbox_sweep_events", &["'2026-01-01'", "'10'"], "operator"),
    ("job_advance", &["'00000000-0000-0000-0000-000000000000'", "'1'", "'step'", "null"], "app_be operator"),
    ("job_claim", &["'mail'", "'new'", "'w'", "'3000-01-01'", "'{}'", "null"], "app_be operator"),
    ("job_claim_many", &["'mail'", "'{a,b}'", "'w'", "'3000-01-01'", "'{1,2}'", "null"], "app_be operator"),
    ("job_complete", &["'00000000-0000-0000-0000-000000000000'", "'1'", "null"], "app_be operator"),
    ("job_complete_many", &["'{00000000-0000-0000-0000-000000000000}'", "'{1}'", "null"], "app_be operator"),
    ("job_fail", &["'00000000-0000-0000-0000-000000000000'", "'1'", "'why'", "null"], "app_be operator"),
    ("job_fail_many", &["'{00000000-0000-0000-0000-000000000000}'", "'{1}'", "'{why}'", "null"], "app_be operator"),
    ("job_heartbeat", &["'00000000-0000-0000-0000-000000000000'", "'1'", "'3000-01-01'", "null"], "app_be operator"),
    ("job_tick_claim", &["'daily'", "'2026-01-01 12:00+00'", "null"], "app_be operator"),
    ("jobs_sweep", &["'2026-01-01'", "'10'"], "operator"),
    ("queue_mark_sent", &["'{00000000-0000-0000-0000-000000000000}'", "null"], "app_be operator"),
    ("queue_sweep", &["'2026-01-01'", "'10'"], "operator"),
    ("queue_waiting", &["'10'"], "app_be operator"),
    ("queue_write", &["'q'", "'{}'", "null", "'c'"], "app_be operator"),
    ("queue_write_many", &["'q'", "'{1,2}'", "null", "'c'"], "app_be operator"),
    ("request_fingerprint", &["'{}'"], "app_be operator"),
];
const VIEWS: [&str; 3] = ["hfs_lite_dead_letters", "hfs_lite_jobs", "hfs_lite_outbox"];
/// `outsider` has been granted nothing, and has what PUBLIC has.
const ROLES: [&str; 6] = ["anon", "app_be", "authenticated", "monitor", "operator", "outsider"];

const MEMBERS: &str = "pg_depend d where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass
    and d.refobjid = (select oid from pg_extension where extname = 'hfs_lite')";

fn call(function: &str, arguments: &[&str]) -> String {
    format!("select * from public.{function}({})", arguments.join(", "))
}

/// A database in which every call of DOORS finds something.
fn scene() -> Database {
    let database = Database::new();
    database
        .connect()
        .batch_execute(
            "select event_bus_subscribe('order.created', 'billing');
             select event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}') from generate_series(1, 3);
             select event_bus_bury('order.created__billing', 3);
             select job_claim('mail', 'k', 'w', '3000-01-01', '{}', null);
             select queue_write('q', '{}', null, null);
             select inbox_claim_event('door', '1')",
        )
        .unwrap();
    database
}

/// A session of a role, be it one that may log in or not.
fn session(database: &Database, role: &str) -> Client {
    let mut session = database.connect();
    session.batch_execute(&format!("set session authorization {role}")).unwrap();
    session
}

#[track_caller]
fn denied(session: &mut Client, statement: &str) {
    let error = refusal(session.simple_query(statement));
    assert_eq!(error.code().code(), "42501", "{statement}: {error}");
    let clear = ["permission denied", "must be owner", "must be able to SET ROLE", "only the extension's owner"];
    assert!(clear.iter().any(|part| error.message().contains(part)), "{statement}: {error}");
}

// ---------------------------------------------------------------------------------------------------------------------
// Who may do what
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn the_list_of_doors_is_that_of_the_catalog() {
    let database = Database::new();
    let mut superuser = database.connect();
    let functions = format!(
        "select format('%s %s', p.proname, p.pronargs) from pg_proc p
          where p.pronamespace = 'public'::regnamespace
            and p.oid in (select d.objid from {MEMBERS} and d.classid = 'pg_proc'::regclass)
          order by format('%s %s', p.proname, p.pronargs) collate \"C\""
    );
    let mut doors: Vec<_> = DOORS.iter().map(|(name, arguments, _)| format!("{name} {}", arguments.len())).collect();
    doors.sort();
    assert_eq!(column(&mut superuser, &functions), doors);
    let views = format!(
        "select c.relname from pg_class c
          where c.relkind = 'v' and c.oid in (select d.objid from {MEMBERS} and d.classid = 'pg_class'::regclass) order by 1"
    );
    assert_eq!(column(&mut superuser, &views), VIEWS);
}

#[test]
fn each_role_calls_what_its_kind_may_and_is_refused_all_else() {
    let database = scene();
    let before = contents(&mut database.connect());
    for role in ROLES {
        let mut session = session(&database, role);
        for (function, arguments, roles) in DOORS {
            session.batch_execute("begin").unwrap();
            let call = call(function, arguments);
            if roles.split(' ').any(|may| may == role) {
                try_rows(&mut session, &call).unwrap_or_else(|error| panic!("{role}: {call}: {error:?}"));
            } else {
                let error = refusal(session.simple_query(&call));
                assert_eq!(error.code().code(), "42501", "{role}: {call}: {error}");
                assert_eq!(error.message(), format!("permission denied for function {function}"), "{role}");
            }
            session.batch_execute("rollback").unwrap();
        }
        for view in VIEWS {
            let select = format!("select * from public.{view}");
            if ["operator", "monitor"].contains(&role) {
                assert!(!rows(&mut session, &select).is_empty(), "{role}: {view}");
            } else {
                let error = refusal(session.simple_query(&select));
                assert_eq!(error.message(), format!("permission denied for view {view}"), "{role}");
            }
        }
    }
    assert_eq!(contents(&mut database.connect()), before);
}

#[test]
fn no_role_reaches_a_table_or_schema_pgmq_directly() {
    let database = scene();
    let mut superuser = database.connect();
    let before = contents(&mut superuser);
    let tables = rows(
        &mut superuser,
        &format!(
            "select c.oid::regclass, quote_ident(a.attname)
               from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum = 1
              where c.relkind = 'r'
                and (c.oid in (select d.objid from {MEMBERS} and d.classid = 'pg_class'::regclass)
                     or c.relnamespace = 'pgmq'::regnamespace)"
        ),
    );
    assert!(tables.len() >= 5 + 7, "{tables:?}");
    for role in ROLES {
        let mut session = session(&database, role);
        for table in &tables {
            let [table, column] = &table[..] else { unreachable!() };
            for statement in [
                format!("select from {table}"),
                format!("select {column} from {table} for update"),
                format!("insert into {table} default values"),
                format!("update {table} set {column} = {column}"),
                format!("delete from {table}"),
                format!("truncate {table}"),
                format!("copy {table} to stdout"),
                format!("alter table {table} disable row level security"),
                format!(
                    "create trigger t before insert on {table} execute function suppress_redundant_updates_trigger()"
                ),
                format!("create policy p on {table}"),
                format!("create index on {table} ({column})"),
                format!("create rule r as on insert to {table} do instead nothing"),
                format!("drop table {table}"),
            ] {
                denied(&mut session, &statement);
            }
        }
        for statement in [
            "select pgmq.send('order.created__billing', '{}')",
            "select pgmq.read('order.created__billing', 0, 1)",
            "select pgmq.pop('order.created__billing')",
            "select pgmq.create('mine')",
            "select pgmq.drop_queue('order.created__billing')",
            "select pgmq.purge_queue('order.created__billing')",
            "select pgmq.bind_topic('#', 'order.created__billing')",
            "create table pgmq.q_mine ()",
        ] {
            denied(&mut session, statement);
        }
    }
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn no_role_becomes_another_or_changes_the_extension() {
    let database = scene();
    let mut superuser = database.connect();
    let owner = value(&mut superuser, "select quote_ident(current_user)");
    // A place to put things, which is more than these roles have by themselves.
    superuser.batch_execute("grant create on schema public to public").unwrap();
    for role in ROLES {
        let mut session = database.connect();
        let may_log_in =
            value(&mut superuser, &format!("select rolcanlogin from pg_roles where rolname = '{role}'")) == "t";
        // SET SESSION AUTHORIZATION looks at who logged in.
        match may_log_in {
            true => session = database.connect_as(role),
            false => session.batch_execute(&format!("set session authorization {role}")).unwrap(),
        }
        let claim = "public.job_claim(varchar, varchar, varchar, timestamptz, jsonb, timestamptz)";
        let mut statements = vec![
            "alter extension hfs_lite update".to_owned(),
            "alter extension hfs_lite set schema pg_temp".into(),
            "alter extension hfs_lite drop table public.jobs".into(),
            "drop extension hfs_lite".into(),
            "drop extension pgmq cascade".into(),
            format!("drop function {claim}"),
            format!("alter function {claim} owner to {role}"),
            format!("alter function {claim} reset search_path"),
            format!("alter function {claim} security invoker"),
            format!("comment on function {claim} is 'mine'"),
            format!(
                "create or replace function public.hfs_lite_age(timestamptz, timestamptz default null) returns text
                       language sql as $$ select 'mine' $$"
            ),
            "create or replace view public.hfs_lite_jobs as select 1".into(),
            "alter view public.hfs_lite_jobs owner to outsider".into(),
            "drop view public.hfs_lite_jobs".into(),
            "create function public.mine() returns void language c as '$libdir/hfs_lite', 'hfs_lite_grant_wrapper'"
                .into(),
            "set log_statement = 'none'".into(),
        ];
        if may_log_in {
            statements.push(format!("set role {owner}"));
            statements.push(format!("set session authorization {owner}"));
        }
        for statement in statements {
            denied(&mut session, &statement);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Names in the way
// ---------------------------------------------------------------------------------------------------------------------

/// Fills a schema with functions and operators that note who ran them: one for each function of pg_catalog that the sources
/// call, by name and arguments, and one for each operator on the types that they use.
fn booby_trap(session: &mut Client, schema: &str) {
    let mut names = std::collections::BTreeSet::new();
    let folders = ["/src", "/src/statement"].map(|folder| format!("{}{folder}", env!("CARGO_MANIFEST_DIR")));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    for path in files.map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(path).unwrap();
        let calls =
            text.match_indices('(').map(|(at, _)| text[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_'));
        names.extend(calls.filter_map(|mut before| before.next().map(str::to_owned)).filter(|name| !name.is_empty()));
    }
    let names = quoted(&names.into_iter().collect::<Vec<_>>().join(" "));
    session
        .batch_execute(&format!(
            "create table {schema}.ran (what text, as_role text);
             grant all on {schema}.ran to public;
             do $do$
             declare
               f record;
               types oid[] := '{{text, varchar, name, \"char\", uuid, bigint, integer, smallint, float8, numeric, boolean, oid,
                                tid, timestamptz, interval, jsonb, jsonpath, text[], integer[]}}'::regtype[];
               body text := 'begin insert into {schema}.ran values (%L, current_user); return%s; end';
             begin
               for f in
                 select p.oid, p.proname, p.proretset, pg_get_function_identity_arguments(p.oid) as arguments,
                        format_type(p.prorettype, null) as answer
                   from pg_proc p
                  where p.pronamespace = 'pg_catalog'::regnamespace and p.proname = any (string_to_array({names}, ' '))
                    and p.prokind in ('f', 'a') and p.proallargtypes is null and p.provariadic = 0
                    and not exists (select from pg_type t
                                     where t.oid = any (p.proargtypes::oid[] || p.prorettype) and t.typtype = 'p')
               loop
                 execute format('create function {schema}.%I(%s) returns %s %s language plpgsql as %L', f.proname,
                                case when f.arguments = '*' then '' else f.arguments end,
                                case when f.proretset then 'setof' end, f.answer,
                                format(body, f.oid::regprocedure, case when f.proretset then '' else ' null' end));
               end loop;
               for f in
                 select o.oid, o.oprname, o.oprleft::regtype as l, o.oprright::regtype as r, o.oprresult::regtype as answer
                   from pg_operator o
                  where o.oprnamespace = 'pg_catalog'::regnamespace
                    and o.oprleft = any (types) and o.oprright = any (types)
               loop
                 execute format('create function {schema}.%I(%s, %s) returns %s language plpgsql as %L', 'operator ' || f.oid,
                                f.l, f.r, f.answer, format(body, f.oid::regoperator, ' null'));
                 execute format('create operator {schema}.%s (leftarg = %s, rightarg = %s, function = {schema}.%I)',
                                f.oprname, f.l, f.r, 'operator ' || f.oid);
               end loop;
             end $do$"
        ))
        .unwrap();
}

/// What an answer says, without what differs each time: ids, instants, and what statistics count later.
fn lasting(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let varies = |text: &String| {
        let id = text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4;
        let instant = text.len() > 18 && text.as_bytes()[4] == b'-' && text.contains(':');
        let age = text.contains('.') && text.parse::<f64>().is_ok()
            || text.ends_with(" second")
            || text.ends_with(" seconds");
        id || instant || age
    };
    let counted = |row: &[String]| row.last().is_some_and(|unit| unit == "tuples");
    rows.into_iter()
        .filter(|row| !counted(row))
        .map(|row| row.into_iter().map(|text| if varies(&text) { "…".into() } else { text }).collect())
        .collect()
}

#[test]
fn what_a_caller_put_into_its_search_path_is_never_run_and_changes_no_answer() {
    let database = scene();
    let mut superuser = database.connect();
    let name = value(&mut superuser, "select quote_ident(current_database())");
    superuser
        .batch_execute(&format!(
            "create schema hostile; grant all on schema hostile to public; grant temporary on database {name} to public"
        ))
        .unwrap();
    booby_trap(&mut session(&database, "outsider"), "hostile");
    assert!(
        value(&mut superuser, "select count(*) > 300 from pg_proc where pronamespace = 'hostile'::regnamespace") == "t"
    );
    let user = value(&mut superuser, "select current_user");
    for role in ["app_be", "operator", "monitor", user.as_str()] {
        let mut session = session(&database, &format!("\"{role}\""));
        let may = |roles: &str| role == user || roles.split(' ').any(|may| may == role);
        let mut calls: Vec<_> =
            DOORS.iter().filter(|(_, _, roles)| may(roles)).map(|(name, arguments, _)| call(name, arguments)).collect();
        if role != "app_be" {
            calls.extend(VIEWS.map(|view| format!("select * from public.{view}")));
        }
        let answers = |session: &mut Client| -> Vec<_> {
            let mut answer = |call: &String| {
                session.batch_execute("begin").unwrap();
                let rows = try_rows(session, call).unwrap_or_else(|error| panic!("{role}: {call}: {error:?}"));
                session.batch_execute("rollback").unwrap();
                // A dead letter's id comes from a sequence, which a rollback does not put back.
                let moved = call.contains("_bury") || call.contains("_requeue");
                (call.clone(), if moved { vec![vec![rows.len().to_string()]] } else { lasting(rows) })
            };
            // Twice: with plans that are made now, and with those that were saved.
            calls.iter().chain(&calls).map(&mut answer).collect()
        };
        let mut plain = self::session(&database, &format!("\"{role}\""));
        let expected = answers(&mut plain);
        session
            .batch_execute(
                "create temporary table jobs (id integer); create temporary table job_ticks (id integer);
                 create temporary table queue (id integer); create temporary table inbox (id integer);
                 create temporary table event_bus_subscriptions (id integer); create temporary table meta (id integer);
                 create temporary table topic_bindings (id integer); create temporary table pg_depend (id integer);
                 create temporary table pg_proc (id integer); create temporary table pg_class (id integer);
                 create temporary table pg_extension (id integer); create temporary table pg_roles (id integer);
                 create type pg_temp.uuid as (x integer); create type pg_temp.jsonb as (x integer);
                 set search_path = hostile, pg_temp, public, pg_catalog",
            )
            .unwrap();
        // The trap works.
        session.batch_execute("begin; select pg_catalog.now() + interval '1 day'; select clock_timestamp()").unwrap();
        assert_eq!(
            value(
                &mut session,
                &format!(
                    "select pg_catalog.count(*) from hostile.ran where as_role operator(pg_catalog.=) {}",
                    quoted(role)
                )
            ),
            "2"
        );
        session.batch_execute("rollback").unwrap();
        assert_eq!(answers(&mut session), expected, "{role}");
        // The calls were rolled back, and so was what ran in them: once more, and kept.
        session.batch_execute("begin").unwrap();
        for call in &calls {
            rows(&mut session, call);
        }
        session.batch_execute("set local search_path = pg_catalog").unwrap();
        assert_eq!(rows(&mut session, "select what, as_role from hostile.ran"), Vec::<Vec<String>>::new(), "{role}");
        session.batch_execute("rollback").unwrap();
    }
}

#[test]
fn a_temporary_table_of_our_names_is_never_written_even_from_a_security_definer_function() {
    let database = scene();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "create function public.shop() returns bigint security definer language sql as
               $$ select public.queue_write('q', '{}', null, null);
                  select public.inbox_claim_event('door', 'shop');
                  select fencing_token from public.job_claim('mail', 'shop', 'w', '3000-01-01', '{}', null) $$;
             create schema hostile; grant all on schema hostile to public;
             create table hostile.ran (as_role text); grant all on hostile.ran to public",
        )
        .unwrap();
    let mut session = database.connect_as("app_be");
    session
        .batch_execute(
            "create function hostile.note() returns trigger language plpgsql as
               $$ begin insert into hostile.ran values (current_user); return new; end $$",
        )
        .unwrap();
    let tables = ["jobs", "queue", "inbox"];
    for table in tables {
        session
            .batch_execute(&format!(
                "create temporary table {table} (id uuid, status text, source text, event_id text, sent_at timestamptz);
                 grant all on {table} to public;
                 create trigger note before insert or update on {table} for each row execute function hostile.note()"
            ))
            .unwrap();
    }
    assert_eq!(value(&mut session, "select public.shop()"), "1");
    for table in tables {
        assert_eq!(value(&mut session, &format!("select count(*) from pg_temp.{table}")), "0", "{table}");
        let public = format!("select count(*) from public.{table}");
        assert_eq!(value(&mut superuser, &public), "2", "{table}");
    }
    assert_eq!(value(&mut superuser, "select count(*) from hostile.ran"), "0");
}

#[test]
fn what_stands_under_our_names_before_create_extension_is_refused_and_nothing_is_left() {
    let database = Database::empty();
    let mut superuser = database.connect();
    superuser.batch_execute("grant create on schema public to outsider").unwrap();
    let mut outsider = session(&database, "outsider");
    for (look_alike, undo) in [
        (
            "create function public.job_claim(p_kind varchar, p_job_key varchar, p_worker varchar, p_lease_end timestamptz,
                                              p_payload jsonb, p_now timestamptz)
               returns table (id uuid, kind varchar, fencing_token bigint, current_step varchar, payload jsonb)
               language sql as $$ select null::uuid, null::varchar, 1::bigint, null::varchar, null::jsonb $$",
            "drop function public.job_claim",
        ),
        (
            "create function public.queue_write(varchar, jsonb, timestamptz, varchar) returns void language sql as ''",
            "drop function public.queue_write",
        ),
        (
            "create function public.hfs_lite_age(timestamptz, timestamptz) returns text language sql as $$ select '' $$",
            "drop function public.hfs_lite_age",
        ),
        ("create table public.jobs (id uuid primary key)", "drop table public.jobs"),
        ("create table public.event_bus_subscriptions (topic text)", "drop table public.event_bus_subscriptions"),
        ("create view public.queue as select 1 as id", "drop view public.queue"),
        ("create view public.hfs_lite_outbox as select 1 as id", "drop view public.hfs_lite_outbox"),
        ("create type public.inbox as (source text)", "drop type public.inbox"),
        ("create sequence public.job_ticks", "drop sequence public.job_ticks"),
    ] {
        outsider.batch_execute(look_alike).unwrap();
        let error = refusal(superuser.simple_query("create extension hfs_lite cascade"));
        let clear = ["42723", "42P07", "42710", "55000"];
        assert!(clear.contains(&error.code().code()), "{look_alike}: {error}");
        assert_eq!(value(&mut superuser, "select count(*) from pg_extension where extname in ('hfs_lite', 'pgmq')"), "0");
        outsider.batch_execute(undo).unwrap();
        let left = "select count(*) from pg_class where relnamespace = 'public'::regnamespace";
        assert_eq!(value(&mut superuser, left), "0", "{look_alike}");
        let left = "select count(*) from pg_proc where pronamespace = 'public'::regnamespace";
        assert_eq!(value(&mut superuser, left), "0", "{look_alike}");
    }
    superuser.batch_execute("create extension hfs_lite cascade").unwrap();
}

#[test]
fn what_stands_in_public_before_create_extension_is_never_run() {
    let database = Database::empty();
    let mut superuser = database.connect();
    superuser.batch_execute("grant create on schema public to outsider").unwrap();
    booby_trap(&mut session(&database, "outsider"), "public");
    superuser.batch_execute("create extension hfs_lite cascade").unwrap();
    superuser
        .batch_execute("select event_bus_subscribe('order.created', 'billing'); select event_bus_repair()")
        .unwrap();
    superuser.batch_execute("set search_path = pg_catalog").unwrap();
    assert_eq!(rows(&mut superuser, "select what, as_role from public.ran"), Vec::<Vec<String>>::new());
}

// ---------------------------------------------------------------------------------------------------------------------
// Text that would be SQL
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn text_that_would_be_sql_stays_text_in_every_argument() {
    let database = scene();
    let mut superuser = database.connect();
    let texts = rows(
        &mut superuser,
        "select p.proname, p.pronargs, t.position - 1
           from pg_proc p cross join lateral unnest(p.proargtypes) with ordinality t (type, position)
          where p.pronamespace = 'public'::regnamespace and t.type in ('text'::regtype, 'varchar'::regtype, 'name'::regtype)",
    );
    let drop = r#"x"; drop table public.jobs; --"#;
    let close = r#"x'); drop table public.jobs; --"#;
    let long = AWKWARD.repeat(20);
    let relations =
        "select count(*), string_agg(oid::regclass::text, ' ' order by oid) from pg_class where relkind in ('r', 'v')";
    let before = rows(&mut superuser, relations);
    let mut tried = 0;
    for (function, arguments, _) in DOORS {
        for text in texts.iter().filter(|text| text[0] == function && text[1] == arguments.len().to_string()) {
            for came in [AWKWARD, drop, close, &long, "\\", "%I%s%L", "{queue}", "$1"] {
                let came = quoted(came);
                let mut arguments = arguments.to_vec();
                arguments[text[2].parse::<usize>().unwrap()] = &came;
                let call = call(function, &arguments);
                superuser.batch_execute("begin").unwrap();
                if let Err(error) = try_rows(&mut superuser, &call) {
                    let code = error.as_db_error().unwrap().code().code().to_owned();
                    assert!(["22001", "22023", "42704"].contains(&code.as_str()), "{call}: {error:?}");
                } else {
                    assert_eq!(rows(&mut superuser, relations), before, "{call}");
                }
                superuser.batch_execute("rollback").unwrap();
                tried += 1;
            }
        }
    }
    assert!(tried > 250, "{tried}");
    assert_eq!(rows(&mut superuser, relations), before);
}

#[test]
fn a_queue_whose_name_would_be_sql_is_a_queue_like_any_other() {
    let database = scene();
    let mut superuser = database.connect();
    // pgmq refuses some of these names. Who may write to its tables gets by that.
    let legal = [r#"x" (select 1) /*"#, r"%I a\b {queue} {dead}", r#"It "is" X"#];
    let illegal = ["x'); drop table jobs; --", r#"x"; drop table jobs; --"#, "$1 $$ it''s"];
    for name in legal.iter().chain(&illegal) {
        let is_legal = legal.contains(name);
        let queue = quoted(name);
        let dead = quoted(&format!("{name}__dead"));
        for name in [&queue, &dead] {
            let make = if is_legal {
                format!("select pgmq.create({name})")
            } else {
                format!(
                    "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values ({name}, false, false);
                     do $do$
                     begin
                       execute format('create table pgmq.%I (like pgmq.\"q_order.created__billing\" including all)',
                                      lower('q_' || {name}));
                       execute format('create table pgmq.%I (like pgmq.\"a_order.created__billing\" including all)',
                                      lower('a_' || {name}));
                     end $do$"
                )
            };
            superuser.batch_execute(&make).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
        superuser.batch_execute(&format!("select pgmq.bind_topic('order.deleted', {queue})")).unwrap();
        let envelope = "'{\"payload\": {\"dedupeKey\": \"d\"}}'";
        let mut is = |call: &str, expected: &str| assert_eq!(value(&mut superuser, call), expected, "{call}");
        is(&format!("select queues from event_bus_send('order.deleted', {envelope})"), "1");
        is(&format!("select queues from event_bus_send('order.deleted', {envelope})"), "1");
        is(&format!("select msg_id from event_bus_read({queue}, 0, 1)"), "1");
        is(&format!("select msg_id from event_bus_read({queue}, 100, 2) limit 1"), "1");
        is(&format!("select msg_id from event_bus_archive({queue}, 1)"), "1");
        is(&format!("select msg_id from event_bus_bury({queue}, 2, {queue})"), "1");
        is(&format!("select reason from event_bus_dead_letters({queue})"), name);
        is(&format!("select reason from event_bus_all_dead_letters() where queue = {queue}"), name);
        is(&format!("select value from hfs_lite_health() where name = {queue} and metric = 'dead'"), "1");
        is(&format!("select count(*) from hfs_lite_health() where name = {queue}"), "5");
        is(&format!("select queue from event_bus_record({queue})"), name);
        is(&format!("select msg_id from event_bus_requeue({queue}, 1)"), "3");
        is(&format!("select deleted_count from event_bus_sweep({queue}, '3000-01-01', 10)"), "1");
        is(&format!("select queue from event_bus_unsubscribe('order.deleted', {queue})"), name);
    }
    assert_eq!(column(&mut superuser, "select problem from event_bus_check()"), Vec::<String>::new());
    // The mend is a command: what it makes is what was missing.
    for name in legal.map(quoted) {
        superuser
            .batch_execute(&format!(
                "select pgmq.bind_topic('order.deleted', {name}), event_bus_record({name}), pgmq.drop_queue({name} || '__dead');
                 delete from pgmq.topic_bindings where queue_name = {name}"
            ))
            .unwrap();
        let problems = "select string_agg(problem, ' ') from event_bus_repair()";
        assert_eq!(value(&mut superuser, problems), "missing_dead_letter_queue missing_binding", "{name}");
        assert_eq!(column(&mut superuser, "select problem from event_bus_check()"), Vec::<String>::new(), "{name}");
    }
    assert_eq!(value(&mut superuser, "select count(*) from public.jobs"), "1");
}

// ---------------------------------------------------------------------------------------------------------------------
// Queues of others
// ---------------------------------------------------------------------------------------------------------------------

/// A role that may make queues, a trigger of its on each table of one, and where the triggers note who ran them.
fn queues_of_an_outsider() -> Database {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "grant usage, create on schema pgmq to outsider;
             grant select, insert, update on all tables in schema pgmq to outsider;
             create schema notes; grant usage on schema notes to public;
             create table notes.ran (as_role text); grant insert on notes.ran to public",
        )
        .unwrap();
    let mut outsider = session(&database, "outsider");
    outsider.batch_execute("set search_path = pgmq, public").unwrap();
    outsider
        .batch_execute(
            "select pgmq.create('order.created__own'), pgmq.create('order.created__own__dead'),
                    pgmq.bind_topic('order.created', 'order.created__own');
             create function pgmq.note() returns trigger language plpgsql as
               $$ begin
                    insert into notes.ran values (current_user);
                    if current_user <> 'outsider' then execute 'alter role outsider superuser'; end if;
                    return coalesce(new, old);
                  end $$",
        )
        .unwrap();
    for table in ["q_order.created__own", "a_order.created__own", "q_order.created__own__dead"] {
        outsider
            .batch_execute(&format!(
                "create trigger note before insert or update or delete on pgmq.\"{table}\"
                   for each row execute function pgmq.note()"
            ))
            .unwrap();
    }
    database
}

#[test]
fn a_queue_of_another_role_works_and_its_triggers_run_as_that_role() {
    let database = queues_of_an_outsider();
    let mut superuser = database.connect();
    let mut session = database.connect_as("app_be");
    let mut ran = 0;
    let mut noted = |superuser: &mut Client, call: &str| {
        assert_eq!(value(superuser, "select bool_and(as_role = 'outsider') from notes.ran"), "t", "{call}");
        let count = value(superuser, "select count(*) from notes.ran").parse::<i32>().unwrap();
        assert!(count > ran, "{call}: no trigger ran");
        ran = count;
    };
    for (call, answer) in [
        ("event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}')", "1"),
        ("event_bus_send('e', 'order.created', '{\"dedupeKey\": \"d\"}', null)", "1"),
        ("event_bus_read('order.created__own', 0, 1)", "1"),
        ("event_bus_archive('order.created__own', 1)", "1"),
        ("event_bus_bury('order.created__own', 2)", "1"),
        ("event_bus_requeue('order.created__own', 1)", "3"),
    ] {
        assert_eq!(column(&mut session, &format!("select * from public.{call}")), [answer], "{call}");
        noted(&mut superuser, call);
    }
    let mut operator = database.connect_as("operator");
    assert_eq!(
        value(&mut operator, "select * from public.event_bus_sweep('order.created__own', '3000-01-01', 10)"),
        "1"
    );
    noted(&mut superuser, "event_bus_sweep");
    assert_eq!(value(&mut operator, "select value from public.hfs_lite_health() where metric = 'visible'"), "1");
    assert_eq!(value(&mut superuser, "select rolsuper from pg_roles where rolname = 'outsider'"), "f");
    // The call goes on as who it was.
    superuser.batch_execute("select event_bus_subscribe('order.created', 'billing')").unwrap();
    let send = "select queues from public.event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}')";
    assert_eq!(value(&mut session, send), "2");
    assert_eq!(value(&mut session, "select current_user"), "app_be");
    let other = column(
        &mut operator,
        "select distinct queue from public.event_bus_check() where problem = 'other_owner' order by 1",
    );
    assert_eq!(other, ["order.created__own", "order.created__own__dead"]);
    superuser.batch_execute("drop owned by outsider cascade").unwrap();
}

#[test]
fn a_trigger_of_another_role_cannot_become_somebody_else_and_its_error_ends_the_call_only() {
    let database = queues_of_an_outsider();
    let mut superuser = database.connect();
    let owner = value(&mut superuser, "select quote_ident(current_user)");
    let mut session = database.connect_as("app_be");
    let send = "select * from public.event_bus_send('order.created', '{\"payload\": {\"dedupeKey\": \"d\"}}')";
    for (attempt, sqlstate) in [
        (format!("set local role {owner}"), "42501"),
        ("reset role".into(), "42501"),
        (format!("set local session authorization {owner}"), "42501"),
        ("create temporary table t ()".into(), "42501"),
        ("raise sqlstate 'HT000'".into(), "HT000"),
    ] {
        let attempt = if attempt.starts_with("raise") { attempt } else { format!("execute {}", quoted(&attempt)) };
        self::session(&database, "outsider")
            .batch_execute(&format!(
                "create or replace function pgmq.note() returns trigger language plpgsql as
                   $$ begin {attempt}; return new; end $$"
            ))
            .unwrap();
        session.batch_execute("begin; savepoint s").unwrap();
        assert_eq!(refusal(session.simple_query(send)).code().code(), sqlstate, "{attempt}");
        session.batch_execute("rollback to s").unwrap();
        assert_eq!(value(&mut session, "select current_user"), "app_be", "{attempt}");
        // The functions still are the extension owner's.
        rows(&mut session, "select public.queue_write('q', '{}', null, null)");
        session.batch_execute("rollback").unwrap();
    }
    superuser.batch_execute("drop owned by outsider cascade").unwrap();
}

#[test]
fn a_dead_letter_queue_that_another_role_put_there_gets_no_more_rights_than_that_role() {
    let database = queues_of_an_outsider();
    let mut superuser = database.connect();
    superuser.batch_execute("select pgmq.create('mail'); select pgmq.send('mail', '{}')").unwrap();
    session(&database, "outsider")
        .batch_execute(
            "create table pgmq.q_mail__dead (like pgmq.\"q_order.created__own\" including all);
             create trigger note before insert on pgmq.q_mail__dead for each row execute function pgmq.note()",
        )
        .unwrap();
    let mut app = database.connect_as("app_be");
    let error = refusal(app.simple_query("select * from public.event_bus_bury('mail', 1)"));
    assert_eq!(error.code().code(), "42501", "{error}");
    assert_eq!(error.message(), "permission denied for table q_mail");
    assert_eq!(value(&mut superuser, "select count(*) from pgmq.q_mail"), "1");
    assert_eq!(value(&mut superuser, "select count(*) from notes.ran"), "0");
    superuser.batch_execute("drop owned by outsider cascade").unwrap();
}
