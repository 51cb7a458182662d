//! The outbox, as one session sees it.

use super::checks::{AWKWARD, Takes, arguments, caught, contents, quoted, wide, writes_nothing};
use super::harness::{Database, column, refused, rows, value};
use postgres::Client;

/// An id that ends in a digit.
fn id(digit: u32) -> String {
    format!("00000000-0000-0000-0000-00000000000{digit}")
}

/// Puts rows into the outbox whose ids a test knows: the digit an id ends in, and the second it was created.
fn fill(superuser: &mut Client, rows: &[(u32, u32)]) {
    for (digit, second) in rows {
        let (id, created_at) = (id(*digit), format!("2026-01-01 12:00:0{second}+00"));
        superuser
            .batch_execute(&format!(
                "insert into public.queue (id, queue, payload, created_at)
                 values ('{id}', 'q', '{digit}', '{created_at}')"
            ))
            .unwrap();
    }
}

/// The payloads of the rows that wait, in the order in which they are answered.
fn waiting(session: &mut Client, batch: i32) -> Vec<String> {
    column(session, &format!("select payload from public.queue_waiting({batch})"))
}

#[test]
fn a_row_that_is_written_waits_with_what_was_passed() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let name = quoted(AWKWARD);
    let payload = r#"'{"a": [1.50, null, "it''s \\ \"x\""]}'"#;
    let correlation_id = quoted(AWKWARD);
    session
        .batch_execute(&format!(
            "select public.queue_write({name}, {payload}, '2026-01-01 13:00+01', {correlation_id})"
        ))
        .unwrap();
    let answer = rows(
        &mut session,
        &format!("select id, queue, payload = {payload}, \"correlationId\" from public.queue_waiting('10')"),
    );
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0][1..], [AWKWARD, "t", AWKWARD]);
    let stored = rows(
        &mut database.connect(),
        "select id, created_at at time zone 'utc', sent_at, correlation_id is not null from public.queue",
    );
    assert_eq!(stored, [[answer[0][0].as_str(), "2026-01-01 12:00:00", "∅", "t"]]);
}

#[test]
fn a_row_without_a_correlation_id_answers_its_id() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session.batch_execute("select public.queue_write('q', 'null', null, null)").unwrap();
    let answer = rows(&mut session, "select * from public.queue_waiting(1)").remove(0);
    assert_eq!(answer[1..3], ["q", "null"]);
    assert_eq!(answer[3], answer[0]);
    assert_eq!(value(&mut database.connect(), "select correlation_id from public.queue"), "∅");
}

#[test]
fn without_p_created_at_the_databases_clock_counts() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    // clock_timestamp() goes on inside a transaction, where now() stands: rows written later are answered later.
    session.batch_execute("begin").unwrap();
    let before = value(&mut session, "select clock_timestamp()");
    for payload in 1..=3 {
        session.batch_execute(&format!("select public.queue_write('q', '{payload}', null, null)")).unwrap();
    }
    session.batch_execute("commit").unwrap();
    assert_eq!(waiting(&mut session, 10), ["1", "2", "3"]);
    let within = format!(
        "select bool_and(created_at between '{before}' and clock_timestamp()) and count(distinct created_at) = 3
           from public.queue"
    );
    assert_eq!(value(&mut database.connect(), &within), "t");
}

#[test]
fn a_write_that_is_rolled_back_was_never_there() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session.batch_execute("begin; select public.queue_write('q', '1', null, null); savepoint s").unwrap();
    session.batch_execute("select public.queue_write('q', '2', null, null); rollback to s").unwrap();
    assert_eq!(waiting(&mut session, 10), ["1"], "the writing transaction sees its own row");
    session.batch_execute("rollback").unwrap();
    assert!(waiting(&mut session, 10).is_empty());
}

