//! The promises of `src/statement.rs`: errors arrive whole, memory is PostgreSQL's, saved plans outlive what they were
//! made on, types are checked at every call, and the functions stand wherever PostgreSQL takes a set.

use super::harness::{Database, column, pid, refusal, refused, rows, start, try_rows, value, wait_until};
use postgres::Client;
use postgres::error::{DbError, SqlState};

const WRITE: &str = "select public.queue_write('mail', '{}', null, null)";
const CLAIM: &str =
    "select kind from public.job_claim('mail', 'k', 'w', '2026-01-01T00:01:00Z', '{}', '2026-01-01T00:00:00Z')";

/// The error of a statement that must fail with this SQLSTATE.
#[track_caller]
fn fails(session: &mut Client, sql: &str, sqlstate: &str) -> DbError {
    let error = refusal(session.simple_query(sql));
    assert_eq!(error.code().code(), sqlstate, "{sql}: {error:?}");
    error
}

/// Queues q1, q2 and so on, each with its dead-letter queue and bound to a topic of its name.
fn make_queues(owner: &mut Client, queues: u32) {
    owner
        .batch_execute(&format!(
            "select pgmq.create('q' || n), pgmq.create('q' || n || '__dead'), pgmq.bind_topic('q' || n, 'q' || n)
               from generate_series(1, {queues}) n"
        ))
        .unwrap();
}

// ---------------------------------------------------------------------------------------------------------------------
// Errors arrive whole
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn the_names_of_a_broken_constraint_and_its_table_arrive() {
    let database = Database::new();
    let mut owner = database.connect();
    owner.batch_execute("create unique index one_correlation on public.queue (correlation_id)").unwrap();
    let mut session = database.connect_as("app_be");
    let write = "select public.queue_write('mail', '{}', null, 'c')";
    session.batch_execute(write).unwrap();
    let error = fails(&mut session, write, "23505");
    assert_eq!(error.constraint(), Some("one_correlation"));
    assert_eq!((error.schema(), error.table()), (Some("public"), Some("queue")));
    assert_eq!(error.detail(), Some("Key (correlation_id)=(c) already exists."));
    let statement = error.where_().expect("a context");
    assert!(statement.contains("insert into public.queue (id, queue, payload"), "{statement}");
}

#[test]
fn an_exception_block_catches_a_broken_constraint_by_its_name_and_can_look_into_it() {
    let database = Database::new();
    let mut owner = database.connect();
    owner.batch_execute("create unique index one_correlation on public.queue (correlation_id)").unwrap();
    let mut session = database.connect_as("app_be");
    session
        .batch_execute(
            "create temp table caught (state text, constraint_name text, table_name text, schema_name text, detail text,
                                       context text);
             do $$
             declare state text; c text; t text; s text; d text; x text;
             begin
               perform public.queue_write('mail', '{}', null, 'c');
               perform public.queue_write('mail', '{}', null, 'c');
             exception when unique_violation then
               get stacked diagnostics state = returned_sqlstate, c = constraint_name, t = table_name, s = schema_name,
                                       d = pg_exception_detail, x = pg_exception_context;
               insert into caught values (state, c, t, s, d, x);
               perform public.queue_write('mail', '{}', null, 'after');
             end $$",
        )
        .unwrap();
    let caught = rows(&mut session, "select state, constraint_name, table_name, schema_name, detail from caught");
    assert_eq!(caught, [["23505", "one_correlation", "queue", "public", "Key (correlation_id)=(c) already exists."]]);
    let context = value(&mut session, "select context from caught");
    assert!(context.contains("SQL statement \"insert into public.queue"), "{context}");
    assert!(context.contains("PL/pgSQL function inline_code_block line 5 at PERFORM"), "{context}");
    // The block's first write went with the error, the write behind it stayed.
    assert_eq!(column(&mut session, "select \"correlationId\" from public.queue_waiting(9)"), ["after"]);
}

#[test]
fn an_error_of_any_sqlstate_arrives_whole() {
    let database = Database::new();
    let mut owner = database.connect();
    let tables = [
        ("public.queue", WRITE),
        ("public.jobs", CLAIM),
        ("public.job_ticks", "select name from public.job_tick_claim('t', '2026-01-01T00:00:00Z')"),
        ("public.inbox", "select event_id from public.inbox_claim_event('s', 'e')"),
        ("public.inbox", "select request_fingerprint from public.inbox_claim_client('s', 'e', 'f')"),
        ("public.inbox", "select state from public.inbox_claim_request('p', 'o', 'k', '{}')"),
        ("pgmq.q_q1", "select queues from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')"),
        ("pgmq.q_q1", "select queues from public.event_bus_send('e', 'q1', '{\"dedupeKey\": \"k\"}', null)"),
    ];
    make_queues(&mut owner, 1);
    owner
        .batch_execute(
            "create function refuse() returns trigger language plpgsql as $$
             begin
               raise exception using errcode = 'ZX123', message = 'refused: ' || tg_table_name, detail = 'ünd näher',
                 hint = 'so nicht', constraint = 'my_rule', column = 'my_column', datatype = 'my_type',
                 table = 'my_table', schema = 'my_schema';
             end $$",
        )
        .unwrap();
    let mut session = database.connect_as("app_be");
    for (table, call) in tables {
        owner
            .batch_execute(&format!(
                "create trigger refuse before insert on {table} for each row execute function refuse()"
            ))
            .unwrap();
        let error = fails(&mut session, call, "ZX123");
        assert_eq!(error.message(), format!("refused: {}", table.split_once('.').unwrap().1));
        assert_eq!((error.detail(), error.hint()), (Some("ünd näher"), Some("so nicht")));
        assert_eq!((error.schema(), error.table()), (Some("my_schema"), Some("my_table")));
        assert_eq!((error.constraint(), error.column()), (Some("my_rule"), Some("my_column")));
        assert_eq!(error.datatype(), Some("my_type"));
        let context = error.where_().unwrap_or_default().to_owned();
        assert!(context.starts_with("PL/pgSQL function public.refuse() line 3 at RAISE"), "{context}");
        assert!(context.contains("SQL statement \"insert into"), "{context}");
        owner.batch_execute(&format!("drop trigger refuse on {table}")).unwrap();
        rows(&mut session, call);
    }
}

