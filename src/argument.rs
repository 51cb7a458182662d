//! Checks of arguments: what is refused, by the name that the caller knows. What passes a check is safe for the statements.

use crate::error::Error;
use crate::settings::{self, Clock};
use crate::statement::{Array, Characters, Instant};
use std::fmt;

/// What an error is about: an argument, an element of one that is an array, or a part of either.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    name: &'static str,
    /// Where in the array, counted from 1.
    place: Option<usize>,
    part: &'static str,
}

impl Argument {
    /// The element of an argument that is an array.
    fn element(self, place: usize) -> Argument {
        Argument { place: Some(place), ..self }
    }

    /// A part of it, in words.
    pub fn part(self, part: &'static str) -> Argument {
        Argument { part, ..self }
    }
}

impl From<&'static str> for Argument {
    fn from(name: &'static str) -> Argument {
        Argument { name, place: None, part: "" }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(place) = self.place {
            write!(f, "[{place}]")?;
        }
        f.write_str(self.part)
    }
}

/// The width of every name, key and correlation id, in characters.
pub const NAME: usize = 200;
/// The most rows that one call takes or answers.
pub const BATCH: i32 = 10_000;

/// An argument that must be there.
pub fn required<T>(argument: impl Into<Argument>, value: Option<T>) -> T {
    match value {
        Some(value) => value,
        None => Error::Null { argument: argument.into() }.raise(),
    }
}

/// A text that must be there, of 1 to `limit` characters.
pub fn text<T: Characters>(argument: impl Into<Argument>, value: Option<T>, limit: usize) -> T {
    let argument = argument.into();
    let value = required(argument, value);
    check_length(argument, value.as_str(), limit);
    value
}

/// A text of any length that must be there and not be empty.
pub fn non_empty<T: Characters>(argument: impl Into<Argument>, value: Option<T>) -> T {
    text(argument, value, usize::MAX)
}

fn check_length(argument: Argument, text: &str, limit: usize) {
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
pub fn correlation_id<T: Characters>(argument: impl Into<Argument>, value: Option<T>) -> Option<T> {
    if let Some(value) = value {
        let argument = argument.into();
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
pub fn instant(argument: impl Into<Argument>, value: Option<Instant>) -> Instant {
    let argument = argument.into();
    let value = required(argument, value);
    if !value.is_finite() {
        Error::NotFinite { argument }.raise();
    }
    value
}

/// An instant that is written down as it is passed; NULL means the database's clock.
pub fn instant_or_now(argument: impl Into<Argument>, value: Option<Instant>) -> Instant {
    match value {
        Some(_) => instant(argument, value),
        None => Instant::now(),
    }
}

/// The instant of the call: the caller's, or the database's where it is NULL or `hfs_lite.clock` says so.
pub fn now(argument: impl Into<Argument>, value: Option<Instant>) -> Instant {
    let passed = instant_or_now(argument, value);
    match settings::clock() {
        Clock::Caller => passed,
        Clock::Database => Instant::now(),
    }
}

/// When a lease ends that is asked for at an instant of the caller's, and the instant of the call. By the database's clock it
/// lasts as long as the caller meant; where the caller passed no instant, the end is meant by the database's clock already.
pub fn lease(lease_end: Option<Instant>, now: Option<Instant>) -> (Instant, Instant) {
    let end = instant("p_lease_end", lease_end);
    let passed = instant_or_now("p_now", now);
    if end <= passed {
        Error::LeaseEnded { now: if now.is_some() { "p_now" } else { "the database's clock" } }.raise();
    }
    match settings::clock() {
        Clock::Database if now.is_some() => {
            let clock = Instant::now();
            (clock.plus(passed.until(end)), clock)
        }
        _ => (end, passed),
    }
}

/// A fencing token: 1 or more.
pub fn token(argument: impl Into<Argument>, value: Option<i64>) -> i64 {
    let argument = argument.into();
    let value = required(argument, value);
    if value < 1 {
        Error::OutOfRange { argument, came: value, allowed: "1 or more" }.raise();
    }
    value
}

/// How many rows: 1 to 10,000.
pub fn batch(argument: impl Into<Argument>, value: Option<i32>) -> i32 {
    let argument = argument.into();
    let value = required(argument, value);
    if !(1..=BATCH).contains(&value) {
        Error::OutOfRange { argument, came: value.into(), allowed: "1 to 10000" }.raise();
    }
    value
}

/// A visibility timeout: 0 or more seconds.
pub fn visibility_timeout(argument: impl Into<Argument>, value: Option<i32>) -> i32 {
    let argument = argument.into();
    let value = required(argument, value);
    if value < 0 {
        Error::OutOfRange { argument, came: value.into(), allowed: "0 or more seconds" }.raise();
    }
    value
}

/// An array of items, one-dimensional and of at most 10,000, each of which passes the check of a single one.
pub fn each<A: Array, Checked>(
    argument: impl Into<Argument>,
    value: Option<A>,
    check: impl Fn(Argument, Option<A::Element>) -> Checked,
) -> A {
    let argument = argument.into();
    let array = required(argument, value).in_memory();
    if array.dimensions() > 1 {
        Error::Dimensions { argument }.raise();
    }
    if array.count() > BATCH as usize {
        Error::TooMany { argument, limit: BATCH as usize, count: array.count() }.raise();
    }
    let elements = array.elements();
    for i in 0..elements.count() {
        check(argument.element(i + 1), elements.get(i));
    }
    array
}

/// Two arrays that hold one element each for every item.
pub fn same_length(argument: &'static str, array: impl Array, other: &'static str, others: impl Array) {
    let (count, other_count) = (array.count(), others.count());
    if count != other_count {
        Error::Lengths { argument: argument.into(), count, other: other.into(), others: other_count }.raise();
    }
}

/// What pgmq takes as a routing key, checked here first so that the error names the argument.
pub fn topic<T: Characters>(argument: impl Into<Argument>, value: Option<T>) -> T {
    let argument = argument.into();
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
