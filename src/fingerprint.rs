//! The fingerprint of a request: equal in the database and in JavaScript, whatever the order of keys and the form of numbers.

use crate::canonical_json::{TooLarge, canonical, fingerprint};
use crate::error::Error;
use crate::statement::{Jsonb, Text, Varchar};
use pgrx::prelude::*;

/// The canonical form of a JSON value after RFC 8785 (JCS): no white space, keys by UTF-16 code units, numbers as the
/// nearest double in ECMAScript's layout, no Unicode normalisation. It is what JavaScript makes of the parsed value,
/// and never jsonb's own text.
///
/// p_value: the value. A number too small for a double is 0, and -0 is 0, as in JavaScript.
/// Answers the text; NULL for NULL.
/// Errors: 22003 for a number that no double holds.
/// Since 0.1.0.
#[pg_extern(immutable, strict, parallel_safe)]
fn canonical_json(p_value: Jsonb) -> Text {
    match canonical(p_value.as_json()) {
        Ok(canonical) => Text::new(&canonical),
        Err(TooLarge(number)) => Error::NumberTooLarge { argument: "p_value".into(), number }.raise(),
    }
}

/// The fingerprint of a request: the SHA-256 of its canonical form, equal to what JavaScript computes on the parsed
/// body.
///
/// p_request: the request. Two integers that differ only beyond 2^53 have one fingerprint, as they are one number in
/// JavaScript: send ids and money as strings.
/// Answers 64 lower-case hexadecimal digits; NULL for NULL.
/// Errors: 22003 for a number that no double holds.
/// Since 0.1.0.
#[pg_extern(immutable, strict, parallel_safe)]
fn request_fingerprint(p_request: Jsonb) -> Varchar {
    fingerprint_of("p_request", p_request)
}

/// The fingerprint of an argument.
pub fn fingerprint_of(argument: &'static str, request: Jsonb) -> Varchar {
    match fingerprint(request.as_json()) {
        Ok(fingerprint) => Varchar::new(&fingerprint),
        Err(TooLarge(number)) => Error::NumberTooLarge { argument: argument.into(), number }.raise(),
    }
}