#[test]
fn an_error_of_ours_arrives_whole_through_an_exception_block() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session
        .batch_execute(
            "create temp table caught (state text, message text, detail text, hint text);
             do $$
             declare state text; m text; d text; h text;
             begin
               perform public.inbox_claim_request('p', 'o', 'key', '{\"a\": 1}');
               perform public.inbox_claim_request('p', 'o', 'key', '{\"a\": 2}');
             exception when sqlstate 'LT001' then
               get stacked diagnostics state = returned_sqlstate, m = message_text, d = pg_exception_detail,
                                       h = pg_exception_hint;
               insert into caught values (state, m, d, h);
             end $$",
        )
        .unwrap();
    let caught = rows(&mut session, "select * from caught");
    assert_eq!(caught[0][..2], ["LT001", "p_idempotency_key was used with another request: key"]);
    assert_eq!(caught[0][2], "The receipt of source client:p:o holds another request's fingerprint.");
    assert!(caught[0][3].starts_with("Send a new idempotency key"), "{caught:?}");
}

#[test]
fn a_warning_of_ours_arrives_and_the_call_goes_on() {
    let database = Database::new();
    let mut owner = database.connect();
    make_queues(&mut owner, 2);
    owner.batch_execute("select pgmq.bind_topic('q1', 'q2'); drop table pgmq.q_q2").unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let mut config = database.config();
    config.user("app_be").notice_callback(move |notice| send.send(notice).unwrap());
    let mut session = config.connect(postgres::NoTls).unwrap();
    let event = "select queues from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
    assert_eq!(value(&mut session, event), "1");
    let notice = receive.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    assert_eq!((notice.severity(), notice.code().code()), ("WARNING", "42P01"));
    assert!(notice.message().contains("q2") && notice.hint().is_some(), "{notice:?}");
}

#[test]
fn a_call_that_is_cancelled_or_times_out_is_57014_and_the_session_goes_on() {
    let database = Database::new();
    let mut holder = database.connect_as("app_be");
    let mut observer = database.connect();
    holder.batch_execute("begin").unwrap();
    rows(&mut holder, CLAIM);

    let mut session = database.connect_as("app_be");
    session.batch_execute("set statement_timeout = '20ms'").unwrap();
    for _ in 0..3 {
        let error = fails(&mut session, CLAIM, "57014");
        assert!(error.message().contains("statement timeout"), "{error}");
    }
    session.batch_execute("reset statement_timeout; begin").unwrap();
    session.batch_execute(WRITE).unwrap();
    session.batch_execute("savepoint before").unwrap();

    let waiting = start(session, CLAIM).wait_until_blocked(&mut observer);
    observer.execute("select pg_cancel_backend($1)", &[&waiting.pid()]).unwrap();
    let (mut session, result) = waiting.end();
    let error = refusal(result);
    assert_eq!(error.code(), &SqlState::QUERY_CANCELED);
    assert!(error.where_().is_some_and(|context| context.contains("insert into public.jobs")), "{error:?}");
    session.batch_execute("rollback to savepoint before").unwrap();
    holder.batch_execute("rollback").unwrap();
    assert_eq!(rows(&mut session, CLAIM), [["mail"]]);
    session.batch_execute("commit").unwrap();
    assert_eq!(value(&mut session, "select count(*) from public.queue_waiting(9)"), "1");
}

#[test]
fn a_cancel_in_the_middle_of_computing_is_57014() {
    let database = Database::new();
    let mut observer = database.connect();
    // A trigger that never ends stands for any long work inside a statement of ours.
    observer
        .batch_execute(
            "create function never_ends() returns trigger language plpgsql as $$ begin loop null; end loop; end $$;
             create trigger never_ends before insert on public.queue for each row execute function never_ends()",
        )
        .unwrap();
    let running = start(database.connect_as("app_be"), WRITE);
    let pid = running.pid();
    wait_until(
        &mut observer,
        &format!(
            "exists (select from pg_locks where pid = {pid} and relation = 'public.queue'::regclass
                            and mode = 'RowExclusiveLock')"
        ),
    );
    observer.execute("select pg_cancel_backend($1)", &[&pid]).unwrap();
    let (mut session, result) = running.end();
    assert_eq!(refusal(result).code(), &SqlState::QUERY_CANCELED);
    observer.batch_execute("drop trigger never_ends on public.queue").unwrap();
    session.batch_execute(WRITE).unwrap();
}

