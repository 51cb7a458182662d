//! The inbox, as one session sees it.

use super::checks::{AWKWARD, Takes, arguments, caught, changes_nothing, contents, quoted, wide, writes_nothing};
use super::harness::{Database, column, refused, rows, value};
use postgres::Client;

/// A fingerprint of the caller's own making: the functions compare nothing but equality.
const FINGERPRINT: &str = "5d3a6a3e";

fn claim_client(session: &mut Client, event_id: &str, fingerprint: &str, now: &str) -> Vec<Vec<String>> {
    rows(session, &format!("select * from public.inbox_claim_client('door', '{event_id}', '{fingerprint}', {now})"))
}

fn save(session: &mut Client, source: &str, event_id: &str, outcome: &str) -> Vec<String> {
    column(session, &format!("select * from public.inbox_save_client_outcome('{source}', '{event_id}', {outcome})"))
}

fn claim_request(session: &mut Client, key: &str, request: &str) -> Vec<Vec<String>> {
    rows(session, &request_call(key, request))
}

fn request_call(key: &str, request: &str) -> String {
    format!("select * from public.inbox_claim_request('alice', 'pay', '{key}', '{request}', null)")
}

/// Runs a call that answers what it is to answer, and writes nothing: it does not even take a transaction id.
#[track_caller]
fn only_reads(session: &mut Client, call: &str, answer: &[&str]) {
    session.batch_execute("begin").unwrap();
    assert_eq!(rows(session, call), [answer], "{call}");
    assert_eq!(value(session, "select pg_current_xact_id_if_assigned() is null"), "t", "{call} wrote");
    session.batch_execute("commit").unwrap();
}

#[test]
fn a_delivery_is_claimed_once_by_source_and_id() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let claim = |source: &str, event_id: &str| {
        format!("select * from public.inbox_claim_event({}, {})", quoted(source), quoted(event_id))
    };
    session.batch_execute("begin").unwrap();
    let before = value(&mut session, "select clock_timestamp()");
    assert_eq!(column(&mut session, &claim("bus", "1")), ["1"]);
    session.batch_execute("commit").unwrap();
    let stored = format!(
        "select source, event_id, request_fingerprint, outcome, claimed_at between '{before}' and clock_timestamp()
           from public.inbox"
    );
    assert_eq!(rows(&mut superuser, &stored), [["bus", "1", "∅", "∅", "t"]]);
    let before = contents(&mut superuser);
    for _ in 0..2 {
        assert!(column(&mut session, &claim("bus", "1")).is_empty());
    }
    assert_eq!(contents(&mut superuser), before);
    for (source, event_id) in [("bus", "2"), ("Bus", "1"), ("bus", "1 "), (AWKWARD, AWKWARD)] {
        assert_eq!(column(&mut session, &claim(source, event_id)), [event_id]);
        assert!(column(&mut session, &claim(source, event_id)).is_empty());
    }
}

#[test]
fn a_claim_that_is_rolled_back_was_never_there_and_a_repeat_leaves_the_transaction_usable() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let claims = [
        "select * from public.inbox_claim_event('bus', '1')",
        "select * from public.inbox_claim_client('door', '1', 'f', null)",
        "select * from public.inbox_claim_request('alice', 'pay', '1', '{}', null)",
    ];
    for claim in claims {
        session.batch_execute("begin").unwrap();
        let first = rows(&mut session, claim);
        assert_eq!(first.len(), 1);
        session.batch_execute("rollback; begin; savepoint s").unwrap();
        assert_eq!(rows(&mut session, claim), first);
        session.batch_execute("rollback to s").unwrap();
        assert_eq!(rows(&mut session, claim), first);
        assert_ne!(rows(&mut session, claim), first, "now it is a repeat");
        assert_eq!(value(&mut session, "select 1"), "1");
        session.batch_execute("commit").unwrap();
        assert_ne!(rows(&mut session, claim), first);
    }
    assert_eq!(value(&mut database.connect(), "select count(*) from public.inbox"), "3");
}

