//! The event bus, as one session sees it.

use super::checks::{AWKWARD, Takes, arguments, caught, changes_nothing, contents, quoted, wide, writes_nothing};
use super::harness::{Database, column, refusal, refused, rows, value, wait_until};
use postgres::error::{DbError, SqlState};
use postgres::{Client, NoTls};
use std::sync::{Arc, Mutex};

/// The least that is an event.
const EVENT: &str = r#"{"payload": {"dedupeKey": "d"}}"#;
/// A queue that `subscribed` makes.
pub const QUEUE: &str = "order.created__billing";

/// A database with a consumer `billing` of the topic `order.created`; a session of the back end, and the superuser's.
pub fn subscribed() -> (Database, Client, Client) {
    let database = Database::new();
    let mut operator = database.connect_as("operator");
    rows(&mut operator, "select * from public.event_bus_subscribe('order.created', 'billing')");
    let (session, superuser) = (database.connect_as("app_be"), database.connect());
    (database, session, superuser)
}

pub fn send(session: &mut Client, topic: &str) -> String {
    value(session, &format!("select queues from public.event_bus_send('{topic}', '{EVENT}')"))
}

/// Puts a message with headers into a queue; answers its id.
fn put(superuser: &mut Client, queue: &str, headers: &str) -> String {
    value(superuser, &format!("select pgmq.send('{queue}', '{EVENT}', {}::jsonb)", sql_or_null(headers)))
}

fn sql_or_null(text: &str) -> String {
    if text == "∅" { "null".into() } else { quoted(text) }
}

/// Takes the visible messages of a queue; answers msg_id and read_ct.
pub fn read(session: &mut Client, queue: &str, vt: u32, quantity: u32) -> Vec<Vec<String>> {
    rows(session, &format!("select msg_id, read_ct from public.event_bus_read('{queue}', {vt}, {quantity})"))
}

pub fn bury(session: &mut Client, queue: &str, msg_id: &str) -> String {
    value(session, &format!("select * from public.event_bus_bury('{queue}', '{msg_id}', 'no use')"))
}

pub fn requeue(session: &mut Client, queue: &str, msg_id: &str) -> String {
    value(session, &format!("select * from public.event_bus_requeue('{queue}', '{msg_id}')"))
}

/// Numbers below what is asked for, the same ones in each run: Knuth's MMIX generator.
fn random() -> impl FnMut(usize) -> usize {
    let mut state = 4711_u64;
    move |n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    }
}

/// How many messages each queue of pgmq holds, of those that hold any.
fn holding(superuser: &mut Client) -> Vec<Vec<String>> {
    let queues = column(superuser, "select queue_name from pgmq.meta order by 1");
    let counts: Vec<String> = queues
        .iter()
        .map(|queue| format!("select '{queue}', count(*) from pgmq.\"q_{}\"", queue.to_lowercase()))
        .collect();
    let all =
        format!("select * from ({}) t (queue, messages) where messages > 0 order by 1", counts.join(" union all "));
    if counts.is_empty() { vec![] } else { rows(superuser, &all) }
}

// ---------------------------------------------------------------------------------------------------------------------
// Sending
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn an_envelope_arrives_as_it_was_sent() {
    let (_database, mut session, mut superuser) = subscribed();
    let envelope = r#"{"eventId": "1", "eventName": "order.created",
        "payload": {"dedupeKey": "d", "n": 1.50, "s": "it's \\ \"x\""},
        "metadata": {"correlationId": "c", "more": [null]}, "version": 3}"#;
    let before = value(&mut superuser, "select clock_timestamp()");
    let call = format!("select queues from public.event_bus_send('order.created', {})", quoted(envelope));
    assert_eq!(rows(&mut session, &call), [["1"]]);
    let stored = format!(
        "select message = {}, headers, read_ct, last_read_at, vt <= clock_timestamp(),
                enqueued_at between '{before}' and clock_timestamp() from pgmq.\"q_{QUEUE}\"",
        quoted(envelope)
    );
    assert_eq!(rows(&mut superuser, &stored), [["t", "∅", "0", "∅", "t", "t"]]);
    let received =
        format!("select message = {}, headers from public.event_bus_read('{QUEUE}', 30, 1)", quoted(envelope));
    assert_eq!(rows(&mut session, &received), [["t", "∅"]], "it can be read at once");
}

#[test]
fn values_that_a_table_keeps_compressed_or_out_of_line_arrive_whole() {
    let (_database, _, mut superuser) = subscribed();
    superuser
        .batch_execute(
            "create temporary table events (storage text, topic text, envelope jsonb);
             insert into events
             select storage, 'order.created', jsonb_build_object(
                      'eventName', 'order.created', 'eventId', repeat('e', 200), 'payload', jsonb_build_object('dedupeKey', repeat('d', 30000),
                        'noise', (select jsonb_agg(md5(i::text)) from generate_series(1, size) i)))
               from (values ('short', 0), ('compressed', 10), ('out of line', 3000)) s (storage, size)",
        )
        .unwrap();
    let sent = "select storage, s.queues from events, public.event_bus_send(topic, envelope) s";
    assert_eq!(rows(&mut superuser, sent), [["short", "1"], ["compressed", "1"], ["out of line", "1"]]);
    let arrived = format!(
        "select storage from events join public.event_bus_read('{QUEUE}', 30, 10) on message = envelope order by msg_id"
    );
    assert_eq!(column(&mut superuser, &arrived), ["short", "compressed", "out of line"]);
    let canonical = "select bool_and(public.canonical_json(envelope)::jsonb = envelope
           and public.request_fingerprint(envelope) = public.request_fingerprint(envelope::text::jsonb)) from events";
    assert_eq!(value(&mut superuser, canonical), "t");
    let kept = "select bool_and(c.payload = envelope)
          from events, public.job_claim('mail', storage, 'w', '3000-01-01', envelope, null) c";
    assert_eq!(value(&mut superuser, kept), "t");
    // A refusal looks into it too.
    let call = "select * from events e, public.event_bus_send('other', e.envelope)";
    refused(&mut superuser, call, "22023", "eventName");
}

#[test]
fn the_second_form_builds_the_envelope() {
    let (_database, mut session, _) = subscribed();
    let payload = quoted(&format!(r#"{{"dedupeKey": {}, "n": [1.50]}}"#, serde_json::to_string(AWKWARD).unwrap()));
    for (event_id, correlation_id) in [("e", "∅"), (AWKWARD, AWKWARD), ("e", " ")] {
        let call = format!(
            "select queues from public.event_bus_send({}, 'order.created', {payload}, {})",
            quoted(event_id),
            sql_or_null(correlation_id)
        );
        assert_eq!(rows(&mut session, &call), [["1"]]);
        let metadata = match correlation_id {
            "∅" => "'{}'".to_owned(),
            id => format!("jsonb_build_object('metadata', jsonb_build_object('correlationId', {}::text))", quoted(id)),
        };
        let received = format!(
            "select message = {metadata} || jsonb_build_object(
                      'eventId', {}::text, 'eventName', 'order.created', 'payload', {payload}::jsonb)
               from public.event_bus_read('{QUEUE}', 30, 1)",
            quoted(event_id)
        );
        assert_eq!(column(&mut session, &received), ["t"]);
    }
}

#[test]
fn an_event_that_is_rolled_back_was_never_sent() {
    let (_database, mut session, mut superuser) = subscribed();
    session.batch_execute("begin; savepoint s").unwrap();
    assert_eq!(send(&mut session, "order.created"), "1");
    session.batch_execute("rollback to s").unwrap();
    assert!(read(&mut session, QUEUE, 0, 1).is_empty());
    assert_eq!(send(&mut session, "order.created"), "1");
    assert_eq!(read(&mut session, QUEUE, 0, 10).len(), 1, "the sending transaction sees its own");
    session.batch_execute("rollback").unwrap();
    assert!(holding(&mut superuser).is_empty());
}

#[test]
fn events_are_routed_exactly_as_pgmq_routes_them() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let patterns = [
        "a", "a.b", "a.b.c", "A.b", "a_b", "a-b", "*", "#", "a.*", "a.#", "*.b", "#.b", "*.*", "a.*.c", "a.#.c",
        "#.b.#", "*.b.*", "a_b.*", "a-b.#", "a*", "*a", "a#", "#a", "a.b*", "*b.c", "*.#", "#.*", "a.*.*", "__.#",
        "a.b.#",
    ];
    let keys = [
        "a", "b", "aa", "a.b", "A.b", "a.B", "axb", "a_b", "a-b", "a.b.c", "a.c", "a.x.c", "a.x.y.c", "x.b", "x.y.b",
        "a.b.b", "a_b.c", "axb.c", "a-b.c.d", "x.b.y", "ab", "ab.c", "__.a", "xx.a", "a._.c", "a.-.c", "1.2.3", "a.bb",
    ];
    for (i, pattern) in patterns.iter().enumerate() {
        superuser
            .batch_execute(&format!("select pgmq.create('q{i:02}'); select pgmq.bind_topic('{pattern}', 'q{i:02}')"))
            .unwrap();
    }
    // A queue that many patterns lead to gets one copy.
    superuser
        .batch_execute(
            "select pgmq.create('every'); select pgmq.bind_topic(pattern, 'every') from pgmq.topic_bindings;
             select pgmq.create('unbound')",
        )
        .unwrap();
    for key in keys {
        let expected =
            column(&mut superuser, &format!("select distinct queue_name from pgmq.test_routing('{key}') order by 1"));
        superuser.batch_execute("begin").unwrap();
        assert_eq!(send(&mut superuser, key), expected.len().to_string(), "{key}");
        let arrived = holding(&mut superuser);
        superuser.batch_execute("rollback; begin").unwrap();
        value(&mut superuser, &format!("select pgmq.send_topic('{key}', '{EVENT}')"));
        assert_eq!(arrived, holding(&mut superuser), "{key}");
        superuser.batch_execute("rollback").unwrap();
        assert_eq!(arrived, expected.iter().map(|queue| vec![queue.clone(), "1".into()]).collect::<Vec<_>>(), "{key}");
        session.batch_execute("begin").unwrap();
        assert_eq!(send(&mut session, key), expected.len().to_string(), "{key}");
        session.batch_execute("rollback").unwrap();
    }
}