#[test]
fn after_an_error_in_a_savepoint_the_next_call_is_good() {
    let database = Database::new();
    let mut owner = database.connect();
    make_queues(&mut owner, 1);
    owner.batch_execute("create unique index one_correlation on public.queue (correlation_id)").unwrap();
    let mut session = database.connect_as("app_be");
    session.batch_execute("begin").unwrap();
    for round in 0..200 {
        session.batch_execute("savepoint s").unwrap();
        let bad = [
            "select public.queue_write(null, '{}', null, null)",
            "select public.queue_write('mail', '{}', null, 'same'), public.queue_write('mail', '{}', null, 'same')",
            "select * from public.event_bus_read('no such queue', 1, 1)",
            "select * from public.event_bus_send('q1', '{\"payload\": 1}')",
            "select public.canonical_json(('1' || repeat('0', 400))::jsonb)",
        ];
        let error = refusal(session.simple_query(bad[round % bad.len()]));
        assert_ne!(error.code().code(), "XX000", "{error}");
        session.batch_execute("rollback to savepoint s; release savepoint s").unwrap();
        session.batch_execute(WRITE).unwrap();
        assert_eq!(column(&mut session, "select msg_id from public.event_bus_read('q1', 1, 1)"), [""; 0]);
    }
    session.batch_execute("commit").unwrap();
    assert_eq!(value(&mut session, "select count(*) from public.queue_waiting(10000)"), "200");
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory
// ---------------------------------------------------------------------------------------------------------------------

/// Calls a function so many times, inside the server.
fn call_many(session: &mut Client, call: &str, calls: u32) {
    session.batch_execute(&format!("do $$ begin for n in 1..{calls} loop perform {call}; end loop; end $$")).unwrap();
}

/// What PostgreSQL's memory contexts of a session's backend take. Only who may read all statistics may ask.
fn memory(session: &mut Client) -> i64 {
    session.query_one("select sum(total_bytes)::bigint from pg_backend_memory_contexts", &[]).unwrap().get(0)
}

#[test]
fn two_hundred_thousand_calls_in_one_transaction_take_no_memory() {
    let database = Database::new();
    make_queues(&mut database.connect(), 1);
    let mut session = database.connect();
    rows(&mut session, CLAIM);
    rows(&mut session, "select * from public.inbox_claim_request('p', 'o', 'k', '{\"b\": [1, 2.50]}')");
    for (call, calls) in [
        ("public.queue_write('mail', '{\"a\": 1}', null, 'c')", 200_000),
        ("* from public.job_claim('mail', 'k', 'w', '2026-01-01T00:01:00Z', '{}', '2026-01-01T00:00:00Z')", 50_000),
        ("* from public.inbox_claim_request('p', 'o', 'k', '{\"b\": [1, 2.50]}')", 200_000),
        ("* from public.event_bus_send('e', 'q1', '{\"dedupeKey\": \"k\"}', 'c')", 200_000),
        ("* from public.event_bus_send('none', '{\"payload\": {\"dedupeKey\": \"k\"}}')", 50_000),
        ("* from public.event_bus_archive('q1', -1)", 50_000),
        ("public.request_fingerprint('{\"b\": [1, 2.50]}')", 50_000),
    ] {
        session.batch_execute("begin").unwrap();
        call_many(&mut session, call, 10_000);
        let before = memory(&mut session);
        call_many(&mut session, call, calls);
        let after = memory(&mut session);
        // A few bytes a call at most: what is left is the allocator's and the plan cache's, for any number of calls.
        assert!(after - before < 150_000, "{call}: from {before} to {after} bytes");
        session.batch_execute("rollback").unwrap();
    }
}

#[test]
fn calls_for_every_row_of_one_statement_take_no_memory() {
    let database = Database::new();
    make_queues(&mut database.connect(), 1);
    let mut session = database.connect();
    for call in [
        "select public.queue_write('mail', '{\"a\": 1}', null, n::text) from generate_series(1, {calls}) n",
        "select c.state from generate_series(1, {calls}) n,
           lateral public.inbox_claim_request('p', 'o', (n % 10)::text, to_jsonb(n % 10)) c",
        "select c.queues from generate_series(1, {calls}) n,
           lateral public.event_bus_send(n::text, 'q1', '{\"dedupeKey\": \"k\"}', null) c",
        "select public.event_bus_send('none', jsonb_build_object('payload', jsonb_build_object('dedupeKey', n::text)))
           from generate_series(1, {calls}) n",
        "select public.request_fingerprint(to_jsonb(n)) from generate_series(1, {calls}) n",
    ] {
        session.batch_execute("begin").unwrap();
        // Measured while the statement runs, at its first rows and its last ones: afterwards all is given back anyway.
        session.batch_execute(&format!("declare c no scroll cursor for {}", call.replace("{calls}", "70000"))).unwrap();
        session.batch_execute("move 10000 in c").unwrap();
        let before = memory(&mut session);
        session.batch_execute("move 50000 in c").unwrap();
        let after = memory(&mut session);
        assert!(after - before < 150_000, "{call}: from {before} to {after} bytes");
        session.batch_execute("rollback").unwrap();
    }
}

#[test]
fn errors_in_a_loop_take_no_memory() {
    let database = Database::new();
    make_queues(&mut database.connect(), 1);
    let mut session = database.connect();
    let errors = |calls: u32| {
        format!(
            "do $$ begin for n in 1..{calls} loop
               begin
                 if n % 2 = 0 then perform public.event_bus_send('q1', '{{\"payload\": 1}}');
                 else perform public.queue_write(null, '{{}}', null, null); end if;
               exception when others then null;
               end;
             end loop; end $$"
        )
    };
    session.batch_execute(&errors(2_000)).unwrap();
    let before = memory(&mut session);
    session.batch_execute(&errors(50_000)).unwrap();
    let after = memory(&mut session);
    assert!(after - before < 150_000, "from {before} to {after} bytes");
}

// ---------------------------------------------------------------------------------------------------------------------
// Saved plans, and what they were made on
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn a_table_that_is_missing_is_42p01_and_one_that_is_made_again_is_used() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    session.batch_execute(WRITE).unwrap();
    owner.batch_execute("alter table public.queue rename to queue_away").unwrap();
    let error = fails(&mut session, WRITE, "42P01");
    assert!(error.message().contains("public.queue"), "{error}");
    owner.batch_execute("create table public.queue (like public.queue_away including all)").unwrap();
    session.batch_execute(WRITE).unwrap();
    assert_eq!(value(&mut owner, "select count(*) from public.queue"), "1");
    owner.batch_execute("drop table public.queue; alter table public.queue_away rename to queue").unwrap();
    session.batch_execute(WRITE).unwrap();
    assert_eq!(value(&mut owner, "select count(*) from public.queue"), "2");
}

