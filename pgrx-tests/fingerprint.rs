//! Canonical JSON and the request fingerprint.

use super::checks::{caught, quoted};
use super::harness::{Database, column, refused, value};
use postgres::Client;

/// JSON texts as a client may send them, and the fingerprints that Node computed of the parsed values.
const VECTORS: &str = include_str!("vectors/fingerprint.tsv");

fn canonical(session: &mut Client, json: &str) -> String {
    value(session, &format!("select public.canonical_json({})", quoted(json)))
}

#[test]
fn fingerprints_are_those_that_node_computes() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let fingerprint = session
        .prepare_typed("select public.request_fingerprint($1::text::jsonb)", &[postgres::types::Type::TEXT])
        .unwrap();
    let mut lines = 0;
    for line in VECTORS.lines() {
        let (json, expected) = line.split_once('\t').expect("a JSON text, a tab and a fingerprint");
        let computed: String = session.query_one(&fingerprint, &[&json]).unwrap().get(0);
        assert_eq!(computed, expected, "{json}");
        lines += 1;
    }
    assert!(lines > 400, "{lines} vectors");
}

#[test]
fn the_canonical_form_of_a_canonical_form_is_itself_and_has_the_fingerprint_as_its_digest() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let check = session
        .prepare_typed(
            "select c, public.canonical_json(c::jsonb), encode(sha256(convert_to(c, 'UTF8')), 'hex')
               from public.canonical_json($1::text::jsonb) c",
            &[postgres::types::Type::TEXT],
        )
        .unwrap();
    for line in VECTORS.lines() {
        let (json, fingerprint) = line.split_once('\t').unwrap();
        let row = session.query_one(&check, &[&json]).unwrap();
        let (once, twice, digest): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        assert_eq!(twice, once, "{json}");
        assert_eq!(digest, fingerprint, "{json}");
    }
}

