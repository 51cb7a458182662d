//! Adopting a database whose tables and functions came from an application's own migrations, and leaving again.

use super::dump::Dump;
use crate::black_box::harness::{Database, column, refusal, rows, value};
use postgres::error::DbError;
use postgres::{Client, NoTls};
use std::sync::{Arc, Mutex};

const ADOPT: &str = "begin; set local hfs_lite.adopt = on; create extension hfs_lite cascade; commit";

/// What an application of the lite edition has today. The lines that begin with a backslash are psql's.
fn existing_app(rows: u32) -> String {
    let sql = include_str!("existing-app.sql").lines().filter(|line| !line.starts_with('\\'));
    sql.collect::<Vec<_>>().join("\n").replace(":rows", &rows.to_string())
}

/// Such a database, and what else is to be there or not.
fn application(and: &str) -> Database {
    let database = Database::empty();
    let mut session = database.connect();
    session.batch_execute(&existing_app(50)).unwrap();
    session.batch_execute(and).unwrap_or_else(|error| panic!("{and}: {error:?}"));
    database
}

/// A database in which the extension was created and nothing was there before.
fn fresh() -> Database {
    let database = Database::empty();
    database.connect().batch_execute("create extension hfs_lite cascade").unwrap();
    database
}

/// Adopts, and answers what the client was told, with the details and the hints of warnings, a line each.
fn try_adopt(database: &Database) -> Result<Vec<String>, postgres::Error> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let mut config = database.config();
    config.notice_callback(move |notice| {
        let more = [notice.detail(), notice.hint()].into_iter().flatten();
        let line = more.fold([notice.severity(), ": ", notice.message()].concat(), |line, more| line + "\n" + more);
        into.lock().unwrap().push(line);
    });
    config.connect(NoTls)?.batch_execute(ADOPT)?;
    Ok(told.lock().unwrap().clone())
}

#[track_caller]
fn adopt(database: &Database) -> Vec<String> {
    try_adopt(database).unwrap_or_else(|error| panic!("{:?}", error.as_db_error()))
}

#[track_caller]
fn told(report: &[String], line: &str) {
    assert!(report.iter().any(|told| told.contains(line)), "not told: {line}\n{}", report.join("\n"));
}

/// The tables of schema public, each with its columns as they are now.
fn tables(session: &mut Client) -> Vec<(String, String)> {
    let found = rows(
        session,
        "select c.relname, string_agg(quote_ident(a.attname), ', ' order by a.attname)
           from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' group by 1 order by 1",
    );
    found.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

/// A digest of every row of these columns.
fn digest(session: &mut Client, tables: &[(String, String)]) -> Vec<String> {
    let digest = |(table, columns): &(String, String)| {
        let sql = format!(
            "select '{table} ' || count(*) || ' ' || md5(string_agg(t::text, '' order by t::text))
               from (select {columns} from public.{table}) t"
        );
        value(session, &sql)
    };
    tables.iter().map(digest).collect()
}

/// What identifies each table and its file: the same before and after means that no row was copied.
fn files(session: &mut Client) -> Vec<Vec<String>> {
    rows(
        session,
        "select relname, oid, relfilenode from pg_class
          where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1",
    )
}

/// Everything that is there, with its version: where something was refused, it is the same afterwards.
fn everything(session: &mut Client) -> Vec<String> {
    column(
        session,
        "with objects as (
           select 'pg_class'::regclass as catalog, oid, xmin::text as version from pg_class where relnamespace >= 2200
           union all select 'pg_attribute'::regclass, attrelid, attnum || ' ' || xmin::text from pg_attribute where attrelid >= 16384
           union all select 'pg_constraint'::regclass, oid, xmin::text from pg_constraint where oid >= 16384
           union all select 'pg_proc'::regclass, oid, xmin::text from pg_proc where oid >= 16384
           union all select 'pg_type'::regclass, oid, xmin::text from pg_type where oid >= 16384
           union all select 'pg_trigger'::regclass, oid, xmin::text from pg_trigger where oid >= 16384
           union all select 'pg_policy'::regclass, oid, xmin::text from pg_policy where oid >= 16384
           union all select 'pg_namespace'::regclass, oid, xmin::text from pg_namespace where oid >= 16384
           union all select 'pg_extension'::regclass, oid, xmin::text from pg_extension
           union all select 'pg_description'::regclass, objoid, objsubid || ' ' || xmin::text from pg_description where objoid >= 16384)
         select catalog || ' ' || oid || ' ' || version from objects order by 1",
    )
}

/// All that makes an extension's tables and functions what they are, names included; the order of columns aside.
fn description(session: &mut Client) -> Vec<String> {
    column(
        session,
        "with m as (
           select d.classid, d.objid from pg_depend d join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
            where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'),
           relation as (select c.* from m join pg_class c on m.classid = 'pg_class'::regclass and c.oid = m.objid),
           routine as (select p.* from m join pg_proc p on m.classid = 'pg_proc'::regclass and p.oid = m.objid)
         select 'member ' || o.type || ' ' || o.identity from m cross join lateral pg_identify_object(m.classid, m.objid, 0) o
         union all
         select format('%s %s %s %s %s %s %s: %s', relname, relkind, relpersistence, relowner::regrole, reloptions,
                       relrowsecurity, relforcerowsecurity, obj_description(oid, 'pg_class')) from relation
         union all
         select format('%s.%s %s %s %s %s %s: %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation,
                       a.attnotnull, a.attidentity::text || a.attgenerated::text, pg_get_expr(d.adbin, d.adrelid),
                       col_description(c.oid, a.attnum))
           from relation c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
           left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
         union all
         select format('%s %s %s %s', c.relname, k.conname, pg_get_constraintdef(k.oid), k.convalidated)
           from relation c join pg_constraint k on k.conrelid = c.oid
         union all
         select format('%s %s %s %s', pg_get_indexdef(i.indexrelid), i.indisvalid, i.indisprimary, i.indimmediate)
           from relation c join pg_index i on i.indrelid = c.oid
         union all
         select format('%s policy %s', c.relname, y.polname) from relation c join pg_policy y on y.polrelid = c.oid
         union all
         select format('%s right of %s', c.relname, a) from relation c
          cross join lateral aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
         union all
         select format('%s right of %s', c.relname, a) from relation c
           join pg_attribute f on f.attrelid = c.oid cross join lateral aclexplode(f.attacl) a
         union all
         select format('%s %s %s right of %s', p.oid::regprocedure, p.proowner::regrole, p.prosrc, a) from routine p
          cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         union all
         select format('dumped: %s', c.oid::regclass) from pg_extension e
          cross join lateral unnest(e.extconfig) as c (oid) where e.extname = 'hfs_lite'
         union all
         select 'schema ' || nspname from pg_namespace where nspname <> 'tests' and nspname not like 'pg\\_%'
          order by 1",
    )
}