#[test]
fn a_queue_that_is_dropped_and_made_again_is_used_and_42704_between() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    let send = "select queues from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
    let read = "select msg_id from public.event_bus_read('q1', 0, 1)";
    for _ in 0..3 {
        make_queues(&mut owner, 1);
        assert_eq!(column(&mut session, send), ["1"]);
        assert_eq!(column(&mut session, read), ["1"]);
        assert_eq!(column(&mut session, "select msg_id from public.event_bus_bury('q1', 1)"), ["1"]);
        owner.batch_execute("select pgmq.drop_queue('q1'), pgmq.drop_queue('q1__dead')").unwrap();
        assert_eq!(column(&mut session, send), ["0"]);
        refused(&mut session, read, "42704", "p_queue");
    }
}

/// The types that a column is changed to behind the extension's back, the table, and calls that read or write it.
const CHANGES: [(&str, &str, &str); 12] = [
    ("public.jobs", "kind type text", CLAIM),
    ("public.jobs", "kind type bytea using 'a'", CLAIM),
    (
        "public.jobs",
        "fencing_token type integer",
        "select fencing_token from public.job_claim('m', 'n', 'w', now() + '1 h', '{}', null)",
    ),
    ("public.jobs", "payload type json", CLAIM),
    ("public.job_ticks", "minute type timestamp", "select minute from public.job_tick_claim('t', now())"),
    ("public.queue", "queue type text", "select queue from public.queue_waiting(1)"),
    ("public.queue", "payload type json", "select payload from public.queue_waiting(1)"),
    (
        "public.inbox",
        "request_fingerprint type name",
        "select state from public.inbox_claim_request('p', 'o', 'k', '1')",
    ),
    ("public.inbox", "outcome type json", "select incomplete from public.inbox_claim_client('client:p:o', 'k', 'f')"),
    ("pgmq.q_q1", "read_ct type bigint", "select read_ct from public.event_bus_read('q1', 0, 1)"),
    ("pgmq.q_q1", "message type json", "select message from public.event_bus_read('q1', 0, 2)"),
    ("pgmq.q_q1", "msg_id type integer", "select msg_id from public.event_bus_read('q1', 0, 1)"),
];

#[test]
fn a_column_of_another_type_is_an_error_and_never_a_misread_value() {
    for (table, change, call) in CHANGES {
        let database = Database::new();
        let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
        make_queues(&mut owner, 1);
        // Each has something to answer, and its plan is saved.
        session.batch_execute(WRITE).unwrap();
        rows(&mut session, "select * from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')");
        session.batch_execute("begin").unwrap();
        rows(&mut session, call);
        session.batch_execute("rollback").unwrap();
        // PostgreSQL keeps the type of what a view reads.
        owner
            .batch_execute(
                "alter extension hfs_lite drop view public.hfs_lite_jobs; drop view public.hfs_lite_jobs;
                 alter extension hfs_lite drop view public.hfs_lite_outbox; drop view public.hfs_lite_outbox",
            )
            .unwrap();
        owner.batch_execute(&format!("alter table {table} alter column {change}")).unwrap();
        let error = refusal(session.simple_query(call));
        assert!(["42804", "42883"].contains(&error.code().code()), "{table} {change}: {error:?}");
        assert_eq!(pid(&mut session), pid(&mut session), "the backend lives");
    }
}

#[test]
fn a_name_of_another_type_in_pgmqs_bindings_is_never_misread() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    make_queues(&mut owner, 1);
    let send = "select queues from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
    assert_eq!(value(&mut session, send), "1");
    owner
        .batch_execute(
            "alter table pgmq.topic_bindings drop constraint topic_bindings_meta_queue_name_fk;
             alter table pgmq.topic_bindings alter column queue_name type name",
        )
        .unwrap();
    // pgmq's own function is asked, which refuses it too.
    let error = refusal(session.simple_query(send));
    assert_eq!(error.code(), &SqlState::DATATYPE_MISMATCH);
    assert_eq!(value(&mut owner, "select count(*) from pgmq.q_q1"), "1");
}