#[test]
fn a_clients_receipt_is_claimed_then_incomplete_then_replayed() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    assert_eq!(
        claim_client(&mut session, "1", FINGERPRINT, "'2026-01-01 12:00+00'"),
        [[FINGERPRINT, "∅", "f"]],
        "claimed now"
    );
    let stored =
        rows(&mut superuser, "select request_fingerprint, outcome, claimed_at at time zone 'utc' from public.inbox");
    assert_eq!(stored, [[FINGERPRINT, "∅", "2026-01-01 12:00:00"]]);

    // The stored fingerprint is answered, whatever the caller's; the caller compares.
    let claims = [FINGERPRINT, "another"].map(|fingerprint| {
        format!("select * from public.inbox_claim_client('door', '1', '{fingerprint}', '2026-01-02 12:00+00')")
    });
    let before = contents(&mut superuser);
    for claim in &claims {
        assert_eq!(rows(&mut session, claim), [[FINGERPRINT, "∅", "t"]]);
    }
    assert_eq!(contents(&mut superuser), before);

    assert_eq!(save(&mut session, "door", "1", r#"'{"paid": 1.50}'"#), [r#"{"paid": 1.50}"#]);
    let before = contents(&mut superuser);
    for claim in &claims {
        assert_eq!(rows(&mut session, claim), [[FINGERPRINT, r#"{"paid": 1.50}"#, "f"]]);
    }
    assert_eq!(contents(&mut superuser), before);
}

#[test]
fn a_repeat_writes_nothing() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let delivery = "select * from public.inbox_claim_event('bus', '1')";
    rows(&mut session, delivery);
    changes_nothing(&mut session, delivery);
    let client = "select * from public.inbox_claim_client('door', '1', 'f')";
    rows(&mut session, client);
    only_reads(&mut session, client, &["f", "∅", "t"]);
    save(&mut session, "door", "1", "'{}'");
    only_reads(&mut session, client, &["f", "{}", "f"]);
    let request = request_call("1", "{}");
    let fingerprint = rows(&mut session, &request).remove(0).remove(1);
    only_reads(&mut session, &request, &["client:alice:pay", &fingerprint, "∅", "incomplete"]);
    save(&mut session, "client:alice:pay", "1", "'1'");
    only_reads(&mut session, &request, &["client:alice:pay", &fingerprint, "1", "replay"]);
    changes_nothing(&mut session, "select * from public.inbox_save_client_outcome('door', '1', '{\"other\": 1}')");
    changes_nothing(&mut session, "select * from public.inbox_save_client_outcome('bus', '1', '{}')");
    changes_nothing(&mut session, "select * from public.inbox_save_client_outcome('door', 'unknown', '{}')");
}

#[test]
fn without_p_now_the_databases_clock_counts() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session.batch_execute("begin").unwrap();
    for (i, call) in [
        "inbox_claim_client('door', '$', 'f')",
        "inbox_claim_client('door', '$', 'f', null)",
        "inbox_claim_request('alice', 'pay', '$', '{}')",
        "inbox_claim_request('alice', 'pay', '$', '{}', null)",
    ]
    .into_iter()
    .enumerate()
    {
        let before = value(&mut session, "select clock_timestamp()");
        rows(&mut session, &format!("select * from public.{}", call.replace('$', &i.to_string())));
        let after = value(&mut session, "select clock_timestamp()");
        session.batch_execute("commit").unwrap();
        let within =
            format!("select claimed_at between '{before}' and '{after}' from public.inbox where event_id = '{i}'");
        assert_eq!(value(&mut database.connect(), &within), "t", "{call}");
        session.batch_execute("begin").unwrap();
    }
}

#[test]
fn an_outcome_is_saved_once_and_never_overwritten() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    for (i, outcome) in
        [r#"{"value": null}"#, "{}", "[]", "[null]", "false", "0", r#""""#, r#""null""#].into_iter().enumerate()
    {
        let event_id = i.to_string();
        claim_client(&mut session, &event_id, "f", "null");
        assert_eq!(save(&mut session, "door", &event_id, &quoted(outcome)), [outcome]);
        let before = contents(&mut superuser);
        for other in [r#"'{"other": 1}'"#.to_owned(), quoted(outcome)] {
            assert!(save(&mut session, "door", &event_id, &other).is_empty());
        }
        assert_eq!(contents(&mut superuser), before);
        assert_eq!(claim_client(&mut session, &event_id, "f", "null"), [["f", outcome, "f"]]);
    }
    // Rolled back, it can be saved again: it was never there.
    claim_client(&mut session, "again", "f", "null");
    session.batch_execute("begin").unwrap();
    assert_eq!(save(&mut session, "door", "again", "'1'"), ["1"]);
    session.batch_execute("rollback").unwrap();
    assert_eq!(save(&mut session, "door", "again", "'2'"), ["2"]);
}

#[test]
fn a_bare_json_null_is_no_outcome() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    claim_client(&mut session, "1", "f", "null");
    let before = contents(&mut database.connect());
    for null in ["null", " null "] {
        let call = format!("select * from public.inbox_save_client_outcome('door', '1', '{null}')");
        let error = refused(&mut session, &call, "22023", "p_outcome");
        assert!(error.hint().unwrap().contains(r#"{"value": null}"#));
        caught(&mut session, &call, "22023");
    }
    assert_eq!(contents(&mut database.connect()), before);
    assert_eq!(save(&mut session, "door", "1", r#"'"null"'"#), [r#""null""#], "a string is an outcome");
}

#[test]
fn a_delivery_takes_no_outcome_and_answers_a_client_without_a_fingerprint() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    rows(&mut session, "select * from public.inbox_claim_event('door', '1')");
    let before = contents(&mut superuser);
    assert!(save(&mut session, "door", "1", "'{}'").is_empty());
    assert!(save(&mut session, "door", "unknown", "'{}'").is_empty());
    assert!(save(&mut session, "unknown", "1", "'{}'").is_empty());
    assert_eq!(claim_client(&mut session, "1", "f", "null"), [["∅", "∅", "t"]]);
    assert_eq!(contents(&mut superuser), before);
    // The other way round: a client's receipt is no new delivery.
    claim_client(&mut session, "2", "f", "null");
    changes_nothing(&mut session, "select * from public.inbox_claim_event('door', '2')");
}

#[test]
fn a_request_is_claimed_then_incomplete_then_replayed() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    let request = r#"{"amount": "1.50", "to": "bob"}"#;
    let fingerprint = value(&mut session, &format!("select public.request_fingerprint('{request}')"));
    let answer = |outcome: &str, state: &str| ["client:alice:pay", &fingerprint, outcome, state].map(str::to_owned);
    assert_eq!(claim_request(&mut session, "key", request), [answer("∅", "claimed")]);
    let stored = rows(&mut superuser, "select source, event_id, request_fingerprint, outcome from public.inbox");
    assert_eq!(stored, [["client:alice:pay", "key", &fingerprint, "∅"]]);
    // Equal as JSON is equal: the order of keys and white space do not matter.
    let same = r#" {"to":"bob","amount":"1.50"} "#;
    let before = contents(&mut superuser);
    for request in [request, same] {
        assert_eq!(claim_request(&mut session, "key", request), [answer("∅", "incomplete")]);
    }
    assert_eq!(contents(&mut superuser), before);
    save(&mut session, "client:alice:pay", "key", r#"'{"value": null}'"#);
    let before = contents(&mut superuser);
    for request in [request, same] {
        assert_eq!(claim_request(&mut session, "key", request), [answer(r#"{"value": null}"#, "replay")]);
    }
    assert_eq!(contents(&mut superuser), before);
    // The same key of another principal, or for another operation, is another receipt; so is another key.
    for (principal, operation, key) in [("bob", "pay", "key"), ("alice", "refund", "key"), ("alice", "pay", "key 2")] {
        let call = format!(
            "select source, state from public.inbox_claim_request('{principal}', '{operation}', '{key}', '{request}')"
        );
        assert_eq!(rows(&mut session, &call), [[format!("client:{principal}:{operation}").as_str(), "claimed"]]);
    }
    // inbox_claim_client sees the same receipt.
    let client = "select * from public.inbox_claim_client('client:alice:pay', 'key', 'x')";
    assert_eq!(rows(&mut session, client), [[&fingerprint, r#"{"value": null}"#, "f"]]);
}

#[test]
fn another_request_under_a_used_key_is_refused_in_every_state() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    claim_request(&mut session, "incomplete", "{\"n\": 1}");
    claim_request(&mut session, "replay", "{\"n\": 1}");
    save(&mut session, "client:alice:pay", "replay", "'{}'");
    // A delivery, and a client's receipt with a fingerprint of its own making, claimed under the same source.
    rows(&mut session, "select * from public.inbox_claim_event('client:alice:pay', 'delivery')");
    rows(&mut session, "select * from public.inbox_claim_client('client:alice:pay', 'client', 'f')");
    let before = contents(&mut superuser);
    for key in ["incomplete", "replay", "delivery", "client"] {
        let call = request_call(key, "{\"n\": 2}");
        let error = refused(&mut session, &call, "LT001", "p_idempotency_key");
        assert!(error.message().contains(key) && error.detail().unwrap().contains("client:alice:pay"), "{error:?}");
        caught(&mut session, &call, "LT001");
        // It took no transaction id, and the transaction goes on after a savepoint.
        session.batch_execute("begin").unwrap();
        refused(&mut session, &call, "LT001", key);
        assert_eq!(value(&mut session, "select pg_current_xact_id_if_assigned() is null"), "t");
        assert_eq!(rows(&mut session, &request_call("new", "{}")).len(), 1);
        session.batch_execute("rollback").unwrap();
    }
    assert_eq!(contents(&mut superuser), before);
    assert_eq!(
        claim_request(&mut session, "incomplete", "{\"n\": 1.0}")[0][3],
        "incomplete",
        "the first one still may"
    );
}

#[test]
fn no_two_pairs_of_principal_and_operation_share_a_source() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    for (principal, operation, argument) in [
        ("a:b", "c", "p_principal_id"),
        ("a", "b:c", "p_operation"),
        (":", "c", "p_principal_id"),
        ("a", ":", "p_operation"),
    ] {
        let call = format!("select * from public.inbox_claim_request('{principal}', '{operation}', 'k', '{{}}', null)");
        refused(&mut session, &call, "22023", argument);
        caught(&mut session, &call, "22023");
    }
    // The source has the column's width too: client: and another : are 8 characters of 200.
    let call = |principal: usize, operation: usize| {
        format!("select source from public.inbox_claim_request({}, {}, 'k', '{{}}')", wide(principal), wide(operation))
    };
    for (principal, operation) in [(191, 1), (1, 191), (96, 96)] {
        let source = format!("client:{}:{}", "😀".repeat(principal), "😀".repeat(operation));
        assert_eq!(column(&mut session, &call(principal, operation)), [source.as_str()]);
    }
    for (principal, operation) in [(192, 1), (1, 192), (97, 96), (200, 200)] {
        refused(&mut session, &call(principal, operation), "22001", "p_principal_id");
    }
    assert_eq!(value(&mut database.connect(), "select count(*) from public.inbox"), "3");
}

#[test]
fn a_request_with_a_number_that_no_double_holds_is_refused() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let call = request_call("k", "{\"n\": 1e400}");
    refused(&mut session, &call, "22003", "p_request");
    caught(&mut session, &call, "22003");
    assert_eq!(value(&mut database.connect(), "select count(*) from public.inbox"), "0");
}

#[test]
fn a_sweep_takes_the_oldest_completed_receipts_of_clients_and_nothing_else() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    // Completed ones at 12:01 to 12:05, not in that order.
    for minute in [3, 1, 5, 2, 4] {
        let event_id = format!("completed {minute}");
        claim_client(&mut session, &event_id, "f", &format!("'2026-01-01 12:0{minute}+00'"));
        save(&mut session, "door", &event_id, "'{\"value\": null}'");
    }
    claim_client(&mut session, "incomplete", "f", "'2020-01-01 00:00+00'");
    superuser
        .batch_execute(
            "insert into public.inbox (source, event_id, claimed_at) values ('door', 'delivery', '2020-01-01')",
        )
        .unwrap();
    let mut sweep = |cutoff: &str, batch: u32| {
        value(
            &mut session,
            &format!("select deleted_count from public.inbox_sweep_clients('2026-01-01 {cutoff}+00', '{batch}')"),
        )
    };
    let mut left = || column(&mut superuser, "select event_id from public.inbox order by claimed_at, event_id desc");
    let always = ["incomplete", "delivery"];
    assert_eq!(sweep("12:01", 100), "0", "claimed at the cutoff is not before it");
    assert_eq!(left().len(), 7);
    assert_eq!(sweep("12:05", 2), "2");
    assert_eq!(left(), [&always[..], &["completed 3", "completed 4", "completed 5"]].concat());
    assert_eq!(sweep("12:04:00.000001", 10_000), "2");
    assert_eq!(left(), [&always[..], &["completed 5"]].concat());
    assert_eq!(sweep("23:00", 1), "1");
    assert_eq!(sweep("23:00", 10_000), "0");
    assert_eq!(left(), always);
    // What was swept is claimed as new.
    assert_eq!(claim_client(&mut session, "completed 1", "g", "null"), [["g", "∅", "f"]]);
}

#[test]
fn a_sweep_takes_the_oldest_deliveries_and_nothing_else() {
    let database = Database::new();
    let mut operator = database.connect_as("operator");
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "insert into public.inbox (source, event_id, claimed_at)
             select 'door', 'delivery ' || m, timestamptz '2026-01-01 12:00+00' + m * interval '1 min'
               from unnest(array[3, 1, 2]) m",
        )
        .unwrap();
    claim_client(&mut operator, "incomplete", "f", "'2020-01-01 00:00+00'");
    claim_client(&mut operator, "completed", "f", "'2020-01-01 00:00+00'");
    save(&mut operator, "door", "completed", "'{}'");
    let mut sweep = |cutoff: &str, batch: u32| {
        let call = format!("select deleted_count from public.inbox_sweep_events('2026-01-01 {cutoff}+00', '{batch}')");
        value(&mut operator, &call)
    };
    let mut left = || column(&mut superuser, "select event_id from public.inbox order by claimed_at, event_id");
    let always = ["completed", "incomplete"];
    assert_eq!(sweep("12:01", 100), "0", "claimed at the cutoff is not before it");
    assert_eq!(sweep("12:03", 1), "1");
    assert_eq!(left(), [&always[..], &["delivery 2", "delivery 3"]].concat());
    assert_eq!(sweep("12:03", 100), "1");
    assert_eq!(sweep("23:00", 100), "1");
    assert_eq!(sweep("23:00", 100), "0");
    assert_eq!(left(), always);
    // What was swept is not known any more.
    assert_eq!(column(&mut operator, "select * from public.inbox_claim_event('door', 'delivery 1')"), ["delivery 1"]);
}

#[test]
fn forgetting_deletes_one_row_of_any_kind_so_that_it_can_be_claimed_again() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut operator = database.connect_as("operator");
    let mut superuser = database.connect();
    rows(&mut session, "select * from public.inbox_claim_event('door', 'delivery')");
    claim_client(&mut session, "incomplete", "f", "null");
    claim_client(&mut session, "completed", "f", "null");
    save(&mut session, "door", "completed", "'{}'");
    rows(&mut session, "select * from public.inbox_claim_event('other', 'delivery')");
    let forget = |source: &str, event_id: &str| format!("select * from public.inbox_forget('{source}', '{event_id}')");
    changes_nothing(&mut operator, &forget("door", "unknown"));
    changes_nothing(&mut operator, &forget("unknown", "delivery"));
    for event_id in ["delivery", "incomplete", "completed"] {
        assert_eq!(column(&mut operator, &forget("door", event_id)), [event_id]);
        changes_nothing(&mut operator, &forget("door", event_id));
    }
    assert_eq!(rows(&mut superuser, "select source, event_id from public.inbox"), [["other", "delivery"]]);
    assert_eq!(rows(&mut session, "select * from public.inbox_claim_event('door', 'delivery')").len(), 1);
    assert_eq!(claim_client(&mut session, "completed", "g", "null"), [["g", "∅", "f"]]);
}

/// An application may have brought such a trigger along; without a bound the claim would be tried for ever.
#[test]
fn a_trigger_that_keeps_rows_out_of_the_inbox_is_said_and_is_no_endless_loop() {
    let database = Database::new();
    database
        .connect()
        .batch_execute(
            "create function keep_out() returns trigger language plpgsql as 'begin return null; end';
             create trigger keep_out before insert on public.inbox for each row execute function keep_out()",
        )
        .unwrap();
    let mut session = database.connect_as("app_be");
    for call in [
        "select * from public.inbox_claim_client('door', 'key-1', 'f')",
        "select * from public.inbox_claim_request('alice', 'pay', 'key-1', '{}')",
    ] {
        let error = refused(&mut session, call, "55000", "public.inbox kept no row of the claim in 1000 tries: key-1");
        assert!(error.hint().unwrap().contains("trigger"), "{error:?}");
        caught(&mut session, call, "55000");
    }
}

#[test]
fn names_are_kept_verbatim_up_to_their_width() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    for name in ["😀".repeat(200), AWKWARD.to_owned(), " ".to_owned()] {
        let literal = quoted(&name);
        let claim = format!("select event_id from public.inbox_claim_event({literal}, {literal})");
        assert_eq!(column(&mut session, &claim), [name.as_str()]);
    }
    for fingerprint in ["😀".repeat(64), AWKWARD.to_owned()] {
        let literal = quoted(&fingerprint);
        let claim = format!("select request_fingerprint from public.inbox_claim_client('door', {literal}, {literal})");
        assert_eq!(column(&mut session, &claim), [fingerprint.as_str()]);
        let request = format!(
            "select source from public.inbox_claim_request({literal}, {literal}, {literal}, to_jsonb({literal}::text))"
        );
        assert_eq!(column(&mut session, &request), [format!("client:{fingerprint}:{fingerprint}")]);
    }
}

#[test]
fn every_argument_of_the_inbox_is_checked() {
    use Takes::{Batch, Instant, OptionalInstant, Present, Text};
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    claim_client(&mut session, "1", "f", "'2026-01-01 12:00+00'");
    let before = contents(&mut superuser);
    let source = ("p_source", "'door'", Text(200));
    let event_id = ("p_event_id", "'2'", Text(200));
    let now = ("p_now", "'2026-01-01 12:00+00'", OptionalInstant);
    arguments(&mut session, "inbox_claim_event", &[source, event_id]);
    arguments(&mut session, "inbox_claim_client", &[source, event_id, ("p_request_fingerprint", "'f'", Text(64)), now]);
    arguments(&mut session, "inbox_save_client_outcome", &[source, event_id, ("p_outcome", "'{}'", Present)]);
    arguments(
        &mut session,
        "inbox_sweep_clients",
        &[("p_cutoff", "'2026-02-01 12:00+00'", Instant), ("p_batch", "'10'", Batch)],
    );
    arguments(
        &mut session,
        "inbox_claim_request",
        &[
            ("p_principal_id", "'alice'", Present),
            ("p_operation", "'pay'", Present),
            ("p_idempotency_key", "'k'", Text(200)),
            ("p_request", "'null'", Present),
            now,
        ],
    );
    for (argument, call) in [("p_principal_id", "'', 'pay'"), ("p_operation", "'alice', ''")] {
        let call = format!("select * from public.inbox_claim_request({call}, 'k', '{{}}', null)");
        refused(&mut session, &call, "22023", argument);
    }
    for (argument, call) in
        [("p_principal_id", format!("{}, 'pay'", wide(201))), ("p_operation", format!("'alice', {}", wide(201)))]
    {
        let call = format!("select * from public.inbox_claim_request({call}, 'k', '{{}}', null)");
        refused(&mut session, &call, "22001", argument);
    }
    arguments(
        &mut database.connect_as("operator"),
        "inbox_sweep_events",
        &[("p_cutoff", "'2026-02-01 12:00+00'", Instant), ("p_batch", "'10'", Batch)],
    );
    arguments(&mut database.connect_as("operator"), "inbox_forget", &[source, ("p_event_id", "'1'", Text(200))]);
    assert_eq!(contents(&mut superuser), before);
}

// ---------------------------------------------------------------------------------------------------------------------
// Many deliveries in one call
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn of_many_deliveries_the_new_ones_are_answered_once_each_in_the_order_they_came_in() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let mut superuser = database.connect();
    column(&mut session, "select * from public.inbox_claim_event('door', 'b')");
    column(&mut session, "select * from public.inbox_claim_client('door', 'receipt', 'f')");
    let kept = "select jsonb_agg(i order by event_id) from public.inbox i where event_id in ('b', 'receipt')";
    let before = value(&mut superuser, kept);
    let clock = value(&mut superuser, "select clock_timestamp()");
    let call = "select * from public.inbox_claim_events('door', '{c, b, a, c, receipt, \"x, y\", a}')";
    assert_eq!(column(&mut session, call), ["c", "a", "x, y"]);
    let claimed = format!(
        "select count(*) from public.inbox where source = 'door' and event_id in ('a', 'c', 'x, y')
            and request_fingerprint is null and claimed_at between '{clock}' and clock_timestamp()"
    );
    assert_eq!(value(&mut superuser, &claimed), "3");
    assert_eq!(value(&mut superuser, kept), before);
    // The same ids of another door are others.
    assert_eq!(column(&mut session, &call.replace("'door'", "'window'")), ["c", "b", "a", "receipt", "x, y"]);

    let before = contents(&mut superuser);
    for call in [call, "select * from public.inbox_claim_events('door', '{}')"] {
        assert!(writes_nothing(&mut session, call).is_empty());
    }
    assert_eq!(contents(&mut superuser), before, "repeats write nothing");
}

#[test]
fn ten_thousand_deliveries_are_claimed_in_one_call() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    session.batch_execute("set statement_timeout = '60s'").unwrap();
    let call = "select count(*) from public.inbox_claim_events('door', array(select 'e' || i from generate_series(1, 10000) i))";
    assert_eq!(value(&mut session, call), "10000");
    assert_eq!(value(&mut session, call), "0");
}

#[test]
fn every_argument_of_inbox_claim_events_is_checked() {
    use Takes::{Items, Text};
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    const IDS: Takes =
        Items("'x'::text", &[("''", "22023"), ("repeat('😀', 201)", "22001"), ("repeat('x', 200) || ' '", "22001")]);
    arguments(&mut session, "inbox_claim_events", &[("p_source", "'door'", Text(200)), ("p_event_ids", "'{e}'", IDS)]);
    let call = "select * from public.inbox_claim_events('door', '{a,\"\"}')";
    refused(&mut session, call, "22023", "p_event_ids[2] must not be empty");
}
