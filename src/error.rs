//! Every error that hfs_lite raises: its SQLSTATE, message, detail and hint. PostgreSQL's and pgmq's own errors are not
//! here; they pass through untouched.

use crate::argument::Argument;
use crate::statement::{self, CText, ContextLine};

/// An error of ours. `argument` is what the caller knows it by; `came` is what the caller passed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub enum Error<'a> {
    #[error("{argument} must not be NULL")]
    Null { argument: Argument },
    #[error("{argument} must not hold a NULL")]
    NullElement { argument: Argument },
    #[error("{argument} must not be empty")]
    Empty { argument: Argument },
    #[error("{argument} is longer than {limit} characters")]
    TooLong { argument: Argument, limit: usize, length: usize },
    #[error("{argument} is not allowed: {}", Cut(.came))]
    NotAllowed { argument: Argument, came: &'a str, allowed: &'a str },
    #[error("{argument} is out of range: {came}")]
    OutOfRange { argument: Argument, came: i64, allowed: &'a str },
    #[error("{argument} must be a finite instant")]
    NotFinite { argument: Argument },
    #[error("{argument} must be an array of one dimension")]
    Dimensions { argument: Argument },
    #[error("{argument} has more than {limit} elements")]
    TooMany { argument: Argument, limit: usize, count: usize },
    #[error("{argument} and {other} must be of one length")]
    Lengths { argument: Argument, count: usize, other: Argument, others: usize },
    #[error("p_lease_end must be later than {now}")]
    LeaseEnded { now: &'a str },
    #[error("p_outcome must not be JSON null")]
    NullOutcome,
    /// `path` is where in the argument, as PostgreSQL writes a path: `{payload,dedupeKey}`.
    #[error("{argument}{} {rule}; {}", Path(.path), Came(.came))]
    Part { argument: Argument, path: &'a str, rule: &'a str, came: Option<&'a str> },
    #[error("p_topic {} and p_consumer {} make a queue name of {length} characters, {} at most", Cut(.topic), Cut(.consumer), QUEUE_NAME)]
    QueueNameTooLong { topic: &'a str, consumer: &'a str, length: usize },
    #[error("a number in {argument} is larger than a double can hold: {}", Cut(.number))]
    NumberTooLarge { argument: Argument, number: &'a str },
    #[error("p_queue names no queue: {}", Cut(.queue))]
    NoQueue { queue: &'a str },
    #[error("p_queue has no dead-letter queue: {}", Cut(.queue))]
    NoDeadLetterQueue { queue: &'a str },
    #[error("p_idempotency_key was used with another request: {}", Cut(.key))]
    KeyReused { key: &'a str, inbox_source: &'a str },
    #[error("public.inbox kept no row of the claim in {rounds} tries: {}", Cut(.event_id))]
    ClaimVanishes { event_id: &'a str, rounds: usize },
    #[error("p_role must not be given rights on hfs_lite: {}", Cut(.role))]
    RoleBarred { role: &'a str, barred: &'a str },
    #[error("p_role names no role: {}", Cut(.role))]
    NoRole { role: &'a str },
    #[error("only the extension's owner or a superuser may grant or revoke rights on hfs_lite")]
    NotOwner,
    #[error("parameter \"{name}\" cannot be set for a session")]
    SettingOfSession { name: &'a str },
}

/// What pgmq allows for a queue's name (47), less `__dead`.
pub const QUEUE_NAME: usize = 41;

impl Error<'_> {
    fn sqlstate(self) -> &'static [u8; 5] {
        match self {
            Error::Null { .. } | Error::NullElement { .. } => b"22004",
            Error::Empty { .. }
            | Error::NotAllowed { .. }
            | Error::OutOfRange { .. }
            | Error::NotFinite { .. }
            | Error::Dimensions { .. }
            | Error::TooMany { .. }
            | Error::Lengths { .. }
            | Error::LeaseEnded { .. }
            | Error::NullOutcome
            | Error::Part { .. }
            | Error::QueueNameTooLong { .. }
            | Error::RoleBarred { .. } => b"22023",
            Error::TooLong { .. } => b"22001",
            Error::NumberTooLarge { .. } => b"22003",
            Error::NoQueue { .. } | Error::NoDeadLetterQueue { .. } | Error::NoRole { .. } => b"42704",
            // Class LT is this extension's own: the standard leaves classes that begin with I to Z to implementations.
            Error::KeyReused { .. } => b"LT001",
            Error::NotOwner => b"42501",
            Error::ClaimVanishes { .. } => b"55000",
            Error::SettingOfSession { .. } => b"55P02",
        }
    }

    fn detail(self) -> Option<String> {
        match self {
            Error::TooLong { length, .. } => Some(format!("It has {length} characters.")),
            Error::NotAllowed { came, .. } => Some(format!("It has {} characters.", came.chars().count())),
            Error::TooMany { count, .. } => Some(format!("It has {count} elements.")),
            Error::Lengths { argument, count, other, others } => {
                Some(format!("{argument} has {count} elements, {other} has {others}."))
            }
            Error::KeyReused { inbox_source, .. } => {
                Some(format!("The receipt of source {} holds another request's fingerprint.", Cut(&inbox_source)))
            }
            _ => None,
        }
    }

    fn hint(self) -> String {
        match self {
            Error::Null { argument } => format!("Pass a value for {argument}."),
            Error::NullElement { argument } => format!("Leave the NULLs out of {argument}."),
            Error::Empty { argument } => format!("Pass at least one character for {argument}."),
            Error::TooLong { limit, .. } => format!("Shorten it to {limit} characters, or pass a digest of it."),
            Error::NotAllowed { allowed, .. } => format!("Allowed: {allowed}."),
            Error::OutOfRange { allowed, .. } => format!("Allowed: {allowed}."),
            Error::NotFinite { .. } => "Pass an instant that is neither infinity nor -infinity.".into(),
            Error::Dimensions { .. } => "Pass a plain array, as in '{a,b}'.".into(),
            Error::TooMany { limit, .. } => format!("Make several calls, of at most {limit} items each."),
            Error::Lengths { .. } => "Pass one element of each for every item.".into(),
            Error::LeaseEnded { .. } => {
                "Let the lease end after p_now, or after the database's clock where p_now is NULL.".into()
            }
            Error::NullOutcome => {
                "Wrap it, as {\"value\": null}: a driver could not tell a bare null from no outcome.".into()
            }
            Error::Part { .. } => "An envelope is {\"eventId\", \"eventName\", \"payload\": {\"dedupeKey\", ...}, \
                \"metadata\": {\"correlationId\"}}; only payload and its dedupeKey must be there."
                .into(),
            Error::QueueNameTooLong { .. } => format!(
                "A queue is named <topic>__<consumer>; pgmq allows 47 characters, and {QUEUE_NAME} leave room for __dead. \
                 Shorten the consumer's name."
            ),
            Error::NumberTooLarge { .. } => "Send it as a string: JavaScript reads it as Infinity.".into(),
            Error::NoQueue { queue } => format!(
                "Create it with SELECT pgmq.create('{0}'), or with event_bus_subscribe, which binds it to its topic too.",
                Cut(&literal(queue).as_str())
            ),
            Error::NoDeadLetterQueue { queue } if queue.chars().count() > QUEUE_NAME => format!(
                "Its name leaves no room for __dead in the 47 characters that pgmq allows: move to a queue of at most \
                 {QUEUE_NAME} characters."
            ),
            Error::NoDeadLetterQueue { queue } => {
                format!(
                    "Create it with SELECT pgmq.create('{}__dead'), or both with event_bus_subscribe.",
                    Cut(&literal(queue).as_str())
                )
            }
            Error::KeyReused { .. } => {
                "Send a new idempotency key, or the request that the key was first used with.".into()
            }
            Error::ClaimVanishes { .. } => {
                "A trigger on public.inbox keeps its rows out: drop it, or let it return NEW.".into()
            }
            Error::RoleBarred { barred, .. } => {
                format!("{barred} is open to browsers: grant to the role of a back end that {barred} is no member of.")
            }
            Error::NoRole { .. } => "Create the role first, or pass its name as pg_roles shows it.".into(),
            Error::SettingOfSession { name } => format!(
                "Take {name} out of the connection's options, and out of ALTER ROLE and ALTER DATABASE ... SET: it stands in \
                 the server's configuration only."
            ),
            Error::NotOwner => "Call it as the role that created the extension, or as another superuser.".into(),
        }
    }

    /// Raises the error; the call that was made changes nothing.
    pub fn raise(self) -> ! {
        // Each String is dropped at the end of its line: nothing but Copy values is left when PostgreSQL jumps.
        let message = CText::new(&self.to_string());
        let detail = self.detail().map(|detail| CText::new(&detail));
        let hint = CText::new(&self.hint());
        statement::raise(*self.sqlstate(), message, detail, Some(hint))
    }
}

/// Says, without failing, that a subscriber's copy of an event was not sent because its queue's table is gone.
pub fn warn_queue_without_table(queue: &str) {
    let message = CText::new(&format!("no copy of the event was sent to queue {queue}: its table is gone"));
    let hint = CText::new(&format!(
        "Make it again with SELECT pgmq.create('{}'), or unbind it from the topic.",
        literal(queue)
    ));
    statement::warn(*b"42P01", message, hint);
}

/// What was being done when an event could not be sent: whose queue it is, and how its publishers go on without it.
pub fn while_sending<'a>(topic: &'a str, queue: &'a str) -> ContextLine<'a> {
    let format = c"sending an event of topic %.*s to queue %.*s; if the queue is broken, mend it, or unbind it with \
        pgmq.unbind_topic from what pgmq.list_topic_bindings shows of it";
    ContextLine { format, texts: [topic, queue] }
}

/// What stands between the quotes of an SQL literal.
fn literal(text: &str) -> String {
    text.replace('\'', "''")
}

/// A caller's text, cut to 100 characters.
struct Cut<'a, 'b>(&'a &'b str);

impl std::fmt::Display for Cut<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.char_indices().nth(100) {
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
            None => f.write_str(self.0),
        }
    }
}

/// What came at a path; a field that is not there is missing.
struct Came<'a, 'b>(&'a Option<&'b str>);

impl std::fmt::Display for Came<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(came) => write!(f, "it is {}", Cut(came)),
            None => f.write_str("it is missing"),
        }
    }
}

/// A path behind an argument's name: `{payload,dedupeKey}` as `.payload.dedupeKey`.
struct Path<'a, 'b>(&'a &'b str);

impl std::fmt::Display for Path<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.trim_matches(['{', '}']).split(',').filter(|name| !name.is_empty());
        names.into_iter().try_for_each(|name| write!(f, ".{name}"))
    }
}