#[test]
fn of_two_tables_of_bindings_the_one_that_has_the_name_by_now_counts() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    make_queues(&mut owner, 2);
    let send = "select queues from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
    assert_eq!(value(&mut session, send), "1");
    // The session knows the name, and holds no lock.
    session.batch_execute("begin").unwrap();
    owner
        .batch_execute(
            "alter table pgmq.topic_bindings rename to topic_bindings_before;
             create table pgmq.topic_bindings (like pgmq.topic_bindings_before including all);
             insert into pgmq.topic_bindings (pattern, queue_name) values ('q1', 'q1'), ('q1', 'q2')",
        )
        .unwrap();
    assert_eq!(value(&mut session, send), "2");
    session.batch_execute("commit").unwrap();
}

#[test]
fn the_extension_can_be_dropped_and_created_again_in_one_backend() {
    let database = Database::empty();
    let mut owner = database.connect();
    for _ in 0..3 {
        owner.batch_execute("create extension hfs_lite cascade").unwrap();
        make_queues(&mut owner, 1);
        owner.batch_execute(WRITE).unwrap();
        assert_eq!(rows(&mut owner, CLAIM), [["mail"]]);
        let send = "select queues from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
        assert_eq!(value(&mut owner, send), "1");
        assert_eq!(column(&mut owner, "select msg_id from public.event_bus_read('q1', 0, 1)"), ["1"]);
        assert_eq!(value(&mut owner, "select count(*) from public.queue_waiting(9)"), "1");
        owner.batch_execute("select pgmq.drop_queue('q1'), pgmq.drop_queue('q1__dead')").unwrap();
        owner.batch_execute("drop extension hfs_lite").unwrap();
        fails(&mut owner, WRITE, "42883");
        owner.batch_execute("drop extension pgmq").unwrap();
    }
    // And in one transaction.
    owner
        .batch_execute(
            "begin; create extension hfs_lite cascade; select public.queue_write('mail', '{}', null, null);
             drop extension hfs_lite; create extension hfs_lite; select public.queue_write('mail', '{}', null, null);
             commit",
        )
        .unwrap();
    assert_eq!(value(&mut owner, "select count(*) from public.queue"), "1");
}

#[test]
fn a_session_works_on_more_queues_than_it_keeps_plans_of() {
    const QUEUES: usize = 300;
    let database = Database::new();
    let mut owner = database.connect();
    // In portions: each queue's tables are locked until the end of the transaction that makes them.
    for portion in 0..6 {
        owner
            .batch_execute(&format!(
                "select pgmq.create('q' || n), pgmq.create('q' || n || '__dead'), pgmq.bind_topic('q' || n, 'q' || n)
                   from generate_series({portion} * 50 + 1, {portion} * 50 + 50) n"
            ))
            .unwrap();
    }
    let mut session = database.connect();
    let mut memory_before = 0;
    for round in 0..4 {
        for n in 1..=QUEUES {
            let send = format!(
                "select queues from public.event_bus_send('e{round}', 'q{n}', '{{\"dedupeKey\": \"k\"}}', null)"
            );
            match (n + round) % 10 {
                // An error ends the transaction in which plans were saved.
                3 => {
                    session.batch_execute("begin").unwrap();
                    assert_eq!(value(&mut session, &send), "1");
                    fails(&mut session, &format!("select * from public.event_bus_read('q{n}', -1, 1)"), "22023");
                    session.batch_execute("rollback").unwrap();
                }
                6 => {
                    session.batch_execute("begin; savepoint s").unwrap();
                    assert_eq!(value(&mut session, &send), "1");
                    session.batch_execute("rollback to savepoint s; commit").unwrap();
                }
                _ => {}
            }
            assert_eq!(value(&mut session, &send), "1");
            let read =
                format!("select msg_id, read_ct, message ->> 'eventName' from public.event_bus_read('q{n}', 60, 1)");
            let answer = rows(&mut session, &read);
            assert_eq!(answer[0][1..], ["1", &*format!("q{n}")]);
            let end = if n % 2 == 0 { "bury" } else { "archive" };
            let sql = format!("select msg_id from public.event_bus_{end}('q{n}', '{}')", answer[0][0]);
            assert_eq!(column(&mut session, &sql).len(), 1);
        }
        if round == 1 {
            memory_before = memory(&mut session);
        }
    }
    // From the second round on, plans come and go and their number stays; so does the memory, but for some queues'.
    let grown = memory(&mut session) - memory_before;
    assert!(grown < 20_000_000, "grown by {grown} bytes");
}

#[test]
fn more_queues_than_are_kept_can_be_used_in_one_transaction() {
    let database = Database::new();
    let mut owner = database.connect();
    for portion in 0..6 {
        owner
            .batch_execute(&format!(
                "select pgmq.create('q' || n), pgmq.bind_topic('all', 'q' || n)
                   from generate_series({portion} * 50 + 1, {portion} * 50 + 50) n"
            ))
            .unwrap();
    }
    let mut session = database.connect_as("app_be");
    for end in ["commit", "rollback", "commit"] {
        session.batch_execute("begin").unwrap();
        let send = "select queues from public.event_bus_send('all', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
        assert_eq!(value(&mut session, send), "300");
        assert_eq!(value(&mut session, send), "300");
        session.batch_execute(end).unwrap();
    }
    let messages = "select count(*) from generate_series(1, 300) n, lateral public.event_bus_read('q' || n, 60, 10)";
    assert_eq!(value(&mut session, messages), "1200");
}

