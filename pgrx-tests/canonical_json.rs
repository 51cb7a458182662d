//! Canonical JSON, without a server.

use super::*;

#[test]
fn keys_are_ordered_by_utf16_code_units() {
    // U+1F600 is D83D DE00, before U+FB33; by code points it would come after.
    assert_eq!(canonical("{\"\u{fb33}\": 1, \"\u{1f600}\": 2}").unwrap(), "{\"\u{1f600}\":2,\"\u{fb33}\":1}");
    assert_eq!(
        canonical(r#"{"b": 1, "aa": 2, "c": {"z": 1, "y": 2}}"#).unwrap(),
        r#"{"aa":2,"b":1,"c":{"y":2,"z":1}}"#
    );
    assert_eq!(canonical(r#"{"9": 1, "10": 2, "1": 3}"#).unwrap(), r#"{"1":3,"10":2,"9":1}"#);
}

#[test]
fn an_escaped_key_sorts_by_what_it_stands_for() {
    // A tab (U+0009) comes before a space (U+0020), and a quote (U+0022) behind it.
    assert_eq!(canonical(r#"{"\"": 1, " ": 2, "\t": 3, "\\": 4}"#).unwrap(), r#"{"\t":3," ":2,"\"":1,"\\":4}"#);
    assert_eq!(canonical(r#"{"\u0010": 1, "\u000b": 2}"#).unwrap(), r#"{"\u000b":2,"\u0010":1}"#);
}

#[test]
fn numbers_are_laid_out_as_ecmascript_does() {
    for (number, canonical_number) in [
        ("1.00", "1"),
        ("-0.0", "0"),
        ("0.0000001", "1e-7"),
        ("0.000001", "0.000001"),
        ("100000000000000000000", "100000000000000000000"),
        ("1000000000000000000000", "1e+21"),
        ("9007199254740993", "9007199254740992"),
        ("1854839774995730.25", "1854839774995730.2"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ("0.18368239805029202", "0.18368239805029202"),
    ] {
        assert_eq!(canonical(number).unwrap(), canonical_number, "{number}");
    }
}

#[test]
fn a_number_too_small_is_zero_and_one_too_large_is_refused() {
    let small = format!("0.{}1", "0".repeat(400));
    let large = format!("1{}", "0".repeat(400));
    assert_eq!(canonical(&small).unwrap(), "0");
    assert_eq!(canonical(&large), Err(TooLarge(&large)));
}

#[test]
fn braces_and_commas_inside_strings_are_text() {
    assert_eq!(canonical(r#"{"b": "},{", "a": ["[", "\\\",", {}]}"#).unwrap(), r#"{"a":["[","\\\",",{}],"b":"},{"}"#);
}

#[test]
fn the_canonical_form_of_a_canonical_form_is_itself() {
    let once = canonical(r#"{"z": [1.50, {"b": null, "a": [true, false]}], "a": "\u001f\n"}"#).unwrap();
    assert_eq!(canonical(&once).unwrap(), once);
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(canonical(&deep).unwrap(), deep);
}

#[test]
fn the_fingerprint_is_nodes() {
    assert_eq!(fingerprint("{}").unwrap(), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}