/// The index that finds bindings; an update of pgmq that makes its table anew would lose it.
const HEADS: &str = "pgmq.hfs_lite_topic_heads_idx";

#[test]
fn three_hundred_random_patterns_lead_where_pgmq_says_with_our_index_and_without() {
    let database = Database::new();
    let mut superuser = database.connect();
    let mut below = random();
    let mut joined = |words: &[&str], at_most: usize| {
        let count = 1 + below(at_most);
        (0..count).map(|_| words[below(words.len())]).collect::<Vec<_>>().join(".")
    };
    let parts = ["a", "b", "ab", "A", "_", "-", "1", "*", "#", "a*", "*b", "a*b", "#b", "b#", "a#b", "a*b#"];
    let mut patterns: Vec<String> = (0..300).map(|_| joined(&parts, 4)).collect();
    patterns.sort();
    patterns.dedup();
    let words = ["a", "b", "ab", "aab", "abb", "bab", "A", "_", "-", "1", "x"];
    let mut keys: Vec<String> = (0..250).map(|_| joined(&words, 5)).collect();
    keys.extend(["a".repeat(255), format!("a.{}", "b".repeat(253))]);
    superuser.batch_execute("select pgmq.create('q' || i) from generate_series(0, 19) i").unwrap();
    for (i, pattern) in patterns.iter().enumerate() {
        superuser.batch_execute(&format!("select pgmq.bind_topic('{pattern}', 'q{}')", i % 20)).unwrap();
    }
    for found_by in ["the index", "pgmq's own index"] {
        for key in &keys {
            let routing =
                format!("select distinct queue_name, '1' from pgmq.test_routing('{key}') order by queue_name");
            let expected = rows(&mut superuser, &routing);
            superuser.batch_execute("begin").unwrap();
            assert_eq!(send(&mut superuser, key), expected.len().to_string(), "{key} by {found_by}");
            assert_eq!(holding(&mut superuser), expected, "{key} by {found_by}");
            superuser.batch_execute("rollback").unwrap();
        }
        superuser.batch_execute(&format!("drop index if exists {HEADS}")).unwrap();
    }
}

#[test]
fn bindings_are_found_however_the_index_was_made_and_in_the_order_of_their_names() {
    let (_database, mut session, mut superuser) = subscribed();
    superuser.batch_execute("select pgmq.create('w'), pgmq.bind_topic('order.*', 'w')").unwrap();
    assert_eq!(send(&mut session, "order.created"), "2");
    // Another index of that name says nothing, nor does a table that is there in its place.
    superuser.batch_execute(&format!("drop index {HEADS}")).unwrap();
    assert_eq!(send(&mut session, "order.created"), "2");
    for other in [
        "create index hfs_lite_topic_heads_idx on pgmq.meta (queue_name)",
        "create index hfs_lite_topic_heads_idx on pgmq.topic_bindings (bound_at)",
        "create index hfs_lite_topic_heads_idx on pgmq.topic_bindings (pattern)",
        "create index hfs_lite_topic_heads_idx on pgmq.topic_bindings (lower(pattern))",
        "create index hfs_lite_topic_heads_idx on pgmq.topic_bindings using hash (pattern)",
        "create index hfs_lite_topic_heads_idx on pgmq.topic_bindings (pattern) where pattern = 'other'",
        "create table pgmq.hfs_lite_topic_heads_idx (pattern text)",
    ] {
        superuser.batch_execute(other).unwrap();
        assert_eq!(send(&mut session, "order.created"), "2", "{other}");
        let kind = if other.starts_with("create table") { "table" } else { "index" };
        superuser.batch_execute(&format!("drop {kind} {HEADS}")).unwrap();
    }
}

/// A second consumer of the topic of [`QUEUE`], whose tables are as those of another pgmq may be.
const OTHER: &str = "order.created__other";

/// Gives the tables of a queue a column that we do not know, or takes it away again.
fn another_pgmq(superuser: &mut Client, queue: &str, change: &str) {
    for table in ["q_{}", "a_{}", "q_{}__dead", "a_{}__dead"] {
        superuser.batch_execute(&format!("alter table pgmq.\"{}\" {change}", table.replace("{}", queue))).unwrap();
    }
}

#[test]
fn tables_of_another_pgmq_are_served_by_its_own_functions_with_the_same_answers() {
    let (_database, _session, mut superuser) = subscribed();
    rows(&mut superuser, "select * from public.event_bus_subscribe('order.created', 'other')");
    another_pgmq(&mut superuser, OTHER, "add column tenant text not null default 'a'");
    // In one transaction, since the statistics are its own and all is enqueued at one instant.
    superuser.batch_execute("begin; set local track_functions = 'all'").unwrap();
    let mut below = random();
    let mut sent = 0;
    for step in 0..800 {
        let mut any = |n: usize| 1 + below(n);
        let (id, read_ct) = (any(40), ["null", "1", "1", "2"][any(4) - 1]);
        let call = match any(12) {
            1 | 2 => {
                sent += 1;
                assert_eq!(send(&mut superuser, "order.created"), "2");
                continue;
            }
            3 => {
                sent += 3;
                let three = format!("array['{EVENT}', '{EVENT}', '{EVENT}']::jsonb[]");
                let call = format!("select * from public.event_bus_send_many('order.created', {three})");
                assert_eq!(value(&mut superuser, &call), "2");
                continue;
            }
            // Time passes: what is hidden is visible again.
            4 => {
                for queue in [QUEUE, OTHER] {
                    let earlier = "timestamptz '2000-01-01' + msg_id * interval '1 second'";
                    superuser.batch_execute(&format!("update pgmq.\"q_{queue}\" set vt = {earlier}")).unwrap();
                }
                continue;
            }
            5 | 6 => format!("msg_id, read_ct, enqueued_at, message, headers from event_bus_read($, 1000, {})", any(3)),
            7 => format!("* from event_bus_archive($, {id}, {read_ct})"),
            8 => {
                let (ids, cts) = ([id, any(40), any(40), id], [1, any(2), 1, any(2)]);
                format!("* from event_bus_archive_many($, array{ids:?}::bigint[], array{cts:?})")
            }
            9 => format!("msg_id, vt > '2100-01-01' from event_bus_extend($, {id}, {}, 2147483647)", any(2)),
            10 => format!("* from event_bus_bury($, {id}, 'no use', {read_ct})"),
            11 => format!("* from event_bus_requeue($, {})", any(10)),
            _ => "msg_id, attempts, enqueued_at, reason, message, headers from event_bus_dead_letters($)".into(),
        };
        let mut answers = |queue| rows(&mut superuser, &format!("select {}", call.replace('$', &quoted(queue))));
        assert_eq!(answers(OTHER), answers(QUEUE), "step {step}: {call}");
    }
    let mut calls = |functions: &str| {
        let called =
            format!("select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname in ({functions})");
        value(&mut superuser, &called).parse::<u32>().unwrap()
    };
    assert!(sent > 50, "{sent}");
    assert!(calls("'send'") > 30, "each was sent by pgmq, once");
    for function in ["'send_batch'", "'read'", "'archive'", "'set_vt'", "'delete'"] {
        assert!(calls(function) > 0, "{function}");
    }
    for table in ["q_{}", "a_{}", "q_{}__dead"] {
        let mut kept = |queue| {
            let table = table.replace("{}", queue);
            rows(
                &mut superuser,
                &format!(
                    "select msg_id, read_ct, enqueued_at, message, headers #- '{{hfs_lite,buried_at}}'
                       from pgmq.\"{table}\" order by msg_id"
                ),
            )
        };
        assert!(!kept(QUEUE).is_empty(), "{table}");
        assert_eq!(kept(OTHER), kept(QUEUE), "{table}");
    }
    superuser.batch_execute("commit").unwrap();
}

#[test]
fn a_backend_notices_that_pgmqs_tables_have_changed() {
    let (database, mut session, mut superuser) = subscribed();
    superuser.batch_execute("set track_functions = 'all'").unwrap();
    let mut through_pgmq = || {
        // What it counted before belongs to nobody's transaction now.
        superuser.batch_execute("select pg_stat_force_next_flush(); begin").unwrap();
        send(&mut superuser, "order.created");
        read(&mut superuser, QUEUE, 0, 1);
        let calls = "select string_agg(funcname, ' ' order by funcname) from pg_stat_xact_user_functions
                      where schemaname = 'pgmq' and funcname in ('send', 'read')";
        let calls = value(&mut superuser, calls);
        superuser.batch_execute("commit").unwrap();
        calls
    };
    assert_eq!(through_pgmq(), "∅");
    for change in ["add column tenant text", "rename column tenant to shop"] {
        another_pgmq(&mut database.connect(), QUEUE, change);
        assert_eq!(through_pgmq(), "read send", "{change}");
    }
    another_pgmq(&mut database.connect(), QUEUE, "drop column shop");
    assert_eq!(through_pgmq(), "∅");
    assert_eq!(send(&mut session, "order.created"), "1");
}