// ---------------------------------------------------------------------------------------------------------------------
// Where a function may stand
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn the_functions_stand_wherever_a_set_may() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let claim = |key: &str| format!("public.job_claim('mail', '{key}', 'w', now() + '1 h', '{{}}', null)");
    // FROM, with an alias, columns renamed, and numbered.
    assert_eq!(value(&mut session, &format!("select c.kind from {} c", claim("from"))), "mail");
    assert_eq!(
        value(&mut session, &format!("select b from {} with ordinality as c (a, b, c, d, e, f)", claim("named"))),
        "mail"
    );
    assert_eq!(
        rows(
            &mut session,
            &format!("select kind, name from rows from ({}, public.job_tick_claim('t', now())) r", claim("rows"))
        ),
        [["mail", "t"]]
    );
    // LATERAL, once a row.
    let lateral = "select count(*), min(c.fencing_token) from generate_series(1, 5) n,
                     lateral public.job_claim('mail', 'lateral' || n, 'w', now() + '1 h', '{}', null) c";
    assert_eq!(rows(&mut session, lateral), [["5", "1"]]);
    // The target list, as a record, as its fields, and of one column.
    assert!(value(&mut session, &format!("select {}", claim("target"))).ends_with(",mail,1,,{})"));
    assert_eq!(value(&mut session, &format!("select ({}).kind", claim("field"))), "mail");
    assert_eq!(value(&mut session, "select public.inbox_claim_event('s', 'e')"), "e");
    assert_eq!(column(&mut session, "select public.inbox_claim_event('s', 'e')"), [""; 0]);
    assert_eq!(
        column(&mut session, "select public.inbox_claim_event('s', n::text) from generate_series(1, 3) n"),
        ["1", "2", "3"]
    );
    // No row of it is wanted, by LIMIT 0 or by a condition that is never true: PostgreSQL does not call it.
    assert_eq!(column(&mut session, &format!("select kind from {} limit 0", claim("limit"))), [""; 0]);
    assert_eq!(column(&mut session, &format!("select kind from {} where false", claim("limit"))), [""; 0]);
    assert_eq!(value(&mut session, &format!("select kind from {} limit 1", claim("limit"))), "mail");
    // EXISTS, IN, a scalar subquery, a CTE, INSERT ... SELECT, a cursor.
    assert_eq!(value(&mut session, &format!("select exists (select from {})", claim("exists"))), "t");
    assert_eq!(value(&mut session, "select 'e2' in (select event_id from public.inbox_claim_event('s', 'e2'))"), "t");
    assert_eq!(value(&mut session, &format!("select (select kind from {})", claim("scalar"))), "mail");
    assert_eq!(
        value(&mut session, &format!("with c as materialized (select * from {}) select kind from c", claim("cte"))),
        "mail"
    );
    session.batch_execute(&format!("create temp table t as select * from {}", claim("ctas"))).unwrap();
    session.batch_execute(&format!("insert into t select * from {}", claim("insert"))).unwrap();
    assert_eq!(value(&mut session, "select count(*) from t where kind = 'mail'"), "2");
    session.batch_execute(&format!("begin; declare c cursor for select kind from {}", claim("cursor"))).unwrap();
    assert_eq!(value(&mut session, "fetch all in c"), "mail");
    session.batch_execute("commit").unwrap();
}

#[test]
fn the_functions_can_be_prepared_and_stand_in_functions() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    // Many runs of one prepared statement: PostgreSQL goes over to its generic plan on the way.
    session
        .batch_execute(
            "prepare claim (varchar, varchar) as
             select kind, fencing_token from public.job_claim($1, $2, 'w', now() + '1 h', '{}', null)",
        )
        .unwrap();
    for n in 0..20 {
        assert_eq!(rows(&mut session, &format!("execute claim ('mail', 'p{n}')")), [["mail", "1"]]);
        assert_eq!(rows(&mut session, &format!("execute claim ('mail', 'p{n}')")), [[""; 0]; 0]);
    }
    // Over the extended protocol, with every parameter of type text, as drivers send them.
    let statement = session
        .prepare_typed(
            "select kind from public.job_claim($1::text, $2::text, 'w', now() + '1 h', '{}', null)",
            &[postgres::types::Type::TEXT, postgres::types::Type::TEXT],
        )
        .unwrap();
    for n in 0..20 {
        let row = session.query_one(&statement, &[&"mail", &format!("x{n}")]).unwrap();
        assert_eq!(row.get::<_, String>(0), "mail");
    }
    owner
        .batch_execute(
            "create function public.in_sql(k text) returns text language sql as
               $$ select kind from public.job_claim('mail', k, 'w', now() + '1 h', '{}', null) $$;
             create function public.in_plpgsql(k text) returns setof text language plpgsql as $$
             declare r record;
             begin
               for r in select * from public.job_claim('mail', k || '1', 'w', now() + '1 h', '{}', null) loop
                 return next r.kind;
               end loop;
               select * into r from public.job_claim('mail', k || '2', 'w', now() + '1 h', '{}', null);
               return next r.kind || r.fencing_token;
               return query
                 select c.kind::text from public.job_claim('mail', k || '3', 'w', now() + '1 h', '{}', null) c;
               perform public.queue_write('mail', '{}', null, null);
             end $$",
        )
        .unwrap();
    for n in 0..8 {
        assert_eq!(value(&mut session, &format!("select public.in_sql('s{n}')")), "mail");
        assert_eq!(column(&mut session, &format!("select public.in_plpgsql('l{n}')")), ["mail", "mail1", "mail"]);
    }
}