fn fresh_description() -> Vec<String> {
    let fresh = fresh();
    description(&mut fresh.connect())
}

/// What app_be does with what it had before, and what it may not do any more.
fn works_for_the_application(database: &Database) {
    let mut app = database.connect_as("app_be");
    assert_eq!(
        rows(&mut app, "select fencing_token, kind from job_claim('mail', 'new', 'w', now() + '1 min', '{}', null)"),
        [["1", "mail"]]
    );
    assert_eq!(column(&mut app, "select event_id from inbox_claim_event('door', 'new')"), ["new"]);
    assert_eq!(column(&mut app, "select event_id from inbox_claim_event('door', 'new')"), Vec::<String>::new());
    assert_eq!(column(&mut app, "select state from inbox_claim_request('ann', 'buy', 'k', '{}')"), ["claimed"]);
    assert_eq!(column(&mut app, "select name from job_tick_claim('t', now())"), ["t"]);
    app.batch_execute("select queue_write('mail', '{}', '2000-01-01T00:00:00Z', 'first')").unwrap();
    assert_eq!(column(&mut app, "select \"correlationId\" from queue_waiting(1)"), ["first"]);
    for table in ["jobs", "queue", "inbox", "job_ticks", "event_bus_subscriptions"] {
        for statement in ["select from", "delete from", "insert into"] {
            let values = if statement == "insert into" { "default values" } else { "" };
            let error = refusal(app.simple_query(&format!("{statement} public.{table} {values}")));
            assert_eq!(error.code().code(), "42501", "{statement} {table}: {error}");
        }
    }
}

#[test]
fn an_application_is_adopted_with_every_row_and_becomes_what_a_new_database_is() {
    let database = application("");
    let mut session = database.connect();
    let tables = tables(&mut session);
    let before = (digest(&mut session, &tables), files(&mut session));
    let report = adopt(&database);
    told(&report, "INFO: public.jobs: taken over with its rows");
    told(&report, "INFO: public.queue: rights of app_be taken back: INSERT, SELECT, UPDATE");
    told(&report, "INFO: public.jobs: policy jobs_read dropped: the functions are the only door; keep its statement");
    told(&report, "INFO: public.inbox: index inbox_kept_idx created");
    told(&report, "INFO: public.inbox_claim_event(text,text): replaced");
    let mut after = files(&mut session);
    after.retain(|file| before.1.iter().any(|other| other[0] == file[0]));
    assert_eq!((digest(&mut session, &tables), after), before);
    assert_eq!(description(&mut session), fresh_description());
    works_for_the_application(&database);
}

/// The ways in which real applications differ, and what is told of each.
const VARIANTS: [(&str, &[&str]); 20] = [
    ("alter index queue_waiting_idx rename to waiting; alter policy jobs_read on jobs rename to read",
     &["public.queue: index waiting renamed to queue_waiting_idx"]),
    ("alter table jobs rename constraint jobs_pkey to pk; alter table jobs rename constraint jobs_job_key_key to one_key;
      alter table jobs rename constraint jobs_status_check to known_status",
     &["index pk renamed to jobs_pkey", "index one_key renamed to jobs_job_key_key",
       "constraint known_status renamed to jobs_status_check"]),
    ("alter table jobs drop constraint jobs_job_key_key; create unique index one_key on jobs (job_key);
      alter table inbox drop constraint inbox_pkey; create unique index inbox_pkey on inbox (source, event_id)",
     &["constraint jobs_job_key_key made of index one_key", "constraint inbox_pkey made of index inbox_pkey"]),
    ("alter table inbox drop column request_fingerprint, drop column outcome",
     &["column request_fingerprint added", "column outcome added"]),
    ("alter table queue drop column sent_at, drop column correlation_id", &["public.queue: column sent_at added"]),
    ("alter table inbox drop column claimed_at; alter table inbox add column claimed_at timestamptz not null default now()", &[]),
    ("drop table jobs; drop function job_claim, job_complete", &["public.queue: taken over with its rows"]),
    ("drop table queue, inbox; drop function queue_write, inbox_claim_event", &["public.jobs: taken over with its rows"]),
    ("drop table jobs, queue, inbox", &["public.queue_write", "replaced"]),
    ("drop function job_claim, job_complete, queue_write, inbox_claim_event", &["public.jobs: taken over with its rows"]),
    ("create table job_ticks (claimed_at timestamptz not null, minute timestamptz not null, name varchar(200) not null,
      constraint ticks primary key (name, minute)); insert into job_ticks values (now(), now(), 'hourly')",
     &["public.job_ticks: taken over with its rows", "index ticks renamed to job_ticks_pkey"]),
    ("create function job_count() returns bigint language sql as 'select count(*) from public.jobs';
      create function job_complete(uuid) returns int language sql as 'select 1';
      create view waiting as select * from queue where sent_at is null;
      create materialized view done as select * from jobs where status = 'done'", &[]),
    ("create function touched() returns trigger language plpgsql as 'begin new.updated_at = now(); return new; end';
      create function noted() returns trigger language plpgsql set search_path = public as 'begin return null; end';
      create trigger touch before update on jobs for each row execute function touched();
      create trigger note after insert on queue for each row execute function noted()",
     &["trigger touch stays", "touched() runs with search_path pg_catalog, pg_temp",
       "trigger note stays, and pg_dump will leave it out: keep its statement"]),
    ("alter table jobs owner to app_be; alter table inbox owner to app_be; alter function job_claim owner to app_be",
     &["public.jobs: owner is", "no longer app_be"]),
    ("create role helper; grant select on queue to helper with grant option; set role helper;
      grant select on queue to authenticated; reset role; grant select (payload), update (error) on jobs to anon;
      grant all on inbox to public; grant execute on function job_complete to helper",
     &["public.queue: rights of helper taken back: SELECT", "public.queue: rights of authenticated taken back: SELECT",
       "public.jobs: rights of anon taken back: SELECT, UPDATE", "public.inbox: rights of PUBLIC taken back",
       "role helper: could call functions that were replaced: SELECT hfs_lite_grant('helper')"]),
    ("alter table jobs no force row level security; alter table queue disable row level security",
     &["public.jobs: row level security enabled and forced", "public.queue: row level security enabled and forced"]),
    ("alter table jobs alter created_at set default now(), alter id drop default;
      comment on table jobs is 'theirs'; comment on column jobs.id is 'theirs'; alter table inbox set (fillfactor = 50)",
     &["default of column created_at is none, no longer now()", "default of column id is gen_random_uuid(), no longer none",
       "public.inbox: fillfactor is 80"]),
    ("create table mails (job uuid references jobs on delete cascade, queued uuid references queue);
      insert into mails select id from jobs", &[]),
    ("create index kept on inbox ((case when request_fingerprint is null then 'd'::\"char\" when outcome is null then 'i'
      else 'c' end), claimed_at)", &["index kept renamed to inbox_kept_idx"]),
    ("alter default privileges grant all on tables to app_be; alter default privileges grant all on functions to public", &[]),
];