#[test]
fn events_that_are_sent_together_become_visible_one_after_the_other() {
    let (_database, mut session, mut superuser) = subscribed();
    let many = format!("array_fill('{EVENT}'::jsonb, array[1000])");
    assert_eq!(value(&mut session, &format!("select * from event_bus_send_many('order.created', {many})")), "1");
    // Two may share a microsecond, as others that are sent one by one.
    let distinct = format!(
        "select count(distinct vt) > 100 and bool_and(vt >= last) from (
        select vt, lag(vt, 1, vt) over (order by msg_id) as last from pgmq.\"q_{QUEUE}\") m"
    );
    assert_eq!(value(&mut superuser, &distinct), "t");
}

/// How often the index of the bindings was read.
fn looks(session: &mut Client) -> u32 {
    value(session, "select pg_stat_force_next_flush()");
    value(session, &format!("select pg_stat_get_numscans('{HEADS}'::regclass)")).parse().unwrap()
}

#[test]
fn an_index_that_was_made_beside_updates_is_used_by_those_whose_snapshots_are_younger() {
    let (database, _session, mut superuser) = subscribed();
    let mut reader = database.connect();
    reader.batch_execute("begin isolation level repeatable read; select 1").unwrap();
    // The version of the row that the reader's snapshot shows gets no entry.
    superuser
        .batch_execute(&format!(
            "update pgmq.topic_bindings set bound_at = now();
             create temp table definition as select pg_get_indexdef('{HEADS}'::regclass) as sql;
             drop index {HEADS};
             do $$ begin execute (select sql from definition); end $$"
        ))
        .unwrap();
    let built = format!("from pg_index where indexrelid = '{HEADS}'::regclass");
    assert_eq!(value(&mut superuser, &format!("select indcheckxmin {built}")), "t");
    assert_eq!(send(&mut reader, "order.created"), "1");
    reader.batch_execute("commit").unwrap();
    assert_eq!(looks(&mut reader), 0);
    let oldest = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
    wait_until(&mut superuser, &format!("(select xmin::text::bigint < {oldest} {built})"));
    assert_eq!(send(&mut superuser, "order.created"), "1");
    // Before PostgreSQL 17, each of the heads that are looked for counts.
    assert!(looks(&mut superuser) > 0);
}

#[test]
fn forty_wildcard_bindings_lead_to_their_queues() {
    let (_database, mut session, mut superuser) = subscribed();
    superuser
        .batch_execute(
            "select pgmq.create('w' || i), pgmq.bind_topic('order.*.n' || i || '.#', 'w' || i)
               from generate_series(1, 40) i;
             select pgmq.bind_topic('order.#', 'w' || i) from generate_series(1, 40) i",
        )
        .unwrap();
    assert_eq!(send(&mut session, "order.x.n7.y"), "40");
    assert_eq!(send(&mut session, "order.created"), "41");
    assert_eq!(send(&mut session, "other.created"), "0");
    let held = holding(&mut superuser);
    assert_eq!(held.len(), 41);
    assert!(held.iter().all(|row| row[1] == if row[0] == QUEUE { "1" } else { "2" }), "{held:?}");
}

#[test]
fn a_topic_that_nobody_is_bound_to_reaches_0_queues() {
    let (_database, mut session, mut superuser) = subscribed();
    assert_eq!(send(&mut session, "order.deleted"), "0");
    assert_eq!(send(&mut session, "order"), "0");
    assert_eq!(send(&mut session, QUEUE), "0", "a queue's name is no topic");
    let second_form = "select * from public.event_bus_send('e', 'order.deleted', '{\"dedupeKey\": \"d\"}', null)";
    assert_eq!(rows(&mut session, second_form), [["0"]]);
    assert!(holding(&mut superuser).is_empty());
    superuser.batch_execute(&format!("select pgmq.unbind_topic('order.created', '{QUEUE}')")).unwrap();
    assert_eq!(send(&mut session, "order.created"), "0", "unbound again");
}

#[test]
fn a_bound_queue_whose_table_is_gone_is_passed_over_with_a_warning() {
    let (database, mut session, mut superuser) = subscribed();
    for consumer in ["audit", "stock"] {
        rows(&mut superuser, &format!("select * from public.event_bus_subscribe('order.created', '{consumer}')"));
    }
    assert_eq!(send(&mut session, "order.created"), "3");
    superuser.batch_execute(&format!("drop table pgmq.\"q_{QUEUE}\"")).unwrap();
    let warnings: Arc<Mutex<Vec<DbError>>> = Arc::default();
    let log = warnings.clone();
    let mut config = database.config();
    config.user("app_be").notice_callback(move |notice| log.lock().unwrap().push(notice));
    let mut fresh = config.connect(NoTls).unwrap();
    // To a session that knows the queue, and to one that has never met it.
    assert_eq!(send(&mut session, "order.created"), "2");
    for _ in 0..2 {
        assert_eq!(send(&mut fresh, "order.created"), "2");
    }
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings.len(), 2);
    for warning in warnings.iter() {
        assert_eq!((warning.severity(), warning.code()), ("WARNING", &SqlState::UNDEFINED_TABLE));
        assert!(warning.message().contains(QUEUE) && warning.hint().is_some(), "{warning:?}");
    }
    let count = "select count(*) from pgmq.\"q_order.created__audit\" union all
        select count(*) from pgmq.\"q_order.created__stock\"";
    assert_eq!(column(&mut superuser, count), ["4", "4"]);
}

#[test]
fn the_error_of_a_broken_queue_names_it_and_the_way_out() {
    let (_database, mut session, mut superuser) = subscribed();
    superuser.batch_execute(&format!("alter table pgmq.\"q_{QUEUE}\" add owed integer not null")).unwrap();
    for call in [
        format!("select * from public.event_bus_send('order.created', '{EVENT}')"),
        format!("select * from public.event_bus_send_many('order.created', array['{EVENT}'::jsonb])"),
    ] {
        let error = refusal(session.simple_query(&call));
        assert_eq!(error.code(), &SqlState::NOT_NULL_VIOLATION, "as it came");
        let context = error.where_().unwrap();
        assert!(context.contains(&format!("sending an event of topic order.created to queue {QUEUE}")), "{context}");
        assert!(context.contains("pgmq.unbind_topic"), "{context}");
    }
    // Nothing of it is left for later errors.
    let error = refusal(session.simple_query("select * from public.event_bus_send('order.created', null)"));
    assert!(error.where_().is_none(), "{error:?}");
}