#[test]
fn a_call_inside_a_statement_of_ours_is_a_call_like_any_other() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    // A trigger on one of our tables that calls our functions: one statement runs inside another, of the same text too.
    owner
        .batch_execute(
            "create function again() returns trigger language plpgsql as $$
             begin
               if new.payload <> '0' then
                 perform public.queue_write(new.queue, to_jsonb(new.payload::integer - 1), null, null);
               end if;
               return new;
             end $$;
             create trigger again before insert on public.queue for each row execute function again()",
        )
        .unwrap();
    session.batch_execute("select public.queue_write('mail', '5', null, null)").unwrap();
    assert_eq!(
        value(&mut session, "select string_agg(payload::text, ',' order by payload) from public.queue_waiting(9)"),
        "0,1,2,3,4,5"
    );
}

#[test]
fn a_procedure_may_commit_between_calls_and_rows() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    make_queues(&mut owner, 3);
    session
        .batch_execute(
            "do $$ declare r record; begin
               for n in 1..5 loop
                 perform public.event_bus_send('q' || (n % 3 + 1), '{\"payload\": {\"dedupeKey\": \"k\"}}');
                 commit;
               end loop;
               for r in
                 select n, m.msg_id from generate_series(1, 3) n, lateral public.event_bus_read('q' || n, 60, 5) m
               loop
                 perform public.event_bus_archive('q' || r.n, r.msg_id);
                 commit;
               end loop;
             end $$",
        )
        .unwrap();
    let archived = "select count(*) from (table pgmq.a_q1 union all table pgmq.a_q2 union all table pgmq.a_q3) a";
    assert_eq!(value(&mut owner, archived), "5");
}

#[test]
fn a_place_that_takes_no_set_is_refused_cleanly() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect_as("app_be"));
    for sql in [
        "select case when true then public.inbox_claim_event('s', 'e') end",
        "select 1 where public.inbox_claim_event('s', 'e') = 'e'",
        "select coalesce(public.inbox_claim_event('s', 'e'), '')",
        "values (1), (public.job_complete(null, 1, null) is null::int)",
    ] {
        let error = refusal(session.simple_query(sql));
        assert!(["0A000", "42883", "42846"].contains(&error.code().code()), "{sql}: {error}");
    }
    // PostgreSQL's parser refuses those. To get past it takes a catalog that lies.
    owner
        .batch_execute(
            "update pg_proc set proretset = false
              where proname in ('inbox_claim_event', 'event_bus_read', 'job_claim')",
        )
        .unwrap();
    make_queues(&mut owner, 1);
    let mut session = database.connect_as("app_be");
    for sql in [
        "select public.inbox_claim_event('s', 'e')",
        "select public.event_bus_read('q1', 0, 1)",
        "select public.job_claim('mail', 'k', 'w', now() + '1 h', '{}', null)",
    ] {
        let error = fails(&mut session, sql, "0A000");
        assert!(error.message().contains("set-valued function called in context that cannot accept a set"), "{error}");
    }
    session.batch_execute(WRITE).unwrap();
    assert_eq!(value(&mut owner, "select count(*) from public.inbox"), "0");
}

#[test]
fn a_read_only_transaction_refuses_writers_with_25006_and_lets_readers_through() {
    let database = Database::new();
    let (mut owner, mut session) = (database.connect(), database.connect());
    make_queues(&mut owner, 1);
    rows(&mut owner, CLAIM);
    let id = value(&mut owner, "select id from public.jobs");
    for sql in [
        WRITE.to_owned(),
        "select * from public.job_claim('mail', 'new', 'w', now() + '1 h', '{}', null)".to_owned(),
        format!("select * from public.job_advance('{id}', 1, 'half', null)"),
        format!("select * from public.job_complete('{id}', 1, null)"),
        format!("select * from public.job_fail('{id}', 1, null, null)"),
        "select * from public.job_tick_claim('t', now())".to_owned(),
        "select * from public.queue_waiting(1)".to_owned(),
        format!("select public.queue_mark_sent('{{{id}}}', null)"),
        "select * from public.inbox_claim_event('s', 'e')".to_owned(),
        "select * from public.inbox_claim_client('s', 'e', 'f')".to_owned(),
        "select * from public.inbox_claim_request('p', 'o', 'k', '{}')".to_owned(),
        "select * from public.inbox_save_client_outcome('s', 'e', '1')".to_owned(),
        "select * from public.inbox_sweep_clients(now(), 1)".to_owned(),
        "select * from public.inbox_sweep_events(now(), 1)".to_owned(),
        "select * from public.jobs_sweep(now(), 1)".to_owned(),
        "select * from public.queue_sweep(now(), 1)".to_owned(),
        "select * from public.event_bus_sweep('q1', now(), 1)".to_owned(),
        "select * from public.event_bus_unsubscribe('q1', 'q1')".to_owned(),
        "select * from public.event_bus_record()".to_owned(),
        "select * from public.event_bus_repair()".to_owned(),
        "select * from public.inbox_forget('s', 'e')".to_owned(),
        "select * from public.event_bus_send('q1', '{\"payload\": {\"dedupeKey\": \"k\"}}')".to_owned(),
        "select * from public.event_bus_read('q1', 0, 1)".to_owned(),
        "select * from public.event_bus_read('q1', 0, 2)".to_owned(),
        "select * from public.event_bus_archive('q1', 1)".to_owned(),
        "select * from public.event_bus_bury('q1', 1)".to_owned(),
        "select * from public.event_bus_requeue('q1', 1)".to_owned(),
        "select * from public.event_bus_subscribe('order.placed', 'mail')".to_owned(),
        "select public.hfs_lite_revoke('app_be')".to_owned(),
    ] {
        session.batch_execute("begin read only").unwrap();
        fails(&mut session, &sql, "25006");
        session.batch_execute("rollback").unwrap();
    }
    session.batch_execute("begin read only").unwrap();
    assert_eq!(value(&mut session, "select public.canonical_json('{\"b\": 1, \"a\": 2}')"), "{\"a\":2,\"b\":1}");
    assert_eq!(value(&mut session, "select length(public.request_fingerprint('{}'))"), "64");
    assert_eq!(column(&mut session, "select msg_id from public.event_bus_dead_letters('q1')"), [""; 0]);
    session.batch_execute("commit").unwrap();
}

