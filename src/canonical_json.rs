//! Canonical JSON after RFC 8785 (JCS), and the fingerprint made of it. Pure Rust, nothing of PostgreSQL.
//!
//! The input is a JSON text that PostgreSQL printed of a `jsonb`: valid, without duplicate keys, its strings escaped as
//! `JSON.stringify` escapes them. So strings are copied as they stand, and only the order of keys, the layout of numbers and
//! the white space change. Nothing recurses: depth costs memory, never the stack.

use sha2::{Digest, Sha256};
use std::cmp::Ordering;

/// A number that no double holds, as it stood in the text.
#[derive(Debug, PartialEq)]
pub struct TooLarge<'a>(pub &'a str);

/// The canonical form of a JSON text as `jsonb` prints it.
pub fn canonical(json: &str) -> Result<String, TooLarge<'_>> {
    let tokens = tokens(json);
    let mut out = String::with_capacity(json.len());
    // What is still to be written, next thing last.
    let mut rest = vec![Step::Value(0)];
    while let Some(step) = rest.pop() {
        let at = match step {
            Step::Text(text) => {
                out.push_str(text);
                continue;
            }
            Step::Value(at) => at,
        };
        let Some(&Token { text, end }) = tokens.get(at) else { continue };
        match text.as_bytes()[0] {
            b'{' => {
                out.push('{');
                rest.push(Step::Text("}"));
                let mut members = children(&tokens, at + 1, end, 2);
                // RFC 8785, section 3.2.3: by UTF-16 code units, which is not the order of code points.
                members.sort_unstable_by(|a, b| compare_keys(tokens[*a].text, tokens[*b].text));
                for (i, key) in members.into_iter().enumerate().rev() {
                    rest.extend([Step::Value(key + 1), Step::Text(":"), Step::Text(tokens[key].text)]);
                    if i > 0 {
                        rest.push(Step::Text(","));
                    }
                }
            }
            b'[' => {
                out.push('[');
                rest.push(Step::Text("]"));
                for (i, element) in children(&tokens, at + 1, end, 1).into_iter().enumerate().rev() {
                    rest.push(Step::Value(element));
                    if i > 0 {
                        rest.push(Step::Text(","));
                    }
                }
            }
            b'-' | b'0'..=b'9' => push_number(text, &mut out)?,
            _ => out.push_str(text),
        }
    }
    Ok(out)
}

/// The fingerprint of a request: SHA-256 of its canonical form, in 64 lower-case hexadecimal digits.
pub fn fingerprint(json: &str) -> Result<String, TooLarge<'_>> {
    Ok(format!("{:x}", Sha256::digest(canonical(json)?)))
}

enum Step<'a> {
    Value(usize),
    Text(&'a str),
}

/// A string, number or word, or the bracket that opens an object or array.
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    /// The token behind this one and all that is inside it.
    end: usize,
}

/// The tokens of a JSON text, in their order. Members of an object are a key and a value each.
fn tokens(json: &str) -> Vec<Token<'_>> {
    let bytes = json.as_bytes();
    let mut tokens = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'{' | b'[' => {
                open.push(tokens.len());
                at += 1;
            }
            b'}' | b']' => {
                let end = tokens.len();
                if let Some(opened) = open.pop() {
                    let token: &mut Token = &mut tokens[opened];
                    token.end = end;
                }
                at += 1;
                continue;
            }
            b',' | b':' | b' ' => {
                at += 1;
                continue;
            }
            _ => at += bytes[at..].iter().take_while(|c| !matches!(c, b',' | b'}' | b']' | b' ')).count(),
        }
        tokens.push(Token { text: &json[start..at], end: tokens.len() + 1 });
    }
    tokens
}

/// Where the string that begins at `start` ends, behind its closing quote.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The tokens from `at` on that begin an element (`width` 1) or a member (`width` 2: its key).
fn children(tokens: &[Token], mut at: usize, end: usize, width: usize) -> Vec<usize> {
    let mut children = Vec::new();
    while at < end {
        children.push(at);
        at = tokens[at + width - 1].end;
    }
    children
}

/// Compares two quoted keys by the UTF-16 code units that they stand for.
fn compare_keys(a: &str, b: &str) -> Ordering {
    let plain = |key: &str| key.bytes().all(|c| c.is_ascii() && c != b'\\');
    let (a, b) = (&a[1..a.len() - 1], &b[1..b.len() - 1]);
    // All keys but a few: then bytes are code units.
    if plain(a) && plain(b) { a.cmp(b) } else { code_units(a).cmp(code_units(b)) }
}

/// The UTF-16 code units that an escaped text stands for.
fn code_units(escaped: &str) -> impl Iterator<Item = u16> {
    let mut chars = escaped.chars();
    let mut low_surrogate = None;
    std::iter::from_fn(move || {
        if let Some(unit) = low_surrogate.take() {
            return Some(unit);
        }
        let c = chars.next()?;
        if c == '\\' {
            return Some(match chars.next()? {
                'b' => 0x08,
                't' => 0x09,
                'n' => 0x0a,
                'f' => 0x0c,
                'r' => 0x0d,
                'u' => chars
                    .by_ref()
                    .take(4)
                    .filter_map(|c| c.to_digit(16))
                    .fold(0, |unit, digit| unit << 4 | digit as u16),
                c => c as u16,
            });
        }
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units);
        low_surrogate = units.get(1).copied();
        Some(units[0])
    })
}

/// RFC 8785, section 3.2.2.3: the nearest double, laid out as ECMAScript does.
fn push_number<'a>(number: &'a str, out: &mut String) -> Result<(), TooLarge<'a>> {
    // Small integers stand as they are.
    if number.len() < 16 && number.bytes().all(|c| c.is_ascii_digit()) {
        out.push_str(number);
        return Ok(());
    }
    match number.parse::<f64>() {
        Ok(double) if double.is_finite() => {
            // -0 is 0.
            out.push_str(ryu_js::Buffer::new().format_finite(if double == 0.0 { 0.0 } else { double }));
            Ok(())
        }
        _ => Err(TooLarge(number)),
    }
}

#[cfg(test)]
mod unit {
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
        assert_eq!(
            canonical(r#"{"b": "},{", "a": ["[", "\\\",", {}]}"#).unwrap(),
            r#"{"a":["[","\\\",",{}],"b":"},{"}"#
        );
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
}