#[test]
fn the_oldest_rows_are_answered_first_and_at_most_p_batch() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    // Three instants, not in the order of ids; rows of one instant come by id.
    fill(&mut superuser, &[(7, 1), (3, 1), (5, 1), (9, 0), (1, 2), (8, 0)]);
    let before = contents(&mut superuser);
    assert_eq!(waiting(&mut session, 1), ["8"]);
    assert_eq!(waiting(&mut session, 4), ["8", "9", "3", "5"]);
    assert_eq!(waiting(&mut session, 10_000), ["8", "9", "3", "5", "7", "1"]);
    assert_eq!(contents(&mut superuser), before, "taking rows changes none");
}

#[test]
fn the_cost_of_waiting_does_not_grow_with_what_was_sent() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "insert into public.queue (queue, payload, created_at, sent_at)
             select 'q', '{}', '2026-01-01 00:00+00', now() from generate_series(1, 20000)",
        )
        .unwrap();
    fill(&mut superuser, &[(1, 1), (2, 2), (3, 3)]);
    // The planner's numbers must not matter either: before and after ANALYZE.
    for _ in 0..2 {
        // What the session counted until now goes, so that the next look counts this transaction alone.
        superuser.batch_execute("select pg_stat_force_next_flush()").unwrap();
        superuser.batch_execute("begin").unwrap();
        assert_eq!(waiting(&mut superuser, 2), ["1", "2"]);
        let read = rows(
            &mut superuser,
            "select seq_scan, idx_scan, idx_tup_fetch <= 3 from pg_stat_xact_user_tables where relname = 'queue'",
        );
        assert_eq!(read, [["0", "1", "t"]]);
        superuser.batch_execute("commit; analyze public.queue").unwrap();
    }
}

#[test]
fn sent_rows_wait_no_more_and_keep_their_first_instant() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    fill(&mut superuser, &[(1, 1), (2, 2), (3, 3), (4, 4)]);
    let mut mark = |ids: &[u32], sent_at: &str| {
        let ids: Vec<String> = ids.iter().map(|digit| id(*digit)).collect();
        session.batch_execute(&format!("select public.queue_mark_sent('{{{}}}', {sent_at})", ids.join(","))).unwrap();
    };
    let sent = |superuser: &mut Client| {
        rows(
            superuser,
            "select payload, sent_at at time zone 'utc' from public.queue where sent_at is not null order by id",
        )
    };
    // 9 is nobody's; 1 stands there three times.
    mark(&[1, 9, 1, 3, 1], "'2026-01-01 12:30+00'");
    let first = [["1", "2026-01-01 12:30:00"], ["3", "2026-01-01 12:30:00"]];
    assert_eq!(sent(&mut superuser), first);
    for later in ["'2026-01-01 13:00+00'", "'2026-01-01 12:00+00'", "null"] {
        mark(&[3, 1], later);
        assert_eq!(sent(&mut superuser), first);
    }
    mark(&[1, 2], "'2026-01-01 13:00+00'");
    assert_eq!(
        sent(&mut superuser),
        [["1", "2026-01-01 12:30:00"], ["2", "2026-01-01 13:00:00"], ["3", "2026-01-01 12:30:00"]]
    );
    let before = contents(&mut superuser);
    mark(&[], "null");
    mark(&[1, 2, 9], "null");
    assert_eq!(
        contents(&mut superuser),
        before,
        "an empty array, and ids that were sent or are unknown, change nothing"
    );
    assert_eq!(waiting(&mut session, 10), ["4"]);
}

#[test]
fn without_p_sent_at_the_databases_clock_counts_and_a_rollback_leaves_the_row_waiting() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    fill(&mut superuser, &[(1, 1)]);
    let mark = format!("select public.queue_mark_sent('{{{}}}', null)", id(1));
    session.batch_execute(&format!("begin; {mark}")).unwrap();
    assert!(waiting(&mut session, 10).is_empty());
    session.batch_execute("rollback").unwrap();
    assert_eq!(waiting(&mut session, 10), ["1"]);
    session.batch_execute("begin").unwrap();
    let before = value(&mut session, "select clock_timestamp()");
    session.batch_execute(&format!("{mark}; commit")).unwrap();
    let within = format!("select sent_at between '{before}' and clock_timestamp() from public.queue");
    assert_eq!(value(&mut superuser, &within), "t");
}