// ---------------------------------------------------------------------------------------------------------------------
// What CREATE EXTENSION asks for
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn an_older_pgmq_is_refused_with_its_version() {
    let database = Database::empty();
    let mut owner = database.connect();
    owner.batch_execute("create extension pgmq version '1.11.0'").unwrap();
    let error = refused(&mut owner, "create extension hfs_lite", "0A000", "pgmq 1.11.0 is installed");
    assert!(error.message().contains("1.11.1 or newer"), "{error}");
    assert!(error.hint().unwrap().contains("ALTER EXTENSION pgmq UPDATE"), "{error:?}");
    assert_eq!(value(&mut owner, "select count(*) from pg_extension where extname = 'hfs_lite'"), "0");
    // The hint leads out.
    owner.batch_execute("alter extension pgmq update; create extension hfs_lite").unwrap();
}

#[test]
fn the_oldest_pgmq_that_will_do_does() {
    let database = Database::empty();
    let mut owner = database.connect();
    owner
        .batch_execute(
            "create extension pgmq version '1.11.0'; alter extension pgmq update to '1.11.1'; create extension hfs_lite;
             select public.event_bus_subscribe('order.placed', 'mail')",
        )
        .unwrap();
    let send = "select queues from public.event_bus_send('order.placed', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
    assert_eq!(value(&mut owner, send), "1");
    assert_eq!(column(&mut owner, "select msg_id from public.event_bus_read('order.placed__mail', 1, 1)"), ["1"]);
}

#[test]
fn a_database_of_another_encoding_is_refused() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let database = Database::of_encoding(encoding);
        let mut owner = database.connect();
        let error = refused(&mut owner, "create extension hfs_lite cascade", "0A000", encoding);
        assert!(error.message().contains("UTF8"), "{error}");
        assert_eq!(value(&mut owner, "select count(*) from pg_extension where extname = 'hfs_lite'"), "0");
    }
}

#[test]
fn without_pgmq_and_without_cascade_postgresql_says_what_is_missing() {
    let database = Database::empty();
    let mut owner = database.connect();
    let error =
        refused(&mut owner, "create extension hfs_lite", "42704", "required extension \"pgmq\" is not installed");
    assert!(error.hint().unwrap().contains("CASCADE"), "{error:?}");
    assert!(try_rows(&mut owner, "create extension hfs_lite cascade").is_ok());
}

/// A plan is saved at the first call, when a table may be empty. Made for that, it must not read the whole table once it is large.
#[test]
fn calls_on_many_items_read_what_they_name_whatever_the_table_was_like_when_they_were_planned() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "select event_bus_subscribe('order.created', 'billing');
             alter table public.jobs set (autovacuum_enabled = off);
             alter table pgmq.\"q_order.created__billing\" set (autovacuum_enabled = off)",
        )
        .unwrap();
    let mut session = database.connect();
    let calls = [
        ("jobs", "job_claim_many('mail', '{k1,k2}', 'w', '2026-01-03', '{1,2}', '2026-01-02')"),
        ("jobs", "job_complete_many(array(select uuid_of(i) from generate_series(3, 4) i), '{1,1}', null)"),
        ("jobs", "job_fail_many(array(select uuid_of(i) from generate_series(5, 6) i), '{1,1}', '{a,b}', null)"),
        ("q_order.created__billing", "event_bus_archive_many('order.created__billing', '{1,2}', '{0,0}')"),
    ];
    superuser
        .batch_execute(
            "create function public.uuid_of(i integer) returns uuid immutable language sql return
               ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid",
        )
        .unwrap();
    for (_, call) in calls {
        rows(&mut session, &format!("select * from public.{call}"));
    }
    superuser
        .batch_execute(
            "delete from public.jobs;
             insert into public.jobs (id, kind, job_key, status, fencing_token, payload, lease_expires_at, created_at, updated_at)
             select uuid_of(i), 'mail', 'k' || i, 'running', 1, '{}', '2026-01-01', now(), now()
               from generate_series(1, 20000) i;
             insert into pgmq.\"q_order.created__billing\" (vt, message)
             select now(), '{}' from generate_series(1, 20000)",
        )
        .unwrap();
    for (table, call) in calls {
        let read = format!(
            "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname = '{table}'"
        );
        session.batch_execute("select pg_stat_force_next_flush()").unwrap();
        let before: i64 = value(&mut session, &read).parse().unwrap();
        assert_eq!(rows(&mut session, &format!("select * from public.{call}")).len(), 2, "{call}");
        session.batch_execute("select pg_stat_force_next_flush()").unwrap();
        let after: i64 = value(&mut session, &read).parse().unwrap();
        assert!(after - before > 0 && after - before < 100, "{call} read {} rows", after - before);
    }
}