#[test]
fn a_topic_is_what_pgmq_takes_as_a_routing_key() {
    let (_database, mut session, mut superuser) = subscribed();
    let before = contents(&mut superuser);
    let calls = |topic: &str| {
        let topic = quoted(topic);
        [
            (format!("select * from public.event_bus_send({topic}, '{EVENT}')"), "p_topic"),
            (
                format!("select * from public.event_bus_send('e', {topic}, '{{\"dedupeKey\": \"d\"}}', null)"),
                "p_event_name",
            ),
        ]
    };
    session.batch_execute("begin").unwrap();
    let bad = [
        "", ".", ".a", "a.", "a..b", "..", "a b", " a", "a\n", "\na", "a*", "a.*", "#", "ä", "😀", "a/b", "a:b", "a'b",
        "a\"b", "a\\b", "a%b", "a$",
    ];
    for (call, argument) in bad.iter().flat_map(|topic| calls(topic)) {
        refused(&mut session, &call, "22023", argument);
        caught(&mut session, &call, "22023");
    }
    for topic in ["x".repeat(256), "😀".repeat(256), format!("{}.", "x".repeat(255))] {
        for (call, argument) in calls(&topic) {
            refused(&mut session, &call, "22001", argument);
        }
    }
    for topic in ["x".repeat(255), "A".into(), "0".into(), "-".into(), "_".into(), "a.-._.9".into(), "a__b--c".into()] {
        for (call, _) in calls(&topic) {
            assert_eq!(rows(&mut session, &call), [["0"]], "{topic}");
            superuser.batch_execute(&format!("select pgmq.validate_routing_key('{topic}')")).unwrap();
        }
    }
    session.batch_execute("rollback").unwrap();
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn an_envelope_that_breaks_a_rule_is_refused_before_anything_is_sent() {
    let (_database, mut session, mut superuser) = subscribed();
    let before = contents(&mut superuser);
    let with = |field: &str| format!(r#"{{"payload": {{"dedupeKey": "d"}}, {field}}}"#);
    let long = format!("\"{}\"", "😀".repeat(201));
    let mut bad: Vec<(String, &str)> = vec![];
    for envelope in ["null", "true", "1", "\"x\"", "[]", "[{\"payload\": {\"dedupeKey\": \"d\"}}]"] {
        bad.push((envelope.into(), "p_envelope"));
    }
    for envelope in [r#"{}"#, r#"{"payload": null}"#, r#"{"payload": []}"#, r#"{"payload": "x"}"#, r#"{"payload": 1}"#]
    {
        bad.push((envelope.into(), "payload"));
    }
    for key in ["null", "\"\"", "1", "true", "{}", "[\"d\"]"] {
        bad.push((format!(r#"{{"payload": {{"dedupeKey": {key}}}}}"#), "dedupeKey"));
    }
    bad.push((r#"{"payload": {"dedupekey": "d"}, "dedupeKey": "d"}"#.into(), "dedupeKey"));
    for name in ["\"order.updated\"", "\"ORDER.CREATED\"", "\"\"", "null", "1", "[\"order.created\"]"] {
        bad.push((with(&format!(r#""eventName": {name}"#)), "eventName"));
    }
    for id in ["\"\"", "null", "1", "{}", "[]", &long] {
        bad.push((with(&format!(r#""eventId": {id}"#)), "eventId"));
        bad.push((with(&format!(r#""metadata": {{"correlationId": {id}}}"#)), "correlationId"));
    }
    for control in ["\\u0001", "\\n", "\\u007f", "\\u0085", "\\u009f"] {
        bad.push((with(&format!(r#""metadata": {{"correlationId": "a{control}b"}}"#)), "correlationId"));
    }
    for metadata in ["null", "[]", "\"c\"", "1"] {
        bad.push((with(&format!(r#""metadata": {metadata}"#)), "metadata"));
    }
    session.batch_execute("begin").unwrap();
    for (envelope, part) in &bad {
        let call = format!("select * from public.event_bus_send('order.created', {})", quoted(envelope));
        let error = refused(&mut session, &call, "22023", "p_envelope");
        assert!(error.message().contains(part), "{envelope}: the message names {part}: {}", error.message());
        let emoji = error.message().matches('😀').count();
        assert!(emoji <= 100 && (emoji > 90 || !envelope.contains(&long)), "it is cut: {}", error.message());
        caught(&mut session, &call, "22023");
    }
    session.batch_execute("rollback").unwrap();
    assert_eq!(contents(&mut superuser), before);

    let longest = "😀".repeat(200);
    for good in [
        EVENT.to_owned(),
        with(r#""eventName": "order.created""#),
        with(&format!(r#""eventId": "{longest}""#)),
        with(r#""eventId": "\n""#),
        with(r#""metadata": {}"#),
        with(r#""metadata": {"other": null}"#),
        with(&format!(r#""metadata": {{"correlationId": "{longest}"}}"#)),
        with(r#""metadata": {"correlationId": "\u00a0\u200b"}"#),
        with(r#""": null, "payload2": 1, "correlationId": null"#),
        format!(r#"{{"payload": {{"dedupeKey": "{}", "eventId": null}}}}"#, "d".repeat(100_000)),
    ] {
        let call = format!("select queues from public.event_bus_send('order.created', {})", quoted(&good));
        assert_eq!(column(&mut session, &call), ["1"], "{good}");
        let same = format!("select message = {} from public.event_bus_read('{QUEUE}', 30, 1)", quoted(&good));
        assert_eq!(column(&mut session, &same), ["t"], "{good}");
    }
}

#[test]
fn a_payload_that_breaks_a_rule_is_refused_before_anything_is_sent() {
    let (_database, mut session, mut superuser) = subscribed();
    let before = contents(&mut superuser);
    let bad = [
        "null",
        "[]",
        "1",
        "\"x\"",
        "{}",
        r#"{"dedupeKey": null}"#,
        r#"{"dedupeKey": ""}"#,
        r#"{"dedupeKey": 1}"#,
        r#"{"payload": {"dedupeKey": "d"}}"#,
    ];
    for payload in bad {
        let call = format!("select * from public.event_bus_send('e', 'order.created', {}, null)", quoted(payload));
        refused(&mut session, &call, "22023", "p_payload");
        caught(&mut session, &call, "22023");
    }
    for control in ["\n", "\t", "\u{7f}", "\u{85}", "\u{1}"] {
        let call = format!(
            "select * from public.event_bus_send('e', 'order.created', '{{\"dedupeKey\": \"d\"}}', 'a{control}b')"
        );
        refused(&mut session, &call, "22023", "p_correlation_id");
    }
    assert_eq!(contents(&mut superuser), before);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading and archiving
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn messages_are_read_by_when_they_became_visible_and_answered_by_msg_id() {
    let (_database, mut session, mut superuser) = subscribed();
    for _ in 1..=6 {
        send(&mut session, "order.created");
    }
    // Visible since: 4, 2, 6, 1, 5, and 3 in an hour.
    for (id, seconds) in [(4, -60), (2, -50), (6, -40), (1, -30), (5, -20), (3, 3600)] {
        let hide = format!(
            "update pgmq.\"q_{QUEUE}\" set vt = clock_timestamp() + {seconds} * interval '1 s' where msg_id = {id}"
        );
        superuser.batch_execute(&hide).unwrap();
    }
    session.batch_execute("begin").unwrap();
    assert_eq!(read(&mut session, QUEUE, 30, 3), [["2", "1"], ["4", "1"], ["6", "1"]]);
    assert_eq!(read(&mut session, QUEUE, 30, 1), [["1", "1"]]);
    assert_eq!(read(&mut session, QUEUE, 30, 10_000), [["5", "1"]]);
    assert!(read(&mut session, QUEUE, 30, 10_000).is_empty());
    session.batch_execute("rollback").unwrap();
    // A read that is rolled back is not counted.
    for expected in ["4", "2", "6", "1", "5"] {
        assert_eq!(read(&mut session, QUEUE, 30, 1), [[expected, "1"]]);
    }
    assert!(read(&mut session, QUEUE, 30, 1).is_empty());
}

#[test]
fn a_read_message_is_hidden_for_p_vt_seconds_and_its_deliveries_are_counted() {
    let (_database, mut session, mut superuser) = subscribed();
    send(&mut session, "order.created");
    // Of both ways to read, one message and several.
    for (count, quantity) in ["1", "10", "1", "2"].into_iter().enumerate() {
        let expected = (count + 1).to_string();
        assert_eq!(
            read(&mut session, QUEUE, 0, quantity.parse().unwrap()),
            [["1", expected.as_str()]],
            "p_vt 0 hides nothing"
        );
    }
    let before = value(&mut session, "select clock_timestamp()");
    let call = format!(
        "select r.*, r.vt - interval '2147483647 s' between '{before}' and clock_timestamp()
           from public.event_bus_read('{QUEUE}', '2147483647', '1') r"
    );
    let answer = rows(&mut session, &call).remove(0);
    let stored = format!(
        "select msg_id, read_ct, enqueued_at, vt, message, headers, last_read_at >= '{before}' from pgmq.\"q_{QUEUE}\""
    );
    assert_eq!(answer[..2], ["1", "5"]);
    assert_eq!(rows(&mut superuser, &stored), [answer]);
    for quantity in [1, 10] {
        assert!(read(&mut session, QUEUE, 0, quantity).is_empty());
        changes_nothing(&mut session, &format!("select * from public.event_bus_read('{QUEUE}', 0, {quantity})"));
    }
}

#[test]
fn an_archived_message_is_out_of_the_queue_and_in_its_archive() {
    let (_database, mut session, mut superuser) = subscribed();
    let id = put(&mut superuser, QUEUE, r#"{"x": 1}"#);
    read(&mut session, QUEUE, 30, 1);
    let columns = "msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers";
    let stored = rows(&mut superuser, &format!("select {columns} from pgmq.\"q_{QUEUE}\""));
    let archive = format!("select * from public.event_bus_archive('{QUEUE}', '{id}')");
    session.batch_execute("begin").unwrap();
    assert_eq!(column(&mut session, &archive), [id.as_str()]);
    session.batch_execute("rollback").unwrap();
    let before = value(&mut superuser, "select clock_timestamp()");
    assert_eq!(column(&mut session, &archive), [id.as_str()], "a hidden message too");
    assert_eq!(rows(&mut superuser, &format!("select {columns} from pgmq.\"a_{QUEUE}\"")), stored);
    let archived_at = format!("select archived_at between '{before}' and clock_timestamp() from pgmq.\"a_{QUEUE}\"");
    assert_eq!(value(&mut superuser, &archived_at), "t");
    assert!(holding(&mut superuser).is_empty());
    changes_nothing(&mut session, &archive);
    for unknown in ["0", "-1", "9223372036854775807", "-9223372036854775808"] {
        changes_nothing(&mut session, &format!("select * from public.event_bus_archive('{QUEUE}', '{unknown}', null)"));
    }
}

#[test]
fn with_read_ct_only_the_delivery_that_holds_the_message_ends_it() {
    let (_database, mut session, mut superuser) = subscribed();
    for _ in 0..2 {
        send(&mut session, "order.created");
    }
    for _ in 0..3 {
        read(&mut session, QUEUE, 0, 10);
    }
    let before = contents(&mut superuser);
    let archive =
        |id: u32, read_ct: &str| format!("select * from public.event_bus_archive('{QUEUE}', {id}, '{read_ct}')");
    let bury =
        |id: u32, read_ct: &str| format!("select * from public.event_bus_bury('{QUEUE}', {id}, 'r', '{read_ct}')");
    // Earlier deliveries, and read_cts that nothing has.
    for read_ct in ["2", "1", "0", "4", "-1", "2147483647", "-2147483648"] {
        changes_nothing(&mut session, &archive(1, read_ct));
        changes_nothing(&mut session, &bury(2, read_ct));
    }
    assert_eq!(contents(&mut superuser), before);
    assert_eq!(column(&mut session, &archive(1, "3")), ["1"]);
    assert_eq!(column(&mut session, &bury(2, "3")), ["1"]);
    changes_nothing(&mut session, &archive(1, "3"));
    changes_nothing(&mut session, &bury(2, "3"));
    // A message that was never read holds read_ct 0.
    send(&mut session, "order.created");
    assert_eq!(column(&mut session, &archive(3, "0")), ["3"]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Dead letters
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn a_buried_message_is_a_dead_letter_with_a_note() {
    let (_database, mut session, mut superuser) = subscribed();
    let dead = format!("pgmq.\"q_{QUEUE}__dead\"");
    for (headers, kept) in [
        ("∅", r#"{}"#),
        (r#"{}"#, r#"{}"#),
        (r#"{"x": {"hfs_lite": 1}, "y": [1.50]}"#, r#"{"x": {"hfs_lite": 1}, "y": [1.50]}"#),
    ] {
        let id = put(&mut superuser, QUEUE, headers);
        for _ in 0..3 {
            read(&mut session, QUEUE, 0, 1);
        }
        let enqueued_at = value(&mut superuser, &format!("select enqueued_at from pgmq.\"q_{QUEUE}\""));
        let before = value(&mut session, "select clock_timestamp()");
        let bury = format!("select * from public.event_bus_bury('{QUEUE}', '{id}', {}, '3')", quoted(AWKWARD));
        let letter = value(&mut session, &bury);
        let note = format!(
            "select message = '{EVENT}', headers - 'hfs_lite' = '{kept}', read_ct, vt <= clock_timestamp(),
                    headers #> '{{hfs_lite,source_msg_id}}', headers #> '{{hfs_lite,attempts}}',
                    (headers #>> '{{hfs_lite,first_enqueued_at}}')::timestamptz = '{enqueued_at}',
                    (headers #>> '{{hfs_lite,buried_at}}')::timestamptz between '{before}' and clock_timestamp(),
                    headers #>> '{{hfs_lite,reason}}', headers #> '{{hfs_lite,requeues}}',
                    (select count(*) from jsonb_object_keys(headers -> 'hfs_lite'))
               from {dead} where msg_id = {letter}"
        );
        assert_eq!(
            rows(&mut superuser, &note),
            [["t", "t", "0", "t", id.as_str(), "3", "t", "t", AWKWARD, "0", "6"]],
            "{headers}"
        );
        assert_eq!(holding(&mut superuser), [[format!("{QUEUE}__dead"), letter]], "moved, not copied");
        changes_nothing(&mut session, &bury);
        changes_nothing(&mut session, &format!("select * from public.event_bus_bury('{QUEUE}', '{id}')"));
    }
}

#[test]
fn a_burial_needs_no_reason_and_is_undone_by_a_rollback() {
    let (_database, mut session, mut superuser) = subscribed();
    for call in ["'1'", "'2', null", "'3', null, null", "'4', null, '0'"] {
        send(&mut session, "order.created");
        let bury = format!("select * from public.event_bus_bury('{QUEUE}', {call})");
        let before = holding(&mut superuser);
        session.batch_execute("begin").unwrap();
        assert_eq!(rows(&mut session, &bury).len(), 1);
        session.batch_execute("rollback").unwrap();
        assert_eq!(holding(&mut superuser), before);
        assert_eq!(rows(&mut session, &bury).len(), 1);
    }
    let reasons = format!("select headers #> '{{hfs_lite,reason}}', count(*) from pgmq.\"q_{QUEUE}__dead\" group by 1");
    assert_eq!(rows(&mut superuser, &reasons), [["null", "4"]]);
    let listed = format!("select reason, attempts from public.event_bus_dead_letters('{QUEUE}')");
    assert_eq!(rows(&mut session, &listed), vec![["∅", "0"]; 4]);
}

#[test]
fn dead_letters_are_listed_oldest_first_as_they_were_and_nothing_is_hidden_or_counted() {
    let (_database, mut session, mut superuser) = subscribed();
    let originals = ["∅", r#"{"x": 1}"#, "[1, 2]", "\"text\"", "7"];
    let mut expected = vec![];
    for (i, headers) in originals.iter().enumerate() {
        let id = put(&mut superuser, QUEUE, headers);
        for _ in 0..i {
            read(&mut session, QUEUE, 0, 1);
        }
        let enqueued_at = value(&mut superuser, &format!("select enqueued_at from pgmq.\"q_{QUEUE}\""));
        let letter = bury(&mut session, QUEUE, &id);
        let note = format!(
            "select headers #>> '{{hfs_lite,buried_at}}' from pgmq.\"q_{QUEUE}__dead\" where msg_id = {letter}"
        );
        let buried_at = value(&mut superuser, &note);
        let buried_at = value(&mut superuser, &format!("select '{buried_at}'::timestamptz"));
        let event = r#"{"payload": {"dedupeKey": "d"}}"#;
        expected.push(
            [&letter, &i.to_string(), &enqueued_at, &buried_at, "no use", event, headers].map(str::to_owned).to_vec(),
        );
    }
    let before = contents(&mut superuser);
    for _ in 0..2 {
        let listed = rows(&mut session, &format!("select * from public.event_bus_dead_letters('{QUEUE}')"));
        assert_eq!(listed, expected);
    }
    for limit in [1, 3, 10_000] {
        let listed = rows(&mut session, &format!("select * from public.event_bus_dead_letters('{QUEUE}', '{limit}')"));
        assert_eq!(listed, expected[..limit.min(5)]);
    }
    changes_nothing(&mut session, &format!("select * from public.event_bus_dead_letters('{QUEUE}') where false"));
    assert_eq!(contents(&mut superuser), before);
    // 100 unless given.
    superuser
        .batch_execute(&format!("select pgmq.send('{QUEUE}__dead', '{{}}') from generate_series(1, 100)"))
        .unwrap();
    assert_eq!(rows(&mut session, &format!("select from public.event_bus_dead_letters('{QUEUE}')")).len(), 100);
}

#[test]
fn a_dead_letter_that_something_else_put_there_has_its_own_time_and_no_attempts_and_can_be_requeued() {
    let (_database, mut session, mut superuser) = subscribed();
    let dead = format!("{QUEUE}__dead");
    for headers in ["∅", "{}", r#"{"x": 1}"#, "[1]", "\"text\""] {
        let id = put(&mut superuser, &dead, headers);
        let own_time = value(&mut superuser, &format!("select enqueued_at from pgmq.\"q_{dead}\""));
        let listed = format!("select * from public.event_bus_dead_letters('{QUEUE}')");
        let answer = rows(&mut session, &listed).remove(0);
        let shown = answer[6].replace("{}", "∅");
        assert_eq!(answer[..6], [&id, "0", &own_time, &own_time, "∅", r#"{"payload": {"dedupeKey": "d"}}"#]);
        assert_eq!(shown, headers.replace("{}", "∅"));
        let again = requeue(&mut session, QUEUE, &id);
        let note = format!(
            "select (headers #>> '{{hfs_lite,first_enqueued_at}}')::timestamptz = '{own_time}',
                    headers #> '{{hfs_lite,requeues}}' from pgmq.\"q_{QUEUE}\" where msg_id = {again}"
        );
        assert_eq!(rows(&mut superuser, &note), [["t", "1"]]);
        let letter = bury(&mut session, QUEUE, &again);
        let answer = rows(&mut session, &listed).remove(0);
        assert_eq!([&answer[0], &answer[2], &answer[6].replace("{}", "∅")], [&letter, &own_time, &shown]);
        superuser.batch_execute(&format!("select pgmq.purge_queue('{dead}')")).unwrap();
    }
}

#[test]
fn a_requeued_dead_letter_has_a_fresh_budget_and_the_next_burial_knows_the_first() {
    let (_database, mut session, mut superuser) = subscribed();
    for headers in ["∅", r#"{"x": 1}"#] {
        let mut id = put(&mut superuser, QUEUE, headers);
        let first = value(&mut superuser, &format!("select enqueued_at from pgmq.\"q_{QUEUE}\""));
        for round in 1..=3 {
            for _ in 0..round {
                read(&mut session, QUEUE, 0, 1);
            }
            let letter = bury(&mut session, QUEUE, &id);
            let note = format!(
                "select headers #>> '{{hfs_lite,attempts}}', headers #>> '{{hfs_lite,source_msg_id}}',
                        headers #>> '{{hfs_lite,requeues}}',
                        (headers #>> '{{hfs_lite,first_enqueued_at}}')::timestamptz = '{first}'
                   from pgmq.\"q_{QUEUE}__dead\""
            );
            let (attempts, requeues) = (round.to_string(), (round - 1).to_string());
            assert_eq!(rows(&mut superuser, &note), [[attempts.as_str(), &id, &requeues, "t"]]);
            let listed = format!("select enqueued_at, headers from public.event_bus_dead_letters('{QUEUE}')");
            assert_eq!(rows(&mut session, &listed), [[first.as_str(), headers]]);

            let call = format!("select * from public.event_bus_requeue('{QUEUE}', '{letter}')");
            session.batch_execute("begin").unwrap();
            assert_eq!(rows(&mut session, &call).len(), 1);
            changes_nothing_more(&mut session, &call);
            session.batch_execute("rollback").unwrap();
            id = value(&mut session, &call);
            changes_nothing(&mut session, &call);
            assert_eq!(holding(&mut superuser), [[QUEUE, "1"]]);
            let queued = format!(
                "select msg_id, read_ct, vt <= clock_timestamp(), message = '{EVENT}',
                        headers - 'hfs_lite' = coalesce({}::jsonb, '{{}}'), headers -> 'hfs_lite' ->> 'requeues',
                        (headers #>> '{{hfs_lite,first_enqueued_at}}')::timestamptz = '{first}',
                        (select string_agg(key, ' ' order by key) from jsonb_object_keys(headers -> 'hfs_lite') key)
                   from pgmq.\"q_{QUEUE}\"",
                sql_or_null(headers)
            );
            assert_eq!(
                rows(&mut superuser, &queued),
                [[id.as_str(), "0", "t", "t", "t", round.to_string().as_str(), "t", "first_enqueued_at requeues"]]
            );
        }
        superuser.batch_execute(&format!("select pgmq.purge_queue('{QUEUE}')")).unwrap();
    }
    for unknown in ["0", "-1", "9223372036854775807"] {
        changes_nothing(&mut session, &format!("select * from public.event_bus_requeue('{QUEUE}', '{unknown}')"));
    }
}

#[test]
fn headers_survive_every_burial_and_requeue() {
    let (_database, mut session, mut superuser) = subscribed();
    // pgmq takes headers that are no object; and somebody else's note must not stand in for what was sent.
    for (headers, original) in [
        ("[1, 2]", "[1, 2]"),
        ("\"text\"", "\"text\""),
        ("7", "7"),
        (r#"{"x": 1, "hfs_lite": {"headers": "y"}}"#, r#"{"x": 1}"#),
        (r#"{"x": 1, "hfs_lite": [{"headers": "y"}]}"#, r#"{"x": 1}"#),
    ] {
        let mut id = put(&mut superuser, QUEUE, headers);
        for _ in 0..3 {
            let letter = bury(&mut session, QUEUE, &id);
            let listed = format!("select headers from public.event_bus_dead_letters('{QUEUE}')");
            assert_eq!(column(&mut session, &listed), [original]);
            id = requeue(&mut session, QUEUE, &letter);
        }
        superuser.batch_execute(&format!("select pgmq.purge_queue('{QUEUE}')")).unwrap();
    }
}

/// A repeat inside the transaction that did it answers no row.
#[track_caller]
fn changes_nothing_more(session: &mut Client, call: &str) {
    assert!(rows(session, call).is_empty(), "{call}");
}

#[test]
fn garbage_under_our_key_prevents_no_burial_no_listing_and_no_requeue() {
    let (_database, mut session, mut superuser) = subscribed();
    session.batch_execute("set timezone = 'America/St_Johns'").unwrap();
    let values = [
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "1e400",
        "99999999999999999999",
        "2147483647",
        "2147483648",
        "999999999",
        "\"\"",
        "\"x\"",
        "\"-1\"",
        "\"1e3\"",
        "\" 1\"",
        "\"1\\n\"",
        "\"१\"",
        "[]",
        "[1]",
        "[[\"2026-01-01T00:00:00Z\"]]",
        "{}",
        "{\"a\": 1}",
        "\"now\"",
        "\"infinity\"",
        "\"-infinity\"",
        "\"epoch\"",
        "\"2026\"",
        "\"2026-01-01\"",
        "\"2026-02-30\"",
        "\"12:00:00\"",
        "\"12:00:00+01\"",
        "\"2026-01-01T25:00:00\"",
        "\"2026-01-01T00:00:00\"",
        "\"2026-01-01 00:00:00+00\"",
        "\"2026-01-01T00:00:00+99:99\"",
        "\"0000-00-00T00:00:00Z\"",
        "\"0001-01-01T00:00:00+15:59\"",
        "\"9999-12-31T23:59:59.999999Z\"",
        "\"294277-01-01T00:00:00Z\"",
        "\"99999999-01-01T00:00:00Z\"",
        "[\"12:00:00\"]",
        "{\"datetime\": \"x\"}",
    ];
    let mut garbage: Vec<String> = values.iter().map(|value| format!("{{\"hfs_lite\": {value}}}")).collect();
    for field in ["first_enqueued_at", "requeues", "attempts", "buried_at", "reason", "source_msg_id", "headers"] {
        garbage.extend(values.iter().map(|value| format!("{{\"hfs_lite\": {{\"{field}\": {value}}}}}")));
    }
    garbage.extend(
        values
            .iter()
            .map(|value| format!("{{\"hfs_lite\": [{{\"first_enqueued_at\": {value}, \"requeues\": {value}}}]}}")),
    );
    garbage.extend(
        values
            .iter()
            .map(|value| format!("[{{\"hfs_lite\": {{\"first_enqueued_at\": {value}, \"requeues\": {value}}}}}]")),
    );
    let dead = format!("{QUEUE}__dead");
    for headers in garbage {
        let ids = format!("select pgmq.send('{QUEUE}', '{EVENT}', h), pgmq.send('{dead}', '{EVENT}', h)");
        let ids = rows(&mut superuser, &format!("{ids} from (select {}::jsonb) s (h)", quoted(&headers))).remove(0);
        let calls = [
            format!("select * from public.event_bus_read('{QUEUE}', 0, 10)"),
            format!("select * from public.event_bus_bury('{QUEUE}', {}, 'r')", ids[0]),
            format!("select * from public.event_bus_dead_letters('{QUEUE}')"),
            format!("select * from public.event_bus_requeue('{QUEUE}', {})", ids[1]),
            format!("select event_bus_requeue('{QUEUE}', msg_id) from public.event_bus_dead_letters('{QUEUE}')"),
            format!("select event_bus_bury('{QUEUE}', msg_id) from public.event_bus_read('{QUEUE}', 0, 10)"),
            format!("select * from public.event_bus_dead_letters('{QUEUE}')"),
        ];
        let answer = session.batch_execute(&calls.join(";"));
        assert!(answer.is_ok(), "with headers {headers}: {:?}", answer.err());
        let note = format!(
            "with gone as (delete from pgmq.\"q_{dead}\" returning headers)
             select count(*), bool_and(jsonb_typeof(headers #> '{{hfs_lite,requeues}}') = 'number'),
                    bool_and((headers #>> '{{hfs_lite,first_enqueued_at}}')::timestamptz is not null) from gone"
        );
        assert_eq!(rows(&mut superuser, &note), [["2", "t", "t"]], "with headers {headers}");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Queues
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn the_hint_of_a_missing_queue_is_sql_whatever_its_name() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let error = refused(&mut session, "select * from public.event_bus_read('it''s', 0, 1)", "42704", "it's");
    assert!(error.hint().unwrap().contains("pgmq.create('it''s')"), "{error:?}");
}

#[test]
fn a_missing_queue_or_dead_letter_queue_is_an_error_that_says_how_to_make_it() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    superuser.batch_execute("select pgmq.create('alone'), pgmq.send('alone', '{}')").unwrap();
    let before = contents(&mut superuser);
    let on = |queue: &str, calls: &[&str]| -> Vec<String> {
        calls.iter().map(|call| format!("select * from public.{}", call.replace('$', &quoted(queue)))).collect()
    };
    let need_queue =
        ["event_bus_read($, 0, 1)", "event_bus_archive($, 1)", "event_bus_bury($, 1)", "event_bus_requeue($, 1)"];
    let need_dead = ["event_bus_bury($, 1)", "event_bus_requeue($, 1)", "event_bus_dead_letters($)"];
    // Also after a first time in the same session.
    for _ in 0..2 {
        for queue in ["none", "ALONE", AWKWARD, "alone ", "pgmq.q_alone", "meta"] {
            for call in on(queue, &need_queue) {
                let error = refused(&mut session, &call, "42704", "p_queue");
                assert!(error.message().contains(queue) && error.hint().unwrap().contains("pgmq.create"), "{error:?}");
                caught(&mut session, &call, "42704");
            }
        }
        for call in on("alone", &need_dead) {
            let error = refused(&mut session, &call, "42704", "dead-letter queue");
            assert!(error.hint().unwrap().contains("pgmq.create('alone__dead')"), "{error:?}");
            caught(&mut session, &call, "42704");
        }
    }
    assert_eq!(contents(&mut superuser), before);
    superuser.batch_execute("select pgmq.create('alone__dead')").unwrap();
    assert_eq!(bury(&mut session, "alone", "1"), "1");
}

#[test]
fn a_queue_that_is_dropped_and_created_again_works_in_the_same_session() {
    let (_database, mut session, mut superuser) = subscribed();
    let mut round = || {
        let id = put(&mut superuser, QUEUE, "∅");
        assert_eq!(read(&mut session, QUEUE, 0, 1), [[id.as_str(), "1"]]);
        assert_eq!(read(&mut session, QUEUE, 0, 10), [[id.as_str(), "2"]]);
        let letter = bury(&mut session, QUEUE, &id);
        let listed = format!("select msg_id from public.event_bus_dead_letters('{QUEUE}')");
        assert_eq!(column(&mut session, &listed), [letter.as_str()]);
        let id = requeue(&mut session, QUEUE, &letter);
        assert_eq!(send(&mut session, "order.created"), "1");
        let archive = format!("select * from public.event_bus_archive('{QUEUE}', {id})");
        assert_eq!(column(&mut session, &archive), [id.as_str()]);
        for queue in [QUEUE.to_owned(), format!("{QUEUE}__dead")] {
            superuser.batch_execute(&format!("select pgmq.drop_queue('{queue}')")).unwrap();
        }
        let read = format!("select * from public.event_bus_read('{QUEUE}', 0, 1)");
        refused(&mut session, &read, "42704", "p_queue");
        assert_eq!(send(&mut session, "order.created"), "0");
        rows(&mut superuser, "select * from public.event_bus_subscribe('order.created', 'billing')");
    };
    for _ in 0..3 {
        round();
    }
}

#[test]
fn a_session_may_work_on_300_queues() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    // In transactions of their own: each queue takes some locks.
    for _ in 0..6 {
        superuser
            .batch_execute(
                "select pgmq.create('n' || i), pgmq.create('n' || i || '__dead'), pgmq.bind_topic('n', 'n' || i)
                   from (select count(*) / 2 as made from pgmq.meta) m, generate_series(made + 1, made + 50) i",
            )
            .unwrap();
    }
    for round in 1..=2 {
        for i in 1..=300 {
            let queue = format!("n{i}");
            let sent = value(&mut superuser, &format!("select pgmq.send('{queue}', '{EVENT}')"));
            assert_eq!(read(&mut session, &queue, 0, 1), [[sent.as_str(), "1"]], "{queue}");
            let letter = bury(&mut session, &queue, &sent);
            assert_eq!(letter, round.to_string());
            let again = requeue(&mut session, &queue, &letter);
            let archive = format!("select * from public.event_bus_archive('{queue}', {again})");
            assert_eq!(column(&mut session, &archive), [again.as_str()], "{queue}");
        }
    }
    // One transaction that works on more queues than a session remembers.
    assert_eq!(send(&mut session, "n"), "300");
    session.batch_execute("begin").unwrap();
    for _ in 0..2 {
        let read = "select count(*) from generate_series(1, 300) i, public.event_bus_read('n' || i, 0, 10)";
        assert_eq!(value(&mut session, read), "300");
    }
    session.batch_execute("commit").unwrap();
    assert_eq!(send(&mut session, "n"), "300");
    assert_eq!(holding(&mut superuser).len(), 300);
}

#[test]
fn queues_that_migrations_made_under_any_name_work() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    for queue in [
        "a.b-c",
        "Mixed.Case",
        "with space",
        "a__b__c",
        "q_q",
        "1",
        "ünicode",
        "Ünicode.Ä",
        "back\\slash",
        "double\"quote",
        "per%cent",
    ] {
        let (name, dead) = (quoted(queue), quoted(&format!("{queue}__dead")));
        superuser
            .batch_execute(&format!(
                "select pgmq.create({name}), pgmq.create({dead}); select pgmq.bind_topic('every', {name})"
            ))
            .unwrap();
        send(&mut session, "every");
        let id = read(&mut session, queue, 0, 1).remove(0).remove(0);
        let letter = bury(&mut session, queue, &id);
        let listed = format!("select msg_id from public.event_bus_dead_letters({name})");
        assert_eq!(column(&mut session, &listed), [letter.as_str()], "{queue}");
        let again = requeue(&mut session, queue, &letter);
        let archive = format!("select * from public.event_bus_archive({name}, {again})");
        assert_eq!(column(&mut session, &archive), [again.as_str()], "{queue}");
    }
    // pgmq lists a queue by the name that it was made with.
    refused(&mut session, "select * from public.event_bus_read('mixed.case', 0, 1)", "42704", "p_queue");
}

#[test]
fn a_dead_letter_queue_is_a_queue_that_can_be_read_and_archived_but_has_no_dead_letters_of_its_own() {
    let (_database, mut session, _) = subscribed();
    send(&mut session, "order.created");
    bury(&mut session, QUEUE, "1");
    let dead = format!("{QUEUE}__dead");
    assert_eq!(read(&mut session, &dead, 30, 10), [["1", "1"]]);
    // It is listed also while it is hidden.
    let listed = format!("select msg_id from public.event_bus_dead_letters('{QUEUE}')");
    assert_eq!(column(&mut session, &listed), ["1"]);
    refused(&mut session, &format!("select * from public.event_bus_bury('{dead}', 1)"), "42704", "p_queue");
    let archive = format!("select * from public.event_bus_archive('{dead}', 1, 1)");
    assert_eq!(column(&mut session, &archive), ["1"]);
}

#[test]
fn every_argument_of_the_event_bus_is_checked() {
    use Takes::{Anything, Batch, OptionalText, Present, Queue, Reason, Text, Timeout};
    let (_database, mut session, mut superuser) = subscribed();
    send(&mut session, "order.created");
    let before = contents(&mut superuser);
    let name = quoted(QUEUE);
    let queue = ("p_queue", name.as_str(), Queue);
    let msg_id = ("p_msg_id", "'1'", Present);
    let read_ct = ("p_read_ct", "'0'", Anything);
    let envelope = quoted(EVENT);
    arguments(
        &mut session,
        "event_bus_send",
        &[("p_topic", "'order.created'", Present), ("p_envelope", &envelope, Present)],
    );
    arguments(
        &mut session,
        "event_bus_send",
        &[
            ("p_event_id", "'e'", Text(200)),
            ("p_event_name", "'order.created'", Present),
            ("p_payload", "'{\"dedupeKey\": \"d\"}'", Present),
            ("p_correlation_id", "'c'", OptionalText(200)),
        ],
    );
    arguments(&mut session, "event_bus_read", &[queue, ("p_vt", "'30'", Timeout), ("p_qty", "'10'", Batch)]);
    arguments(&mut session, "event_bus_archive", &[queue, msg_id, read_ct]);
    arguments(&mut session, "event_bus_bury", &[queue, msg_id, ("p_reason", "'r'", Reason), read_ct]);
    arguments(&mut session, "event_bus_dead_letters", &[queue, ("p_limit", "'100'", Batch)]);
    arguments(&mut session, "event_bus_requeue", &[queue, msg_id]);
    assert_eq!(contents(&mut superuser), before);
    let longest = format!(
        "select queues from public.event_bus_send({0}, 'order.created', '{{\"dedupeKey\": \"d\"}}', {0})",
        wide(200)
    );
    assert_eq!(column(&mut session, &longest), ["1"]);
}

#[test]
fn a_sweep_takes_the_messages_that_were_archived_first_and_nothing_else() {
    let (database, mut session, mut superuser) = subscribed();
    for _ in 0..5 {
        send(&mut session, "order.created");
    }
    for id in [3, 1, 4, 2] {
        let archive = format!("select msg_id from public.event_bus_archive('{QUEUE}', '{id}')");
        assert_eq!(value(&mut session, &archive), id.to_string());
    }
    let archive = format!("pgmq.\"a_{QUEUE}\"");
    superuser
        .batch_execute(&format!(
            "with archived as (select msg_id, row_number() over (order by archived_at) as minute from {archive})
             update {archive} a set archived_at = timestamptz '2026-01-01 12:00+00' + minute * interval '1 min'
               from archived where a.msg_id = archived.msg_id"
        ))
        .unwrap();
    let mut operator = database.connect_as("operator");
    let mut sweep = |cutoff: &str, batch: u32| {
        let call =
            format!("select deleted_count from public.event_bus_sweep('{QUEUE}', '2026-01-01 {cutoff}+00', '{batch}')");
        value(&mut operator, &call)
    };
    let mut left = || column(&mut superuser, &format!("select msg_id from {archive} order by archived_at"));
    assert_eq!(sweep("12:01", 100), "0", "archived at the cutoff is not before it");
    assert_eq!(sweep("12:04", 2), "2");
    assert_eq!(left(), ["4", "2"]);
    assert_eq!(sweep("23:00", 100), "2");
    assert_eq!(sweep("23:00", 100), "0");
    assert_eq!(read(&mut session, QUEUE, 0, 10).len(), 1, "what is in the queue stays");
    let argument = [
        ("p_queue", "'order.created__billing'", Takes::Queue),
        ("p_cutoff", "'2026-02-01 12:00+00'", Takes::Instant),
        ("p_batch", "'10'", Takes::Batch),
    ];
    arguments(&mut operator, "event_bus_sweep", &argument);
}

#[test]
fn the_dead_letters_of_all_queues_are_listed_queue_by_queue() {
    let (database, mut session, _) = subscribed();
    let mut operator = database.connect_as("operator");
    rows(&mut operator, "select * from public.event_bus_subscribe('order.created', 'audit')");
    for _ in 0..3 {
        send(&mut session, "order.created");
    }
    let audit = "order.created__audit";
    for (queue, id) in [(QUEUE, "2"), (QUEUE, "1"), (audit, "3")] {
        bury(&mut session, queue, id);
    }
    let all = "select queue, attempts, message -> 'payload' ->> 'dedupeKey' from public.event_bus_all_dead_letters";
    let listed: Vec<String> =
        rows(&mut operator, &format!("{all}()")).into_iter().map(|row| row[..2].join(" ")).collect();
    assert_eq!(listed, [format!("{audit} 0"), format!("{QUEUE} 0"), format!("{QUEUE} 0")]);
    assert_eq!(rows(&mut operator, &format!("{all}('1')")).len(), 2, "one of each queue");
    // What one queue's list says, the list of all says too.
    let one = "select msg_id, attempts, enqueued_at, buried_at, reason, message, headers from public.";
    assert_eq!(
        rows(&mut operator, &format!("{one}event_bus_all_dead_letters() where queue = '{QUEUE}'")),
        rows(&mut operator, &format!("{one}event_bus_dead_letters('{QUEUE}')"))
    );
    arguments(&mut operator, "event_bus_all_dead_letters", &[("p_limit", "'100'", Takes::Batch)]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Many in one call, and longer timeouts
// ---------------------------------------------------------------------------------------------------------------------

/// A call that sends many envelopes.
fn send_many(topic: &str, envelopes: &[&str]) -> String {
    let list: Vec<String> = envelopes.iter().map(|envelope| format!("{}::jsonb", sql_or_null(envelope))).collect();
    format!("select queues from public.event_bus_send_many('{topic}', array[{}]::jsonb[])", list.join(", "))
}

#[test]
fn many_events_reach_every_bound_queue_in_their_order() {
    let (database, mut session, mut superuser) = subscribed();
    let mut operator = database.connect_as("operator");
    rows(&mut operator, "select * from public.event_bus_subscribe('order.created', 'audit')");
    let events = [
        r#"{"payload": {"dedupeKey": "c"}}"#,
        r#"{"eventId": "1", "eventName": "order.created", "payload": {"dedupeKey": "a"}}"#,
        r#"{"payload": {"dedupeKey": "b", "n": 1.50}, "metadata": {"correlationId": "r"}}"#,
    ];
    assert_eq!(column(&mut session, &send_many("order.created", &events)), ["2"]);
    for queue in [QUEUE, "order.created__audit"] {
        let sent = format!("select message::text from pgmq.\"q_{queue}\" order by msg_id");
        let same = format!(
            "select ({sent} limit 1)::jsonb = '{}' and vt <= clock_timestamp() and read_ct = 0 from pgmq.\"q_{queue}\" limit 1",
            events[0]
        );
        assert_eq!(value(&mut superuser, &same), "t");
        let keys = format!("select message #>> '{{payload,dedupeKey}}' from public.event_bus_read('{queue}', 60, 10)");
        assert_eq!(column(&mut session, &keys), ["c", "a", "b"]);
    }
    assert_eq!(column(&mut session, &send_many("nobody", &[EVENT])), ["0"]);
    assert!(writes_nothing(&mut session, &send_many("order.created", &[])).is_empty());

    superuser.batch_execute("drop table pgmq.\"q_order.created__audit\" cascade").unwrap();
    assert_eq!(column(&mut session, &send_many("order.created", &events)), ["1"], "a broken queue is passed over");
}

#[test]
fn one_bad_envelope_of_many_is_named_and_nothing_is_sent() {
    let (_database, mut session, mut superuser) = subscribed();
    let before = contents(&mut superuser);
    for (bad, sqlstate, message) in [
        ("∅", "22004", "p_envelopes[2] must not be NULL"),
        ("[]", "22023", "p_envelopes[2] must be a JSON object"),
        (r#"{"payload": {}}"#, "22023", "p_envelopes[2].payload.dedupeKey must be a non-empty string; it is missing"),
        (r#"{"payload": {"dedupeKey": "d"}, "eventName": "x"}"#, "22023", "p_envelopes[2].eventName must be the topic"),
        (
            r#"{"payload": {"dedupeKey": "d"}, "metadata": {"correlationId": "a\u0007"}}"#,
            "22023",
            "p_envelopes[2], metadata.correlationId is not allowed",
        ),
    ] {
        refused(&mut session, &send_many("order.created", &[EVENT, bad, EVENT]), sqlstate, message);
    }
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn many_messages_are_archived_with_a_verdict_each_in_the_order_of_the_items() {
    let (_database, mut session, mut superuser) = subscribed();
    for _ in 0..5 {
        send(&mut session, "order.created");
    }
    // All are delivered once; 1 and 5 a second time.
    read(&mut session, QUEUE, 0, 5);
    read(&mut session, QUEUE, 60, 5);
    superuser.batch_execute(&format!("update pgmq.\"q_{QUEUE}\" set read_ct = 1 where msg_id in (2, 3, 4)")).unwrap();
    column(&mut session, &format!("select * from public.event_bus_archive('{QUEUE}', 4)"));
    let held = format!("select jsonb_agg(m order by msg_id) from pgmq.\"q_{QUEUE}\" m where msg_id in (1, 5)");
    let before = value(&mut superuser, &held);
    let call = format!(
        "select * from public.event_bus_archive_many('{QUEUE}', '{{3, 1, 4, 2, 5, 3, 99, 3}}', '{{1, 1, 1, 1, 1, 1, 1, 2}}')"
    );
    let answer = rows(&mut session, &call);
    let expected = [
        ["3", "done"],
        ["1", "stale"],
        ["4", "unknown"],
        ["2", "done"],
        ["5", "stale"],
        ["3", "done"],
        ["99", "unknown"],
        ["3", "stale"],
    ];
    assert_eq!(answer, expected);
    assert_eq!(value(&mut superuser, &held), before);
    let archived = format!(
        "select msg_id, read_ct, archived_at > enqueued_at, message = '{EVENT}' from pgmq.\"a_{QUEUE}\" order by msg_id"
    );
    assert_eq!(rows(&mut superuser, &archived), ["2", "3", "4"].map(|id| [id, "1", "t", "t"]));

    let before = contents(&mut superuser);
    let again = writes_nothing(&mut session, &call);
    let verdicts: Vec<&str> = again.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(verdicts, ["unknown", "stale", "unknown", "unknown", "stale", "unknown", "unknown", "unknown"]);
    let none = format!("select * from public.event_bus_archive_many('{QUEUE}', '{{}}', '{{}}')");
    changes_nothing(&mut session, &none);
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn ten_thousand_messages_are_sent_and_archived_in_one_call_each() {
    let (_database, mut session, _superuser) = subscribed();
    session.batch_execute("set statement_timeout = '60s'").unwrap();
    let send = format!(
        "select queues from public.event_bus_send_many('order.created', array_fill('{EVENT}'::jsonb, array[10000]))"
    );
    assert_eq!(value(&mut session, &send), "1");
    assert_eq!(
        value(&mut session, &format!("select count(*) from public.event_bus_read('{QUEUE}', 60, 10000)")),
        "10000"
    );
    let archive = format!(
        "select string_agg(distinct verdict, ',') from public.event_bus_archive_many('{QUEUE}',
           array(select i from generate_series(10000, 1, -1) i), array_fill(1, array[10000]))"
    );
    assert_eq!(value(&mut session, &archive), "done");
    assert_eq!(value(&mut session, &archive), "unknown");
}

#[test]
fn the_delivery_that_holds_a_message_and_no_other_hides_it_for_longer() {
    let (_database, mut session, mut superuser) = subscribed();
    send(&mut session, "order.created");
    read(&mut session, QUEUE, 30, 1);
    let extend = |read_ct: &str, vt: u32| {
        format!("select msg_id, vt from public.event_bus_extend('{QUEUE}', 1, {read_ct}, {vt})")
    };
    let row = |superuser: &mut Client| {
        rows(superuser, &format!("select vt, to_jsonb(m) - 'vt' from pgmq.\"q_{QUEUE}\" m")).remove(0)
    };
    let before = row(&mut superuser);
    let clock = value(&mut superuser, "select clock_timestamp()");
    let answer = rows(&mut session, &extend("1", 600));
    let after = row(&mut superuser);
    assert_eq!(answer, [["1", &after[0]]]);
    assert_eq!(after[1], before[1], "nothing but vt");
    let hidden = format!(
        "select '{}' between timestamptz '{clock}' + interval '600 s' and clock_timestamp() + interval '600 s'",
        after[0]
    );
    assert_eq!(value(&mut superuser, &hidden), "t");
    // A shorter one shortens nothing.
    assert_eq!(rows(&mut session, &extend("1", 0)), [["1", &after[0]]]);

    let before = contents(&mut superuser);
    for call in [extend("2", 60), extend("0", 60), extend("1", 60).replace(", 1, 1,", ", 2, 1,")] {
        changes_nothing(&mut session, &call);
    }
    assert_eq!(contents(&mut superuser), before);

    // The timeout has ended, and nobody has read it since: the delivery still holds it. Once somebody has, no longer.
    superuser.batch_execute(&format!("update pgmq.\"q_{QUEUE}\" set vt = '2026-01-01'")).unwrap();
    assert_eq!(rows(&mut session, &extend("1", 60)).len(), 1);
    assert!(read(&mut session, QUEUE, 60, 1).is_empty());
    superuser.batch_execute(&format!("update pgmq.\"q_{QUEUE}\" set vt = '2026-01-01'")).unwrap();
    assert_eq!(read(&mut session, QUEUE, 60, 1), [["1", "2"]]);
    changes_nothing(&mut session, &extend("1", 60));
    assert_eq!(rows(&mut session, &extend("2", 120)).len(), 1);
}

#[test]
fn every_argument_of_the_calls_on_many_messages_is_checked() {
    use Takes::{Items, Present, Queue, Timeout};
    let (_database, mut session, mut superuser) = subscribed();
    let before = contents(&mut superuser);
    let queue = quoted(QUEUE);
    let queue = ("p_queue", queue.as_str(), Queue);
    arguments(
        &mut session,
        "event_bus_archive_many",
        &[queue, ("p_msg_ids", "'{1}'", Items("1::bigint", &[])), ("p_read_cts", "'{1}'", Items("1::integer", &[]))],
    );
    arguments(
        &mut session,
        "event_bus_extend",
        &[queue, ("p_msg_id", "'1'", Present), ("p_read_ct", "'1'", Present), ("p_vt", "'60'", Timeout)],
    );
    let event = format!("array['{EVENT}'::jsonb]");
    const ENVELOPES: Takes = Items(r#"'{"payload": {"dedupeKey": "d"}}'::jsonb"#, &[("'1'::jsonb", "22023")]);
    arguments(
        &mut session,
        "event_bus_send_many",
        &[("p_topic", "'order.created'", Present), ("p_envelopes", &event, ENVELOPES)],
    );
    let call = format!("select * from public.event_bus_archive_many('{QUEUE}', '{{1,2}}', '{{1}}')");
    refused(&mut session, &call, "22023", "p_read_cts and p_msg_ids must be of one length");
    assert_eq!(contents(&mut superuser), before);
}