#[test]
fn a_null_among_the_ids_is_refused_and_nothing_is_marked() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    fill(&mut superuser, &[(1, 1)]);
    let before = contents(&mut superuser);
    for ids in ["{NULL}".to_owned(), format!("{{{},NULL}}", id(1))] {
        let call = format!("select * from public.queue_mark_sent('{ids}', null)");
        refused(&mut session, &call, "22004", "p_ids");
        caught(&mut session, &call, "22004");
    }
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn ten_thousand_rows_are_taken_and_marked_in_one_batch() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session
        .batch_execute("select public.queue_write('q', to_jsonb(i), null, null) from generate_series(1, 10001) i")
        .unwrap();
    session
        .batch_execute(
            "begin;
             select public.queue_mark_sent(array_agg(id), null) from public.queue_waiting(10000);
             commit",
        )
        .unwrap();
    assert_eq!(waiting(&mut session, 10_000), ["10001"]);
}

#[test]
fn a_correlation_id_holds_no_control_character() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let before = contents(&mut superuser);
    session.batch_execute("begin").unwrap();
    let write =
        |character: u32| format!("select * from public.queue_write('q', '{{}}', null, 'a' || chr({character}) || 'b')");
    // All of Unicode's category Cc, but NUL, which no text holds.
    for control in (0x01..=0x1f).chain(0x7f..=0x9f) {
        refused(&mut session, &write(control), "22023", "p_correlation_id");
    }
    caught(&mut session, &write(0x0a), "22023");
    // Its neighbours, and characters that are invisible but of other categories (Zs, Cf, Zl, Co).
    for other in [0x20, 0x7e, 0xa0, 0xad, 0x200b, 0x2028, 0xfeff, 0xe000, 0x1f600, 0x10ffff] {
        session.batch_execute(&write(other)).unwrap();
    }
    session.batch_execute("rollback").unwrap();
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn every_argument_of_the_queue_is_checked() {
    use Takes::{Batch, OptionalInstant, OptionalText, Present, Text};
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    fill(&mut superuser, &[(1, 1)]);
    let before = contents(&mut superuser);
    let instant = "'2026-01-01 12:00+00'";
    arguments(
        &mut session,
        "queue_write",
        &[
            ("p_queue", "'q'", Text(200)),
            ("p_payload", "'{}'", Present),
            ("p_created_at", instant, OptionalInstant),
            ("p_correlation_id", "'c'", OptionalText(200)),
        ],
    );
    arguments(&mut session, "queue_waiting", &[("p_batch", "'10'", Batch)]);
    let ids = format!("'{{{}}}'", id(1));
    arguments(&mut session, "queue_mark_sent", &[("p_ids", &ids, Present), ("p_sent_at", instant, OptionalInstant)]);
    // An empty array does nothing, but its other argument is looked at all the same.
    refused(&mut session, "select public.queue_mark_sent('{}', 'infinity')", "22023", "p_sent_at");
    assert_eq!(contents(&mut superuser), before);
    let longest = format!("select public.queue_write({0}, '{{}}', null, {0})", wide(200));
    session.batch_execute(&longest).unwrap();
    let same =
        format!("select queue = {0} and correlation_id = {0} from public.queue where payload = '{{}}'", wide(200));
    assert_eq!(value(&mut superuser, &same), "t");
}

#[test]
fn a_sweep_takes_the_rows_that_were_sent_first_and_nothing_else() {
    let database = Database::new();
    let mut operator = database.connect_as("operator");
    let mut superuser = database.connect();
    fill(&mut superuser, &[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]);
    // Sent at 13:01 to 13:04, in another order than they were created in.
    for (digit, minute) in [(1, 3), (2, 1), (3, 4), (4, 2)] {
        let sent = format!("select public.queue_mark_sent('{{{}}}', '2026-01-01 13:0{minute}+00')", id(digit));
        rows(&mut operator, &sent);
    }
    let mut sweep = |cutoff: &str, batch: u32| {
        let call = format!("select deleted_count from public.queue_sweep('2026-01-01 {cutoff}+00', '{batch}')");
        value(&mut operator, &call)
    };
    let mut left = || column(&mut superuser, "select payload from public.queue order by sent_at nulls first");
    assert_eq!(sweep("13:01", 100), "0", "sent at the cutoff is not before it");
    assert_eq!(left(), ["5", "2", "4", "1", "3"]);
    assert_eq!(sweep("13:04", 2), "2");
    assert_eq!(left(), ["5", "1", "3"]);
    assert_eq!(sweep("23:00", 10_000), "2");
    assert_eq!(sweep("23:00", 10_000), "0");
    assert_eq!(left(), ["5"], "what waits stays");
}