#[test]
fn applications_that_differ_in_small_ways_are_adopted_too() {
    let expected = fresh_description();
    for (variant, lines) in VARIANTS {
        let database = application(variant);
        let mut session = database.connect();
        let tables = tables(&mut session);
        let before = digest(&mut session, &tables);
        let report = adopt(&database);
        lines.iter().for_each(|line| told(&report, line));
        assert_eq!(digest(&mut session, &tables), before, "{variant}");
        assert_eq!(description(&mut session), expected, "{variant}");
        works_for_the_application(&database);
        session.batch_execute("drop owned by helper; drop role helper").ok();
    }
}

#[test]
fn a_check_that_went_through_a_dump_is_the_same_check() {
    let database = application("");
    let mut session = database.connect();
    let check = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'jobs_status_check'";
    let written = value(&mut session, check);
    let again =
        format!("alter table jobs drop constraint jobs_status_check, add constraint jobs_status_check {written}");
    session.batch_execute(&again).unwrap();
    assert_ne!(value(&mut session, check), written);
    adopt(&database);
    works_for_the_application(&database);
}

#[test]
fn what_else_is_in_the_database_stays_as_it_was() {
    let database = application(
        "create function job_count() returns bigint language sql security definer as 'select count(*) from public.jobs';
         create function job_complete(uuid) returns int language sql as 'select 7';
         create view waiting as select id from queue where sent_at is null;
         create table mails (job uuid references jobs on delete cascade);
         create index by_worker on jobs (claimed_by);
         create statistics by_kind on kind, status from jobs;
         alter table queue add constraint known_queue check (queue <> 'none');
         insert into mails select id from jobs limit 1",
    );
    let mut session = database.connect();
    let event_bus = "select array[c::text, array(select p::text from pg_policy p where polrelid = c.oid)::text,
                                  array(select a::text from pg_attribute a where attrelid = c.oid)::text]
                       from pg_class c where c.oid = 'public.event_bus'::regclass";
    let before = (value(&mut session, event_bus), value(&mut session, "select count(*) from waiting"));
    let report = adopt(&database);
    told(&report, "public.jobs: index by_worker stays, and pg_dump will leave it out");
    told(&report, "public.jobs: statistics object by_kind stays, and pg_dump will leave it out");
    told(&report, "public.queue: constraint known_queue stays, and pg_dump will leave it out");
    told(
        &report,
        "foreign key mails_job_fkey of public.mails stays, ON DELETE CASCADE: a sweep that deletes a row deletes",
    );
    assert_eq!((value(&mut session, event_bus), value(&mut session, "select count(*) from waiting")), before);
    assert_eq!(value(&mut session, "select job_complete('00000000-0000-0000-0000-000000000000')"), "7");
    assert_eq!(value(&mut session, "select job_count()"), "50");
    assert_eq!(refusal(session.simple_query("insert into mails values (gen_random_uuid())")).code().code(), "23503");
    session.batch_execute("delete from jobs").unwrap();
    assert_eq!(value(&mut session, "select count(*) from mails"), "0", "the cascade to another's table");
    let mut app = database.connect_as("app_be");
    app.batch_execute("select * from public.event_bus").unwrap();
}

#[test]
fn what_a_dump_will_leave_out_or_a_sweep_will_meet_is_told_in_a_line_each() {
    let database = application(
        "create publication p for table jobs;
         alter table jobs replica identity full;
         alter table jobs set (autovacuum_enabled = off, fillfactor = 50, toast.autovacuum_enabled = off);
         alter table jobs alter payload set storage external, alter kind set statistics 500;
         alter table jobs alter kind set (n_distinct = 5);
         create table mails (queued uuid references queue, job uuid references jobs on delete set null)",
    );
    let report = adopt(&database);
    let stays: Vec<_> = report.iter().filter(|line| line.contains(" stays")).collect();
    for what in [
        "its place in publication p",
        "its replica identity",
        "option autovacuum_enabled=off",
        "option toast.autovacuum_enabled=off",
        "storage of column payload",
        "statistics target of column kind",
        "n_distinct of column kind",
    ] {
        told(&report, &format!("public.jobs: {what} stays, and pg_dump will leave it out: keep its statement"));
    }
    told(&report, "mails_job_fkey of public.mails stays, ON DELETE SET NULL: a sweep that deletes a row changes");
    told(
        &report,
        "mails_queued_fkey of public.mails stays, ON DELETE NO ACTION: a sweep that meets a row that is referred",
    );
    assert_eq!(stays.len(), 9, "{stays:?}");
}

