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
#[path = "../pgrx-tests/canonical_json.rs"]
mod unit;