#[test]
fn every_argument_of_the_sweep_of_the_outbox_is_checked() {
    let database = Database::new();
    let sweep = [("p_cutoff", "'2026-02-01 12:00+00'", Takes::Instant), ("p_batch", "'10'", Takes::Batch)];
    arguments(&mut database.connect_as("operator"), "queue_sweep", &sweep);
}

// ---------------------------------------------------------------------------------------------------------------------
// Many in one call
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn many_rows_are_written_in_one_call_and_carried_in_their_order() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let payloads = r#"array['{"n": 1}'::jsonb, '[2]', 'null', '[2]']"#;
    let call = format!("select id from public.queue_write_many('mail', {payloads}, '2026-01-01 12:00+00', 'c')");
    let ids = column(&mut session, &call);
    let stored = "select id, queue, payload, correlation_id, created_at at time zone 'utc', sent_at from public.queue";
    let stored = rows(&mut superuser, &format!("{stored} order by id"));
    let row = |i: usize, payload: &str| [&ids[i], "mail", payload, "c", "2026-01-01 12:00:00", "∅"].map(str::to_owned);
    assert_eq!(stored, [row(0, r#"{"n": 1}"#), row(1, "[2]"), row(2, "null"), row(3, "[2]")], "in their order");
    assert_eq!(column(&mut session, "select id from public.queue_waiting(10)"), ids);

    // Without an instant and a correlation id, as in queue_write.
    let before = value(&mut superuser, "select clock_timestamp()");
    let id = value(&mut session, "select id from public.queue_write_many('mail', '{1}', null, null)");
    let written = format!(
        "select created_at between '{before}' and clock_timestamp() and correlation_id is null
           from public.queue where id = '{id}'"
    );
    assert_eq!(value(&mut superuser, &written), "t");

    let before = contents(&mut superuser);
    assert!(writes_nothing(&mut session, "select * from public.queue_write_many('mail', '{}', null, null)").is_empty());
    session.batch_execute("begin").unwrap();
    column(&mut session, &call);
    session.batch_execute("rollback").unwrap();
    assert_eq!(contents(&mut superuser), before, "rolled back, they were never there");
}

#[test]
fn ten_thousand_rows_are_written_in_one_call() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let call = "select array_agg(w.id order by w.place)
                  from public.queue_write_many('mail', array(select to_jsonb(i) from generate_series(1, 10000) i), null, null)
                         with ordinality w (id, place)";
    let ids = value(&mut session, call);
    let by_payload = "select array_agg(id order by payload::integer) from public.queue";
    assert!(value(&mut database.connect(), by_payload) == ids, "the ids in the order of the payloads");
}

#[test]
fn every_argument_of_queue_write_many_is_checked() {
    use Takes::{Items, OptionalInstant, OptionalText, Text};
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    arguments(
        &mut session,
        "queue_write_many",
        &[
            ("p_queue", "'mail'", Text(200)),
            ("p_payloads", "'{1}'", Items("'1'::jsonb", &[])),
            ("p_created_at", "'2026-01-01'", OptionalInstant),
            ("p_correlation_id", "'c'", OptionalText(200)),
        ],
    );
    let call = "select * from public.queue_write_many('mail', '{1,2,NULL}', null, null)";
    refused(&mut session, call, "22004", "p_payloads[3] must not be NULL");
    let call = r"select * from public.queue_write_many('mail', '{1}', null, E'a\u0007')";
    refused(&mut session, call, "22023", "p_correlation_id");
}