#[test]
fn what_uses_a_table_with_the_rights_of_anybody_but_a_superuser_is_told() {
    let database = application(
        "drop policy event_bus_read on event_bus;
         create policy by_job on event_bus for select to app_be using (exists (select from jobs where job_key = event_id));
         create function counted() returns bigint begin atomic select count(*) from public.jobs; end;
         create function theirs() returns bigint security definer begin atomic select count(*) from public.jobs; end;
         alter function theirs owner to app_be;
         create function ours() returns bigint security definer begin atomic select count(*) from public.jobs; end",
    );
    let report = adopt(&database);
    told(
        &report,
        "public.jobs: policy by_job on table public.event_bus uses it with the rights of whoever runs it; it will be denied",
    );
    told(
        &report,
        "public.jobs: function public.counted() uses it with the rights of whoever runs it; it will be denied",
    );
    told(&report, "public.jobs: function public.theirs() uses it with the rights of app_be; it will be denied");
    assert_eq!(report.iter().filter(|line| line.contains("denied")).count(), 3, "{report:?}");
    for call in ["select theirs()", "select counted()", "select * from event_bus"] {
        assert_eq!(refusal(database.connect_as("app_be").simple_query(call)).code().code(), "42501", "{call}");
    }
    assert_eq!(value(&mut database.connect_as("app_be"), "select ours()"), "50");
}

#[test]
fn whoever_could_call_a_replaced_function_is_named_also_the_public_and_an_owner() {
    let database = application(
        "alter function job_complete owner to operator;
         grant execute on function queue_write to public;
         grant execute on function job_claim to monitor",
    );
    let report = adopt(&database);
    told(&report, "role operator: could call functions that were replaced: SELECT hfs_lite_grant('operator')");
    told(&report, "role monitor: could call functions that were replaced: SELECT hfs_lite_grant('monitor')");
    told(&report, "PUBLIC: anybody could call functions that were replaced");
    assert_eq!(report.iter().filter(|line| line.contains("could call")).count(), 3, "{report:?}");
    let without_rights = application(
        "drop function job_complete; create function job_complete(uuid, bigint, timestamptz)
        returns table (id uuid) language sql as 'select $1'",
    );
    told(&adopt(&without_rights), "PUBLIC: anybody could call functions that were replaced");
}

#[test]
fn tables_in_another_schema_are_not_found_and_a_warning_says_how_they_get_there() {
    let database = application(
        "create schema app; alter table jobs set schema app; alter table queue set schema app; alter table inbox set schema app",
    );
    let report = adopt(&database);
    told(&report, "WARNING: found no table to adopt in schema public");
    told(&report, "ALTER TABLE app.jobs SET SCHEMA public; ALTER TABLE app.queue SET SCHEMA public;");
    assert_eq!(value(&mut database.connect(), "select count(*) from app.jobs"), "50");
    told(&adopt(&Database::empty()), "WARNING: found no table to adopt in schema public");
    assert!(!adopt(&application("drop table jobs, queue")).iter().any(|line| line.starts_with("WARNING")));
}

#[test]
fn a_superuser_whose_name_needs_quotes_creates_and_adopts() {
    let role =
        "do $$ begin create role \"Ad-Min x\" superuser login; exception when duplicate_object then null; end $$";
    let plain = Database::empty();
    plain.connect().batch_execute(role).unwrap();
    plain.connect_as("Ad-Min x").batch_execute("create extension hfs_lite cascade").unwrap();
    works_for_the_application(&plain);
    let database = application("alter table jobs owner to app_be");
    database.connect_as("Ad-Min x").batch_execute(ADOPT).unwrap();
    let owners =
        "select distinct relowner::regrole from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
                   and relname <> 'event_bus'";
    assert_eq!(column(&mut database.connect(), owners), ["\"Ad-Min x\""]);
    works_for_the_application(&database);
}

#[test]
fn an_index_of_a_large_table_is_left_out_and_the_statement_for_it_is_said() {
    let database = application("alter table queue alter payload set storage plain");
    let mut session = database.connect();
    let load = "insert into queue (queue, payload, created_at)
                select 'q', to_jsonb(repeat('x', 7000)), now() from generate_series(1, 4200)";
    session.batch_execute(load).unwrap();
    let report = adopt(&database);
    told(&report, "WARNING: 1 of hfs_lite's indexes were not created, since their tables are large");
    let warning = report.iter().find(|line| line.starts_with("WARNING")).unwrap();
    let statement = warning.lines().nth(1).unwrap();
    session.batch_execute(statement).unwrap();
    let without_the_large_table = |mut lines: Vec<String>| {
        lines.retain(|line| !line.starts_with("queue"));
        lines
    };
    assert_eq!(without_the_large_table(description(&mut session)), without_the_large_table(fresh_description()));
}

// ---------------------------------------------------------------------------------------------------------------------
// What is refused
// ---------------------------------------------------------------------------------------------------------------------

/// Adoption that must be refused and change nothing; the list of what differs.
#[track_caller]
fn refused_adoption(database: &Database) -> DbError {
    let mut session = database.connect();
    let before = everything(&mut session);
    let error = refusal(try_adopt(database));
    assert_eq!(error.code().code(), "55000", "{error:?}");
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{error:?}");
    assert_eq!(everything(&mut session), before);
    error
}

