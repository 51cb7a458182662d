//! Checks of arguments: what is refused, by the name that the caller knows. What passes a check is safe for the statements.

use crate::error::Error;
use crate::statement::{Characters, Instant};

/// The width of every name, key and correlation id, in characters.
pub const NAME: usize = 200;
/// The most rows that one call takes or answers.
pub const BATCH: i32 = 10_000;

/// An argument that must be there.
pub fn required<T>(argument: &'static str, value: Option<T>) -> T {
    match value {
        Some(value) => value,
        None => Error::Null { argument }.raise(),
    }
}

/// A text that must be there, of 1 to `limit` characters.
pub fn text<T: Characters>(argument: &'static str, value: Option<T>, limit: usize) -> T {
    let value = required(argument, value);
    check_length(argument, value.as_str(), limit);
    value
}

/// A text of any length that must be there and not be empty.
pub fn non_empty<T: Characters>(argument: &'static str, value: Option<T>) -> T {
    text(argument, value, usize::MAX)
}

fn check_length(argument: &'static str, text: &str, limit: usize) {
    if text.is_empty() {
        Error::Empty { argument }.raise();
    }
    // No text has more characters than bytes, so short ones need no count.
    if text.len() > limit {
        let length = text.chars().count();
        if length > limit {
            Error::TooLong { argument, limit, length }.raise();
        }
    }
}

/// A correlation id may be NULL; otherwise 1 to 200 characters, none of Unicode's category Cc.
pub fn correlation_id<T: Characters>(argument: &'static str, value: Option<T>) -> Option<T> {
    if let Some(value) = value {
        check_length(argument, value.as_str(), NAME);
        if value.as_str().contains(char::is_control) {
            Error::NotAllowed { argument, came: value.as_str(), allowed: NO_CONTROLS }.raise();
        }
    }
    value
}
/// What a correlation id may hold, in words.
pub const NO_CONTROLS: &str = "characters that are not control characters (Unicode's category Cc)";

/// An instant that must be there, and be finite.
pub fn instant(argument: &'static str, value: Option<Instant>) -> Instant {
    let value = required(argument, value);
    if !value.is_finite() {
        Error::NotFinite { argument }.raise();
    }
    value
}

/// The caller's instant; NULL means the database's clock.
pub fn instant_or_now(argument: &'static str, value: Option<Instant>) -> Instant {
    match value {
        Some(_) => instant(argument, value),
        None => Instant::now(),
    }
}

/// A fencing token: 1 or more.
pub fn token(argument: &'static str, value: Option<i64>) -> i64 {
    let value = required(argument, value);
    if value < 1 {
        Error::OutOfRange { argument, came: value, allowed: "1 or more" }.raise();
    }
    value
}

/// How many rows: 1 to 10,000.
pub fn batch(argument: &'static str, value: Option<i32>) -> i32 {
    let value = required(argument, value);
    if !(1..=BATCH).contains(&value) {
        Error::OutOfRange { argument, came: value.into(), allowed: "1 to 10000" }.raise();
    }
    value
}

/// A visibility timeout: 0 or more seconds.
pub fn visibility_timeout(argument: &'static str, value: Option<i32>) -> i32 {
    let value = required(argument, value);
    if value < 0 {
        Error::OutOfRange { argument, came: value.into(), allowed: "0 or more seconds" }.raise();
    }
    value
}

/// What pgmq takes as a routing key, checked here first so that the error names the argument.
pub fn topic<T: Characters>(argument: &'static str, value: Option<T>) -> T {
    let value = text(argument, value, ROUTING_KEY);
    let topic = value.as_str();
    let letters = topic.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'));
    if !letters || topic.starts_with('.') || topic.ends_with('.') || topic.contains("..") {
        let allowed = "letters a-z and A-Z, digits, '.', '_' and '-'; no '.' first, last or twice running";
        Error::NotAllowed { argument, came: topic, allowed }.raise();
    }
    value
}
/// pgmq's limit of a routing key, in characters.
pub const ROUTING_KEY: usize = 255;
