//! The fingerprint of a request: equal in the database and in JavaScript, whatever the order of keys and the form of numbers.

use crate::canonical_json::{TooLarge, canonical, fingerprint};
use crate::error::Error;
use crate::statement::{Jsonb, Text, Varchar};
use pgrx::prelude::*;

/// The canonical form of a JSON value after RFC 8785 (JCS).
#[pg_extern(immutable, strict, parallel_safe)]
fn canonical_json(p_value: Jsonb) -> Text {
    match canonical(p_value.as_json()) {
        Ok(canonical) => Text::new(&canonical),
        Err(TooLarge(number)) => Error::NumberTooLarge { argument: "p_value", number }.raise(),
    }
}

/// The fingerprint of a request.
#[pg_extern(immutable, strict, parallel_safe)]
fn request_fingerprint(p_request: Jsonb) -> Varchar {
    fingerprint_of("p_request", p_request)
}

/// The fingerprint of an argument.
pub fn fingerprint_of(argument: &'static str, request: Jsonb) -> Varchar {
    match fingerprint(request.as_json()) {
        Ok(fingerprint) => Varchar::new(&fingerprint),
        Err(TooLarge(number)) => Error::NumberTooLarge { argument, number }.raise(),
    }
}