/// What differs, the line that says so, and whether the statements on that line mend it.
const REFUSED: [(&str, &str, bool); 44] = [
    ("alter table jobs drop column payload", "public.jobs: column payload is missing.", false),
    ("alter table jobs add column tenant text", "public.jobs: column tenant is none of ours", false),
    ("alter table jobs alter kind type text", "public.jobs: column kind is text, not character varying(200).", true),
    ("alter table jobs alter kind type varchar(100)", "column kind is character varying(100), not character varying(200).", true),
    ("alter table queue alter correlation_id type varchar(300)", "column correlation_id is character varying(300), not", true),
    ("alter table queue alter sent_at type timestamp", "column sent_at is timestamp without time zone, not timestamp with", false),
    ("alter table jobs alter payload type text, alter payload set default '{}'", "column payload is text, not jsonb.", true),
    ("truncate jobs; alter table jobs drop column id; alter table jobs add id integer primary key", "column id is integer, not uuid.", false),
    ("alter table queue alter queue type varchar(200) collate \"C\"", "column queue is character varying(200) COLLATE \"C\", not", true),
    ("alter table jobs alter payload drop not null", "public.jobs: column payload can be NULL.", true),
    ("alter table inbox alter outcome set data type json", "column outcome is json, not jsonb.", true),
    ("update queue set correlation_id = '' where correlation_id is null; alter table queue alter correlation_id set not null",
     "column correlation_id cannot be NULL.", true),
    ("alter table jobs alter fencing_token add generated always as identity",
     "column fencing_token is an identity or generated column.", false),
    ("alter table jobs drop constraint jobs_pkey", "public.jobs: primary key jobs_pkey is missing.", true),
    ("alter table jobs drop constraint jobs_job_key_key", "unique constraint jobs_job_key_key is missing.", true),
    ("alter table jobs drop constraint jobs_job_key_key; create unique index one_key on jobs (job_key) where status <> 'done'",
     "unique constraint jobs_job_key_key is missing.", true),
    ("alter table jobs drop constraint jobs_job_key_key; create unique index one_key on jobs (lower(job_key))",
     "unique constraint jobs_job_key_key is missing.", true),
    ("alter table jobs drop constraint jobs_job_key_key; alter table jobs add constraint one_key unique (job_key) deferrable",
     "unique constraint jobs_job_key_key is missing.", true),
    ("alter table inbox drop constraint inbox_pkey, add constraint door primary key (event_id, source)",
     "public.inbox: primary key door is of other columns.", false),
    ("alter table jobs drop constraint jobs_pkey, add constraint one_id unique (id)", "one_id should be a primary key.", true),
    ("alter table jobs drop constraint jobs_pkey, add constraint jobs_pkey unique (id)", "jobs_pkey should be a primary key.", true),
    ("alter index queue_waiting_idx rename to w; create index queue_waiting_idx on queue (created_at)",
     "index queue_waiting_idx has a name of ours, and another definition", true),
    ("alter table jobs drop constraint jobs_status_check", "is missing, or is written in another way.", true),
    ("alter table jobs drop constraint jobs_status_check, add constraint jobs_status_check check (status <> '')",
     "is missing, or is written in another way.", true),
    ("alter table jobs drop constraint jobs_fencing_token_check, add constraint jobs_fencing_token_check
      check (fencing_token >= 1) not valid", "constraint jobs_fencing_token_check is not validated.", true),
    ("create table tenants (name varchar(200) primary key); insert into tenants select kind from jobs union select 'new';
      alter table jobs add constraint tenant foreign key (kind) references tenants", "foreign key tenant:", true),
    ("create rule quiet as on delete to jobs do instead nothing", "public.jobs: rule quiet.", true),
    ("alter table queue set unlogged", "public.queue: is unlogged.", true),
    ("drop table queue; create view queue as select 1 as id", "public.queue: is a view, not a table.", false),
    ("drop table queue; create materialized view queue as select 1 as id", "public.queue: is a materialized view", false),
    ("drop table queue; create table queue (id uuid) partition by hash (id)", "public.queue: is a partitioned table", false),
    ("drop table queue; create table queues (id uuid) partition by hash (id);
      create table queue partition of queues for values with (modulus 1, remainder 0)", "public.queue: is a partition.", false),
    ("create table more_jobs () inherits (jobs)", "public.jobs: has tables that inherit from it.", false),
    ("create table all_jobs (id uuid); alter table jobs inherit all_jobs", "public.jobs: inherits from another table.", false),
    ("drop table queue; create type row_of_queue as (id uuid); create table queue of row_of_queue",
     "public.queue: is a typed table.", false),
    ("drop table queue; create sequence queue", "public.queue: is a sequence", false),
    ("create extension pgmq; alter extension pgmq add table jobs", "public.jobs: belongs to extension pgmq.", true),
    ("create view waiting as select * from queue; alter view waiting owner to app_be",
     "public.queue: view public.waiting reads it with rights that it will not have any more.", false),
    ("create view waiting with (security_invoker = true) as select * from queue", "view public.waiting reads it with", false),
    ("create view by_function as select * from job_complete(null, 1, null)",
     "public.job_complete(uuid,bigint,timestamp with time zone): rule _RETURN on view public.by_function depends on it.", false),
    ("create function job_fail(uuid, bigint, varchar, timestamptz) returns int language sql as 'select 1'",
     "a call could mean it or public.job_fail(uuid,bigint,text,timestamp with time zone).", true),
    ("create function event_bus_send(variadic text[]) returns int language sql as 'select 1'", "a call could mean it or", true),
    ("create function theirs(text) returns boolean language sql immutable as 'select true'; alter function theirs owner to app_be;
      alter table jobs add constraint ok check (theirs(kind))",
     "constraint ok on table public.jobs runs function public.theirs(text), which belongs to app_be", false),
    ("create function theirs() returns trigger language plpgsql security definer as 'begin return new; end';
      alter function theirs owner to app_be; create trigger t before insert on queue for each row execute function theirs()",
     "trigger t on table public.queue runs function public.theirs(), which belongs to app_be", false),
];

#[test]
fn a_table_or_function_that_differs_is_refused_and_nothing_is_changed() {
    for (difference, line, _) in REFUSED {
        let error = refused_adoption(&application(difference));
        let detail = error.detail().unwrap_or("");
        assert!(detail.contains(line), "{difference}: {}\n{detail}", error.message());
        assert!(!detail.contains("set_aside"), "{detail}");
    }
}

#[test]
fn the_statements_that_a_refusal_says_mend_it() {
    let expected = fresh_description();
    for (difference, _, _) in REFUSED.iter().filter(|(_, _, mends)| *mends) {
        let database = application(difference);
        let mut session = database.connect();
        let error = refused_adoption(&database);
        for line in error.detail().unwrap().lines() {
            let (_, mend) = line.split_once("To mend it: ").unwrap();
            for statement in mend.trim_end_matches('.').split("; ") {
                session.batch_execute(statement).unwrap_or_else(|error| panic!("{difference}: {statement}: {error:?}"));
            }
        }
        adopt(&database);
        // An index of theirs that did not do may still be there beside ours, and a check that was written anew reads otherwise.
        let adopted = description(&mut session);
        let missing: Vec<_> = expected
            .iter()
            .filter(|line| !adopted.contains(line) && !line.starts_with("jobs jobs_status_check CHECK"))
            .collect();
        assert!(missing.is_empty(), "{difference}: {missing:?}");
    }
}

#[test]
fn a_mend_loses_no_row_and_hands_nobody_a_superusers_rights() {
    for (difference, mend) in [
        ("drop table queue; create view queue as select 1 as id", "ALTER VIEW public.queue RENAME TO queue_old."),
        ("drop table queue; create materialized view queue as select 1 as id",
         "ALTER MATERIALIZED VIEW public.queue RENAME TO queue_old."),
        ("drop table queue; create table queue (id uuid) partition by hash (id)",
         "copy its rows into an ordinary table of that name."),
        ("drop table queue; create table queues (id uuid) partition by hash (id);
          create table queue partition of queues for values with (modulus 1, remainder 0)",
         "ALTER TABLE public.queues DETACH PARTITION public.queue."),
        ("alter table queue alter sent_at type timestamp",
         "TYPE timestamp with time zone USING sent_at AT TIME ZONE '<the zone in which the application wrote them>'."),
        ("truncate jobs; alter table jobs drop column id; alter table jobs add id integer primary key",
         "no cast leads there, so a new column must be filled: ALTER TABLE public.jobs RENAME COLUMN id TO id_old; \
          ALTER TABLE public.jobs ADD COLUMN id uuid; fill it"),
        ("create function theirs() returns trigger language plpgsql security definer as 'begin return new; end';
          alter function theirs owner to app_be; create trigger t before insert on queue for each row execute function theirs()",
         "read what it does first; then ALTER FUNCTION public.theirs() SECURITY INVOKER; and only then \
          ALTER FUNCTION public.theirs() OWNER TO "),
    ] {
        let error = refused_adoption(&application(difference));
        assert!(error.detail().unwrap().contains(mend), "{difference}: {error:?}");
    }
}

#[test]
fn all_that_differs_is_said_in_one_list() {
    let all = [
        "alter table jobs drop column payload",
        "alter table queue alter sent_at type timestamp",
        "alter table inbox drop constraint inbox_pkey",
        "create rule quiet as on delete to jobs do instead nothing",
        "create view by_function as select * from job_complete(null, 1, null)",
    ];
    let error = refused_adoption(&application(&all.join(";")));
    assert_eq!(error.message(), "hfs_lite cannot adopt schema public as it is: 5 things differ");
    assert_eq!(error.detail().unwrap().lines().count(), 5, "{error:?}");
}

/// Expressions that would run what belongs to somebody else whenever one of our functions writes a row.
#[test]
fn nothing_of_a_role_that_is_no_superuser_may_run_with_a_superusers_rights() {
    let theirs = "grant create on schema public to app_be; set role app_be;
        create function theirs(text) returns text language sql immutable as 'select $1';
        create function yes(varchar, varchar) returns boolean language sql immutable as 'select true';
        create operator public.=== (leftarg = varchar, rightarg = varchar, function = yes);
        create domain word as text check (theirs(value) <> ''); create type words as (word word);
        create table word_list (words word[]); reset role;";
    for (part, line) in [
        ("alter table jobs alter kind set default theirs('x')", "runs function public.theirs(text)"),
        ("create index i on jobs (theirs(kind))", "index public.i runs function public.theirs(text)"),
        ("create index i on jobs (id) where theirs(kind) = 'x'", "index public.i runs function public.theirs(text)"),
        ("create statistics s on theirs(kind), id from jobs", "statistics object public.s runs function"),
        ("alter table jobs add constraint ok check (kind === 'x') not valid", "runs operator public.==="),
        (
            "create trigger t before insert on jobs for each row when (new.kind === 'x')
          execute function suppress_redundant_updates_trigger()",
            "trigger t on table public.jobs runs operator public.===",
        ),
        (
            "create domain d as varchar(200); alter domain d owner to app_be; create index i on jobs ((kind::d))",
            "index public.i runs type public.d, which belongs to app_be",
        ),
        (
            "create function through(text) returns text immutable begin atomic select public.theirs($1); end;
          create index i on jobs (through(kind))",
            "index public.i runs function public.theirs(text)",
        ),
        (
            "alter table jobs add check (jsonb_populate_record(null::words, jsonb_build_object('word', kind)) is not null)",
            "constraint jobs_kind_check on table public.jobs runs function public.theirs(text)",
        ),
        (
            "alter table jobs add check (jsonb_populate_record(null::word_list, jsonb_build_object('words', '{}'::text[])) is null
               or kind <> '')",
            "runs type public.word_list, which belongs to app_be, with the rights of a superuser. To mend it: read what \
             it does first; then ALTER TABLE public.word_list OWNER TO ",
        ),
        (
            "create domain ours as text check (theirs(value) <> ''); alter table jobs add check (kind::ours is not null)",
            "constraint jobs_kind_check on table public.jobs runs function public.theirs(text)",
        ),
        (
            "create type span as range (subtype = word); alter table jobs add check (null::span_multirange[] is null or kind = '')",
            "constraint jobs_kind_check on table public.jobs runs type public.word",
        ),
        (
            "create type mood as enum ('good'); create function as_json(mood) returns json language sql immutable as 'select null::json';
             create cast (mood as json) with function as_json(mood); alter function as_json owner to app_be;
             alter table jobs add check (to_jsonb(null::mood) is null or kind = '')",
            "constraint jobs_kind_check on table public.jobs runs function public.as_json(public.mood)",
        ),
        (
            "create function no(varchar, varchar) returns boolean language sql immutable as 'select true';
             create operator public.!== (leftarg = varchar, rightarg = varchar, function = no, negator = ===);
             alter table jobs add check (kind !== 'x')",
            "constraint jobs_kind_check on table public.jobs runs operator public.===",
        ),
        (
            "create function compared(text, text) returns int language sql immutable as 'select bttextcmp($1, $2)';
             create operator class compared for type text using btree as operator 1 <, operator 2 <=, operator 3 =,
               operator 4 >=, operator 5 >, function 1 compared(text, text);
             alter function compared owner to app_be; create index i on jobs (kind compared)",
            "index public.i runs function public.compared(text,text)",
        ),
        (
            "create view through as select theirs('x') as x;
             create function through() returns text immutable begin atomic select x from through; end;
             alter table jobs add check (through() <> kind)",
            "constraint jobs_kind_check on table public.jobs runs function public.theirs(text)",
        ),
        (
            "alter table jobs add check (query_to_xml('select public.theirs(''x'')', false, false, '') is not null)",
            "constraint jobs_check on table public.jobs calls query_to_xml(text,boolean,boolean,text) with the rights of",
        ),
        (
            "create trigger t before insert on jobs for each row when (pg_read_file(new.kind) is null)
               execute function suppress_redundant_updates_trigger()",
            "trigger t on table public.jobs calls pg_read_file(text) with the rights of",
        ),
        (
            "alter table queue add check (table_to_xml('pg_class', false, false, queue) is not null) not valid",
            "constraint queue_queue_check on table public.queue calls table_to_xml(",
        ),
    ] {
        let error = refused_adoption(&application(&[theirs, part].concat()));
        assert!(error.detail().unwrap().contains(line), "{part}: {error:?}");
    }
}

/// Before PostgreSQL 18, an AFTER trigger on a row that a cascade deletes runs as whoever deleted the row that it referred to.
#[test]
fn no_sweep_runs_triggers_of_a_role_that_is_no_superuser_by_a_cascade() {
    let version = value(&mut Database::empty().connect(), "show server_version_num");
    let mails = "create table mails (id int primary key, job uuid references jobs on delete cascade);";
    let theirs = "create function theirs() returns trigger language plpgsql as 'begin return null; end';
        alter function theirs owner to app_be;";
    for (and, line) in [
        (
            "alter table mails owner to app_be",
            "constraint mails_job_fkey on table public.mails: deleting a row would run triggers on public.mails, which app_be may make",
        ),
        (
            "grant trigger on mails to public",
            "triggers on public.mails, which PUBLIC may make, with the rights of a superuser",
        ),
        (
            "create table parts (mail int references mails on delete set null); alter table parts owner to app_be",
            "constraint mails_job_fkey on table public.mails: deleting a row would run triggers on public.parts, which app_be may make",
        ),
        (
            "create trigger t after delete on mails for each row execute function theirs()",
            "trigger t on table public.mails runs function public.theirs(), which belongs to app_be",
        ),
    ] {
        let database = application(&[mails, theirs, and].concat());
        if version.as_str() >= "180000" {
            adopt(&database);
        } else {
            let error = refused_adoption(&database);
            assert!(error.detail().unwrap().contains(line), "{and}: {error:?}");
        }
    }
    let database = application(&[mails, "grant all on mails to app_be, public"].concat());
    if version.as_str() < "180000" {
        let revoke = "REVOKE TRIGGER ON public.mails FROM PUBLIC, app_be CASCADE";
        assert!(refused_adoption(&database).detail().unwrap().contains(revoke));
        database.connect().batch_execute(revoke).unwrap();
    }
    adopt(&database);
}

#[test]
fn only_a_superuser_adopts() {
    let database = application("grant create on schema public to app_be");
    let mut owner = database.connect_as("app_be");
    owner.batch_execute("begin; set local hfs_lite.adopt = on").unwrap();
    assert_eq!(refusal(owner.simple_query("create extension hfs_lite cascade")).code().code(), "42501");
}

#[test]
fn a_setting_left_behind_for_a_database_or_a_role_adopts_nothing_there() {
    let database = application("");
    let mut session = database.connect();
    let name = value(&mut session, "select current_database()");
    session.batch_execute(&format!("alter database {name} set hfs_lite.adopt = on")).unwrap();
    let error = refusal(database.connect().batch_execute("create extension hfs_lite cascade"));
    assert_eq!((error.code().code(), error.message()), ("55000", "hfs_lite.adopt is set for a database or a role"));
    adopt(&application(""));
}

// ---------------------------------------------------------------------------------------------------------------------
// Look-alikes before a plain CREATE EXTENSION
// ---------------------------------------------------------------------------------------------------------------------

/// Every name that the extension takes in schema public is looked for before it is taken.
#[test]
fn a_look_alike_of_any_name_is_refused_by_a_plain_create_extension() {
    let fresh = fresh();
    let mut session = fresh.connect();
    let named = |session: &mut Client, sql: &str| column(session, sql);
    let functions = named(
        &mut session,
        "select distinct p.proname from pg_depend d join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
           join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid and p.pronamespace = 'public'::regnamespace",
    );
    let relations = named(&mut session, "select relname from pg_class where relnamespace = 'public'::regnamespace");
    assert!(functions.len() > 20 && relations.len() > 10);

    let database = Database::empty();
    let mut session = database.connect();
    for function in &functions {
        session
            .batch_execute(&format!("create function public.{function}() returns int language sql as 'select 1'"))
            .unwrap();
    }
    for relation in &relations {
        session.batch_execute(&format!("create table public.{relation} ()")).unwrap();
    }
    let before = everything(&mut session);
    let error = refusal(session.batch_execute("create extension hfs_lite cascade"));
    assert_eq!(error.code().code(), "55000", "{error:?}");
    assert_eq!(error.message(), "schema public holds objects of names that are hfs_lite's");
    assert!(error.hint().unwrap().contains("SET LOCAL hfs_lite.adopt = on"), "{error:?}");
    let detail: Vec<_> = error.detail().unwrap().lines().collect();
    for function in &functions {
        assert!(detail.contains(&format!("function public.{function}()").as_str()), "{function} is not looked for");
    }
    for relation in &relations {
        assert!(detail.contains(&format!("table public.{relation}").as_str()), "{relation} is not looked for");
    }
    assert_eq!(everything(&mut session), before);
}

#[test]
fn what_cannot_be_adopted_by_name_alone_is_refused_first() {
    for (look_alike, line) in [
        (
            "create table public.mails (id int); create index queue_sent_idx on mails (id)",
            "index public.queue_sent_idx",
        ),
        ("create view public.hfs_lite_jobs as select 1 as x", "view public.hfs_lite_jobs"),
        ("create domain public.job_ticks as text", "type public.job_ticks"),
        ("create type public.job_ticks as (x int)", "composite type public.job_ticks"),
    ] {
        let error = refused_adoption(&application(look_alike));
        assert_eq!(error.detail(), Some(line));
    }
}

/// A role that may create in schema public makes operators that fit our expressions better than PostgreSQL's own.
#[test]
fn operators_in_schema_public_get_into_nothing_that_create_extension_makes() {
    let database = Database::empty();
    let mut session = database.connect();
    session
        .batch_execute(
            "grant create on schema public to app_be; set role app_be;
             create function public.raises(varchar, varchar) returns boolean language plpgsql as
               $$ begin raise 'theirs was called'; end $$;
             create function public.raises(integer[], integer[]) returns boolean language plpgsql as
               $$ begin raise 'theirs was called'; end $$;
             create function public.raises(name, name[]) returns boolean language plpgsql as
               $$ begin raise 'theirs was called'; end $$;
             create operator public.= (leftarg = varchar, rightarg = varchar, function = public.raises);
             create operator public.< (leftarg = integer[], rightarg = integer[], function = public.raises);
             create function public.format(text, name) returns text language plpgsql as
               $$ begin raise 'theirs was called'; end $$;
             reset role;
             create extension hfs_lite cascade",
        )
        .unwrap();
    let used = "select pg_describe_object(d.classid, d.objid, 0) from pg_depend d
                  join pg_operator o on d.refclassid = 'pg_operator'::regclass and o.oid = d.refobjid
                 where o.oprnamespace = 'public'::regnamespace and o.oid <> d.objid";
    assert_eq!(column(&mut session, used), Vec::<String>::new());
    works_for_the_application(&database);
}

// ---------------------------------------------------------------------------------------------------------------------
// Rehearsing, waiting, leaving
// ---------------------------------------------------------------------------------------------------------------------

/// Runs scripts/adopt-check; its exit status, and what it printed.
fn adopt_check(database: &Database, name: &str) -> (Option<i32>, String) {
    let mut session = database.connect();
    let bin = value(&mut session, "select setting from pg_config where name = 'BINDIR'");
    let config = database.config();
    let url =
        format!("host=localhost port={} user={} dbname={name}", config.get_ports()[0], config.get_user().unwrap());
    let output = std::process::Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/adopt-check"))
        .arg(url)
        .env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()))
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn the_rehearsal_says_what_would_happen_and_changes_nothing() {
    for (and, status, says) in [
        ("", 0, "public.inbox: index inbox_kept_idx created"),
        ("", 0, "hfs_lite can be adopted here. Nothing was changed."),
        ("alter table jobs drop column payload", 1, "public.jobs: column payload is missing."),
    ] {
        let database = application(and);
        let mut session = database.connect();
        let name = value(&mut session, "select current_database()");
        let before = everything(&mut session);
        let (exit, printed) = adopt_check(&database, &name);
        assert_eq!(exit, Some(status), "{printed}");
        assert!(printed.contains(says), "{printed}");
        assert_eq!(everything(&mut session), before);
    }
    assert_eq!(adopt_check(&Database::empty(), "there_is_no_such_database").0, Some(2));
}

#[test]
fn adoption_that_waits_for_a_transaction_gives_up_when_lock_timeout_ends() {
    let database = application("");
    let mut holder = database.connect();
    holder.batch_execute("begin; insert into queue (queue, payload, created_at) values ('q', '{}', now())").unwrap();
    let mut session = database.connect();
    let error = refusal(session.batch_execute(
        "begin; set local lock_timeout = '50ms'; set local hfs_lite.adopt = on; create extension hfs_lite cascade; commit",
    ));
    assert_eq!(error.code().code(), "55P03");
    holder.batch_execute("commit").unwrap();
    adopt(&database);
}

/// The block of docs/adopting.md that leaves the extension.
fn leave() -> &'static str {
    let page = include_str!("../../docs/adopting.md");
    let blocks = page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(""));
    blocks.into_iter().find(|block| block.contains("drop extension hfs_lite")).expect("how to leave")
}