#[test]
fn keys_are_ordered_by_utf16_code_units_and_white_space_goes() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    for (json, expected) in [
        (r#" { "b" : [ 1 , { "z" : null , "a" : true } ] , "a" : { } } "#, r#"{"a":{},"b":[1,{"a":true,"z":null}]}"#),
        // jsonb orders keys by their length first; U+1F600 is D83D DE00 in UTF-16, before U+FB33.
        (r#"{"b": 1, "aa": 2, "": 3, "10": 4, "9": 5}"#, r#"{"":3,"10":4,"9":5,"aa":2,"b":1}"#),
        (r#"{"\ufb33": 1, "\ud83d\ude00": 2, "é": 3, "z": 4}"#, "{\"z\":4,\"é\":3,\"😀\":2,\"\u{fb33}\":1}"),
        // Keys are compared unescaped.
        (r##"{"\"": 1, "!": 2, "#": 3, "\\": 4, "]": 5, "[": 6}"##, r##"{"!":2,"\"":1,"#":3,"[":6,"\\":4,"]":5}"##),
        (r#"{"\n": 1, "\u000b": 2, "\t": 3}"#, r#"{"\t":3,"\n":1,"\u000b":2}"#),
        // The example of RFC 8785, section 3.2.3.
        (
            r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#,
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}",
        ),
        // The last of two equal keys counts, as in JavaScript.
        (r#"{"a": 1, "a": 2}"#, r#"{"a":2}"#),
    ] {
        assert_eq!(canonical(&mut session, json), expected, "{json}");
    }
}

#[test]
fn strings_are_escaped_as_json_stringify_does_and_not_normalised() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    for (json, expected) in [
        (r#""\b\t\n\f\r\"\\\/""#, r#""\b\t\n\f\r\"\\/""#),
        (r#""\u0001\u001f\u007f\u0080""#, "\"\\u0001\\u001f\u{7f}\u{80}\""),
        (r#""\u0041\u00e9\ud83d\ude00\u2028""#, "\"Aé😀\u{2028}\""),
        ("\"<it's> & $1 %s\"", "\"<it's> & $1 %s\""),
    ] {
        assert_eq!(canonical(&mut session, json), expected, "{json}");
    }
    let composed = value(&mut session, "select public.request_fingerprint('\"\u{e9}\"')");
    let decomposed = value(&mut session, "select public.request_fingerprint('\"e\u{301}\"')");
    assert_ne!(composed, decomposed);
}

#[test]
fn numbers_are_the_nearest_double_in_ecmascripts_layout() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let tiny = format!("0.{}1", "0".repeat(400));
    let long_tie = format!("9007199254740993.{}1", "0".repeat(300));
    for (number, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("-0.0e5", "0"),
        ("1.50", "1.5"),
        ("100", "100"),
        ("1e2", "100"),
        ("-1e-6", "-0.000001"),
        ("0.000001", "0.000001"),
        ("1e-7", "1e-7"),
        ("123e-9", "1.23e-7"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("999999999999999999999", "1e+21"),
        ("123456789012345678901", "123456789012345680000"),
        ("9007199254740993", "9007199254740992"),
        (&long_tie, "9007199254740994"),
        ("0.1", "0.1"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("0.3000000000000000399", "0.30000000000000004"),
        ("1854839774995730.25", "1854839774995730.2"),
        ("5e-324", "5e-324"),
        ("2e-324", "0"),
        ("-2e-324", "0"),
        (&tiny, "0"),
        ("2.2250738585072014e-308", "2.2250738585072014e-308"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("1.7976931348623158e308", "1.7976931348623157e+308"),
        ("-1.7976931348623157e308", "-1.7976931348623157e+308"),
    ] {
        assert_eq!(canonical(&mut session, number), expected, "{number}");
    }
    // Nearest, ties to even: from half a unit above the largest double on, it is Infinity in JavaScript.
    for number in ["1e309", "-1e309", "1.797693134862315808e308", "1e1000", "{\"a\": [1, 2e308]}"] {
        for (function, argument) in [("canonical_json", "p_value"), ("request_fingerprint", "p_request")] {
            let call = format!("select * from public.{function}('{number}')");
            refused(&mut session, &call, "22003", argument);
            caught(&mut session, &call, "22003");
        }
    }
}

#[test]
fn depth_and_size_are_no_limits() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    for (open, close, element) in [("[", "]", ""), ("{\"a\":", "}", "1")] {
        let deep = format!("{}{element}{}", open.repeat(1_000), close.repeat(1_000));
        assert_eq!(canonical(&mut session, &deep), deep);
    }
    let string = format!("\"{}\"", "é\\n".repeat(1_250_000));
    assert_eq!(canonical(&mut session, &string), string);
    let keys = "(select jsonb_object_agg(i, repeat('x', 40)) from generate_series(1, 100000) i)";
    let same = format!(
        "select length(c) > 5000000 and c::jsonb = v and public.request_fingerprint(v) = encode(sha256(c::bytea), 'hex')
           from {keys} s (v), public.canonical_json(v) c"
    );
    assert_eq!(value(&mut session, &same), "t");
}

#[test]
fn both_functions_are_immutable_strict_and_parallel_safe() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    assert_eq!(value(&mut session, "select public.canonical_json(null)"), "∅");
    assert_eq!(value(&mut session, "select public.request_fingerprint(null)"), "∅");
    assert_eq!(canonical(&mut session, "null"), "null");
    let kinds = "select concat(provolatile, proisstrict, proparallel) from pg_proc
        where oid in ('public.canonical_json(jsonb)'::regprocedure, 'public.request_fingerprint(jsonb)'::regprocedure)";
    assert_eq!(column(&mut session, kinds), ["its", "its"]);
    // In parallel workers they answer as alone.
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "create table requests as
               select jsonb_build_object('n', i, 'a', -i) as body from generate_series(1, 1000) i;
             set parallel_setup_cost = 0;
             -- Its name before PostgreSQL 16 is the other one.
             select set_config(name, 'on', false) from pg_settings
              where name in ('debug_parallel_query', 'force_parallel_mode')",
        )
        .unwrap();
    let distinct = "select count(distinct public.request_fingerprint(body)) from requests";
    assert_eq!(value(&mut superuser, distinct), "1000");
}