#[test]
fn the_tables_stay_with_their_rows_when_one_leaves_and_can_be_adopted_again() {
    let database = application("");
    adopt(&database);
    works_for_the_application(&database);
    database
        .connect_as("app_be")
        .batch_execute("select public.event_bus_send('t', '{\"payload\": {\"dedupeKey\": \"k\"}}')")
        .unwrap();
    let mut session = database.connect();
    session.batch_execute("select public.event_bus_subscribe('order.placed', 'mailer')").unwrap();
    let tables = tables(&mut session);
    assert_eq!(tables.len(), 6, "{tables:?}");
    let before = (description(&mut session), digest(&mut session, &tables), files(&mut session));
    session.batch_execute(leave()).unwrap();
    assert_eq!((digest(&mut session, &tables), files(&mut session)), (before.1.clone(), before.2.clone()));
    assert_eq!(column(&mut session, "select extname from pg_extension order by 1"), ["pgmq", "plpgsql"]);
    assert_eq!(
        column(&mut session, "select proname from pg_proc where pronamespace = 'public'::regnamespace"),
        Vec::<String>::new()
    );
    adopt(&database);
    assert_eq!((description(&mut session), digest(&mut session, &tables), files(&mut session)), before);
}

/// `make test-long` runs it, and shows its figures.
#[test]
fn adopting_a_million_rows_keeps_no_writer_waiting_for_long() {
    if std::env::var_os("HFS_LITE_LONG").is_none() {
        return;
    }
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    let database = Database::empty();
    let mut session = database.connect();
    session.batch_execute(&existing_app(1_000_000)).unwrap();
    let tables = tables(&mut session);
    let before = (digest(&mut session, &tables[..2]), files(&mut session));
    let done = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = database.connect();
            let mut longest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                writer.batch_execute("update jobs set updated_at = updated_at where job_key = 'job-7'").unwrap();
                longest = longest.max(start.elapsed());
            }
            longest
        });
        let start = Instant::now();
        let report = adopt(&database);
        println!("adoption took {:?}\n{}", start.elapsed(), report.join("\n"));
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    println!("the longest wait of a writer: {longest:?}");
    let mut after = files(&mut session);
    after.retain(|file| before.1.contains(file));
    assert_eq!((digest(&mut session, &tables[..2]), after), before);
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}

#[test]
fn an_adopted_database_is_restored_from_a_dump_with_every_row() {
    let database = application("");
    adopt(&database);
    let mut source = database.connect();
    let copy = Database::empty();
    Dump::of(&database, &["--format=custom"]).restored(&copy, &["--exit-on-error"]);
    let mut restored = copy.connect();
    let tables = tables(&mut source);
    assert_eq!(digest(&mut restored, &tables), digest(&mut source, &tables));
    let claim = "select fencing_token > 1 from public.job_claim('mail', 'job-3', 'w', '3000-01-01', '{}', null)";
    assert_eq!(value(&mut copy.connect_as("app_be"), claim), "t");
}
