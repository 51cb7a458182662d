//! The event bus, on pgmq's topics: an event is sent to every queue bound to its name, and each consumer reads a queue of its
//! own. Where pgmq checks no lease, `read_ct` is the fencing token: a later delivery has a higher one.
//!
//! The statements name pgmq's columns and never its types: an update of pgmq drops its types with CASCADE.

use crate::argument::{self, Argument, NAME, NO_CONTROLS, ROUTING_KEY};
use crate::error::{self, Error};
use crate::statement::index::{Direction, Index, Key, Locked};
use crate::statement::{
    Array, Bigints, Call, Characters, Column, Field, Fields, Instant, Integers, Jsonb, Jsonbs, Object, Queue,
    QueueStatement, Saved, Statement, TableIterator, Text, Varchar, refuse_read_only,
};
use pgrx::pg_sys::{INT4ARRAYOID, INT4OID, INT8ARRAYOID, INT8OID, JSONBARRAYOID, JSONBOID, TEXTOID, TIMESTAMPTZOID};
use pgrx::prelude::*;

// Every binding by its head: a literal one's is the topic itself, a wildcard's what stands before its first wildcard, and `*`.
// So a topic asks for as many heads as it has characters, and meets no binding but those that may match.
static BINDINGS: Index = Index {
    schema: c"pgmq",
    table: c"topic_bindings",
    name: c"hfs_lite_topic_heads_idx",
    locked: Locked::ToRead,
    columns: &[(c"regexp_replace", TEXTOID)],
};

// The same where that index is missing: before the extension's update to 0.3.0, or if an update of pgmq makes its table anew. In
// the order of names, so that two publishers meet queues in one order.
static ROUTE: Statement =
    Statement::new(c"select distinct b.queue_name::text from pgmq.test_routing($1) b order by 1", &[TEXTOID]);

// What came, for an error: the part of an argument at a path, as JSON.
static PART: Statement = Statement::new(c"select ($1 #> $2::text[])::text", &[JSONBOID, TEXTOID]);

static TABLE: Statement =
    Statement::new(c"select lower('q_' || m.queue_name) from pgmq.meta m where m.queue_name = $1", &[TEXTOID]);

static SEND: QueueStatement =
    QueueStatement::new("insert into {queue} (vt, message) values ($1, $2)", &[TIMESTAMPTZOID, JSONBOID])
        .or_by_pgmq("select pgmq.send({name}, $2, null::jsonb, $1)");

// Each becomes visible at an instant of its own. Equal ones would share an entry of the index by vt, and whoever reads one message
// would have to pass those of the entry that are gone already.
static SEND_MANY: QueueStatement = QueueStatement::new(
    "insert into {queue} (vt, message)
     select clock_timestamp(), i.message from unnest($1) with ordinality i (message, place) order by i.place",
    &[JSONBARRAYOID],
)
.or_by_pgmq("select pgmq.send_batch({name}, $1, null::jsonb[], clock_timestamp())");

// The instant is a parameter: a volatile clock_timestamp() could not be an index condition. The array is computed once,
// whatever the plan, so never more than the limit are taken.
static READ: QueueStatement = QueueStatement::new(
    "with taken as (
       update {queue} set vt = $2, read_ct = read_ct + 1, last_read_at = $1
        where msg_id = any (array(
          select m.msg_id from {queue} m where m.vt <= $1 order by m.vt limit $3 for update skip locked))
       returning msg_id, read_ct, enqueued_at, vt, message, headers)
     select msg_id, read_ct, enqueued_at, vt, message, headers from taken order by msg_id",
    &[TIMESTAMPTZOID, TIMESTAMPTZOID, INT4OID],
)
.or_by_pgmq(
    "select r.msg_id, r.read_ct, r.enqueued_at, r.vt, r.message, r.headers
       from pgmq.read({name}, extract(epoch from $2 - $1)::integer, $3, '{}'::jsonb) r
      order by r.msg_id",
);

// The same for one message, which needs no order.
static READ_ONE: QueueStatement = QueueStatement::new(
    "update {queue} set vt = $2, read_ct = read_ct + 1, last_read_at = $1
      where msg_id = any (array(
        select m.msg_id from {queue} m where m.vt <= $1 order by m.vt limit 1 for update skip locked))
     returning msg_id, read_ct, enqueued_at, vt, message, headers",
    &[TIMESTAMPTZOID, TIMESTAMPTZOID],
)
.or_by_pgmq(
    "select r.msg_id, r.read_ct, r.enqueued_at, r.vt, r.message, r.headers
       from pgmq.read({name}, extract(epoch from $2 - $1)::integer, 1, '{}'::jsonb) r",
);

// By pgmq's functions, the OFFSET keeps the row locked before it is moved: without, the function would be called first.
static ARCHIVE: QueueStatement = QueueStatement::new(
    "with gone as (
       delete from {queue} where msg_id = $1 and ($2 is null or read_ct = $2)
       returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
     insert into {archive} (msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message, headers)
     select msg_id, read_ct, enqueued_at, last_read_at, $3, vt, message, headers from gone
     returning msg_id",
    &[INT8OID, INT4OID, TIMESTAMPTZOID],
)
.or_by_pgmq(
    "select h.msg_id
       from (select q.msg_id from {queue} q
              where q.msg_id = $1 and ($2 is null or q.read_ct = $2) for update offset 0) h
      where pgmq.archive({name}, h.msg_id)",
);

// The messages that their deliveries still hold are locked in the order of their ids: two calls that name the same ones wait for
// each other and never deadlock. A refused item locks nothing. The IN is hashed, and the scalar subquery
// is a look into the primary key, whatever the planner thinks of how many items there are.
static ARCHIVE_MANY: QueueStatement = QueueStatement::new(
    "with gone as (
       delete from {queue} where msg_id = any (array(
         select h.msg_id
           from (select distinct u.msg_id, u.read_ct from unnest($1, $2) u (msg_id, read_ct) order by 1, 2) i
          cross join lateral (
            select q.msg_id from {queue} q where q.msg_id = i.msg_id and q.read_ct = i.read_ct for update) h))
       returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers),
     kept as (
       insert into {archive} (msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message, headers)
       select msg_id, read_ct, enqueued_at, last_read_at, $3, vt, message, headers from gone)
     select i.msg_id, case when (i.msg_id, i.read_ct) in (select g.msg_id, g.read_ct from gone g) then 'done'
                           else coalesce((select 'stale' from {queue} s where s.msg_id = i.msg_id), 'unknown') end
       from unnest($1, $2) with ordinality i (msg_id, read_ct, place)
      order by i.place",
    &[INT8ARRAYOID, INT4ARRAYOID, TIMESTAMPTZOID],
)
.or_by_pgmq(
    "with gone as materialized (
       select h.msg_id, h.read_ct
         from (select q.msg_id, q.read_ct
                 from (select distinct u.msg_id, u.read_ct from unnest($1, $2) u (msg_id, read_ct) order by 1, 2) i
                cross join lateral (
                  select q.msg_id, q.read_ct from {queue} q
                   where q.msg_id = i.msg_id and q.read_ct = i.read_ct for update) q
               offset 0) h
        where pgmq.archive({name}, h.msg_id))
     select i.msg_id, case when (i.msg_id, i.read_ct) in (select g.msg_id, g.read_ct from gone g) then 'done'
                           else coalesce((select 'stale' from {queue} s where s.msg_id = i.msg_id), 'unknown') end
       from unnest($1, $2) with ordinality i (msg_id, read_ct, place)
      order by i.place",
);

// One that was overtaken by a later one shortens nothing.
static EXTEND: QueueStatement = QueueStatement::new(
    "update {queue} set vt = greatest(vt, $3) where msg_id = $1 and read_ct = $2 returning msg_id, vt",
    &[INT8OID, INT4OID, TIMESTAMPTZOID],
)
.or_by_pgmq(
    "select r.msg_id, r.vt
       from (select q.msg_id, greatest(q.vt, $3) as vt from {queue} q
              where q.msg_id = $1 and q.read_ct = $2 for update offset 0) h
      cross join lateral pgmq.set_vt({name}, h.msg_id, h.vt) r",
);

// What the note in a message's headers says. It is read with care: anyone who may call pgmq.send can write headers, and a
// message that could not be buried would be delivered for ever. A time of day, which jsonpath reads as a datetime too, is no
// instant.
macro_rules! noted_instant {
    ($headers:literal, $field:literal) => {
        concat!(
            "(jsonb_path_query_first_tz(",
            $headers,
            ", '$.hfs_lite.",
            $field,
            ".datetime() ? (@.type() == \"timestamp with time zone\")', '{}', true) #>> '{}')::timestamptz"
        )
    };
}
macro_rules! noted_count {
    ($headers:literal, $field:literal) => {
        concat!("substring(", $headers, " -> 'hfs_lite' ->> '", $field, "' from '^[0-9]{1,9}$')::integer")
    };
}

// A moved message's headers: its own, and a note of these fields. Headers are an object wherever ours are concerned; others,
// which pgmq allows, are kept inside the note.
macro_rules! headers_with_note {
    ($fields:literal) => {
        concat!(
            "case when jsonb_typeof(g.headers) = 'object' then g.headers else '{}' end || jsonb_build_object('hfs_lite',
               case when jsonb_typeof(g.headers) <> 'object' then jsonb_build_object('headers', g.headers)
                    when g.headers - 'hfs_lite' = '{}' and g.headers #> '{hfs_lite,headers}' is not null
                    then jsonb_build_object('headers', g.headers #> '{hfs_lite,headers}') else '{}' end ||
               jsonb_build_object(", $fields, "))"
        )
    };
}

// What a message, moved before or not, has noted.
macro_rules! noted {
    () => {
        concat!(
            "cross join lateral (
               select coalesce(",
            noted_instant!("g.headers", "first_enqueued_at"),
            ", g.enqueued_at) as first_enqueued_at,
                      coalesce(",
            noted_count!("g.headers", "requeues"),
            ", 0) as requeues) n"
        )
    };
}

// A dead letter's headers, and those of a message that is back in its queue.
macro_rules! buried {
    () => {
        headers_with_note!(
            "'source_msg_id', g.msg_id, 'attempts', g.read_ct, 'first_enqueued_at', n.first_enqueued_at,
             'buried_at', $3, 'reason', $4, 'requeues', n.requeues"
        )
    };
}
macro_rules! requeued {
    () => {
        headers_with_note!("'first_enqueued_at', n.first_enqueued_at, 'requeues', n.requeues + 1")
    };
}

static BURY: QueueStatement = QueueStatement::new(
    concat!(
        "with gone as (
           delete from {queue} where msg_id = $1 and ($2 is null or read_ct = $2)
           returning msg_id, read_ct, enqueued_at, message, headers)
         insert into {dead} (vt, message, headers)
         select $3, g.message, ",
        buried!(),
        " from gone g ",
        noted!(),
        " returning msg_id"
    ),
    &[INT8OID, INT4OID, TIMESTAMPTZOID, TEXTOID],
)
.or_by_pgmq(concat!(
    "select d.msg_id
       from (select q.msg_id, q.read_ct, q.enqueued_at, q.message, q.headers from {queue} q
              where q.msg_id = $1 and ($2 is null or q.read_ct = $2) for update offset 0) g ",
    noted!(),
    " cross join lateral pgmq.send({name} || '__dead', g.message, ",
    buried!(),
    ", $3) d (msg_id)
      where pgmq.delete({name}, g.msg_id)"
));

static REQUEUE: QueueStatement = QueueStatement::new(
    concat!(
        "with gone as (delete from {dead} where msg_id = $1 returning enqueued_at, message, headers)
         insert into {queue} (vt, message, headers)
         select $2, g.message, ",
        requeued!(),
        " from gone g ",
        noted!(),
        " returning msg_id"
    ),
    &[INT8OID, TIMESTAMPTZOID],
)
.or_by_pgmq(concat!(
    "select s.msg_id
       from (select d.msg_id, d.enqueued_at, d.message, d.headers from {dead} d
              where d.msg_id = $1 for update offset 0) g ",
    noted!(),
    " cross join lateral pgmq.send({name}, g.message, ",
    requeued!(),
    ", $2) s (msg_id)
      where pgmq.delete({name} || '__dead', g.msg_id)"
));

macro_rules! dead_letters {
    ($first:literal) => {
        concat!(
            "select ",
            $first,
            "d.msg_id, coalesce(",
            noted_count!("d.headers", "attempts"),
            ", 0), coalesce(",
            noted_instant!("d.headers", "first_enqueued_at"),
            ", d.enqueued_at), coalesce(",
            noted_instant!("d.headers", "buried_at"),
            ", d.enqueued_at), d.headers -> 'hfs_lite' ->> 'reason', d.message,
             case when jsonb_typeof(d.headers) = 'object'
                  then coalesce(nullif(d.headers - 'hfs_lite', '{}'), d.headers -> 'hfs_lite' -> 'headers') else d.headers end
               from {queue} d
              order by d.msg_id
              limit $1"
        )
    };
}
static DEAD_LETTERS: QueueStatement = QueueStatement::new(dead_letters!(""), &[INT4OID]);
static ALL_DEAD_LETTERS: QueueStatement = QueueStatement::new(dead_letters!("$2, "), &[INT4OID, TEXTOID]);

static DEAD_LETTER_QUEUES: Statement = Statement::new(
    c"select left(m.queue_name, -6)::text from pgmq.meta m where m.queue_name like '%_\\_\\_dead' order by 1",
    &[],
);

static SWEEP: QueueStatement = QueueStatement::new(
    "with gone as (
       delete from {archive} where ctid = any (array(
         select a.ctid from {archive} a
          where a.archived_at < $1
          order by a.archived_at
          limit $2
            for update skip locked))
       returning 1)
     select count(*)::integer from gone",
    &[TIMESTAMPTZOID, INT4OID],
);

/// Sends an envelope to every queue bound to a topic, in the caller's transaction: rolled back, nothing was sent.
///
/// p_topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters. p_envelope:
/// a JSON object; its payload is an object with a non-empty string dedupeKey; where present, eventName is the topic,
/// eventId a string of 1 to 200 characters, and metadata an object whose correlationId, where present, is a string of 1
/// to 200 characters without control characters. Other fields pass untouched.
/// Answers one row with the number of queues it was sent to; 0 where none is bound. A bound queue whose table is gone
/// is passed over with a warning (42P01).
/// Errors: 22004 for NULL, 22023 for a topic or an envelope that breaks these rules, 22001 for a topic over its width.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer, name = "event_bus_send")]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_send_envelope(
    p_topic: Option<Text>,
    p_envelope: Option<Jsonb>,
    call: Call,
) -> TableIterator<'static, (name!(queues, i32),)> {
    let topic = argument::topic("p_topic", p_topic);
    let envelope = argument::required("p_envelope", p_envelope).in_memory();
    check_envelope("p_envelope".into(), topic.as_str(), envelope);
    send(topic, envelope, call)
}

/// Sends an event to every queue bound to its name, in the caller's transaction; the envelope {"eventId", "eventName",
/// "payload", "metadata": {"correlationId"}} is built inside, without metadata where the correlation id is NULL.
///
/// p_event_id: the event's id, 1 to 200 characters. p_event_name: its name, which is the topic: letters, digits, '.',
/// '_' and '-'; no '.' first, last or twice running; at most 255 characters. p_payload: a JSON object with a non-empty
/// string dedupeKey. p_correlation_id: NULL, or 1 to 200 characters without control characters.
/// Answers one row with the number of queues it was sent to; 0 where none is bound. A bound queue whose table is gone
/// is passed over with a warning (42P01).
/// Errors: 22004 for a NULL id, name or payload, 22023 for a value that breaks these rules, 22001 for text over its
/// width.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_send(
    p_event_id: Option<Text>,
    p_event_name: Option<Text>,
    p_payload: Option<Jsonb>,
    p_correlation_id: Option<Varchar>,
    call: Call,
) -> TableIterator<'static, (name!(queues, i32),)> {
    let event_id = argument::text("p_event_id", p_event_id, NAME);
    let topic = argument::topic("p_event_name", p_event_name);
    let payload = argument::required("p_payload", p_payload).in_memory();
    Part { argument: "p_payload".into(), value: payload }.check_payload("{}", payload.as_object());
    let correlation_id = argument::correlation_id("p_correlation_id", p_correlation_id);
    let mut envelope = Object::new();
    envelope.string("eventId", event_id.as_str());
    envelope.string("eventName", topic.as_str());
    envelope.container("payload", payload);
    if let Some(id) = correlation_id {
        envelope.object("metadata", |metadata| metadata.string("correlationId", id.as_str()));
    }
    send(topic, envelope.done(), call)
}

/// Sends many envelopes to every queue bound to a topic, in the caller's transaction; each as event_bus_send does. All of
/// them are checked before any is sent, and a queue has them in the order in which they were passed.
///
/// p_topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters.
/// p_envelopes: at most 10,000, each as event_bus_send takes it.
/// Answers one row with the number of queues that they were sent to; 0 where none is bound. No row: the array was empty.
/// A bound queue whose table is gone is passed over with a warning (42P01).
/// Errors: 22004 for NULL, also inside the array, 22023 for a topic or an envelope that breaks these rules, an array of
/// more than one dimension or of more than 10,000 elements, 22001 for a topic over its width; a message names the element
/// as p_envelopes[3], counted from 1.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_send_many(
    p_topic: Option<Text>,
    p_envelopes: Option<Jsonbs>,
    call: Call,
) -> TableIterator<'static, (name!(queues, i32),)> {
    let topic = argument::topic("p_topic", p_topic);
    let envelopes = argument::each("p_envelopes", p_envelopes, |element, envelope| {
        check_envelope(element, topic.as_str(), argument::required(element, envelope).in_memory());
    });
    refuse_read_only(c"event_bus_send_many()");
    if envelopes.count() > 0 {
        let queues = to_bound_queues(topic, |queue| SEND_MANY.on(queue).run([envelopes.into()]));
        call.row([queues.into()]);
    }
    call.done()
}

fn send(topic: Text, envelope: Jsonb, call: Call) -> TableIterator<'static, (name!(queues, i32),)> {
    refuse_read_only(c"event_bus_send()");
    let now = Instant::now();
    let queues = to_bound_queues(topic, |queue| SEND.on(queue).run([now.into(), envelope.into()]));
    call.row([queues.into()]);
    call.done()
}

/// Does the same to every queue that is bound to a topic; how many they were.
fn to_bound_queues(topic: Text, send: impl Fn(Queue) -> u64) -> i32 {
    let names = match bound_by_head(topic) {
        Some(names) => names,
        None => ROUTE.column([topic.into()]),
    };
    let mut queues = 0;
    for name in names.texts() {
        match find(name).filter(|queue| queue.exists()) {
            Some(queue) => {
                error::while_sending(topic.as_str(), name.as_str()).around(|| send(queue));
                queues += 1;
            }
            // One subscriber's broken queue must not fail every publisher's business.
            None => error::warn_queue_without_table(name.as_str()),
        }
    }
    queues
}

/// The queues bound to a topic, each once, in the order of their names; None where the index can't say.
fn bound_by_head(topic: Text) -> Option<Column> {
    let key = topic.as_str();
    // In the order of the index, so that PostgreSQL need not sort them: '*' is less than all that a topic may hold.
    let mut heads = [topic; ROUTING_KEY + 2];
    let mut beginning = [b'*'; ROUTING_KEY + 1];
    for (length, letter) in key.bytes().enumerate() {
        heads[length] = Text::new(std::str::from_utf8(&beginning[..=length]).ok()?);
        beginning[length] = letter;
    }
    heads[key.len() + 1] = Text::new(std::str::from_utf8(&beginning[..=key.len()]).ok()?);
    let look = BINDINGS.look([Key::any_of(heads.get(..key.len() + 2)?)])?;
    let mut names = Some(Column::new());
    while let (Some(row), Some(found)) = (look.next(Direction::Forward), &mut names) {
        match (row.text(c"pattern"), row.text(c"queue_name"), row.text(c"compiled_regex")) {
            (Some(pattern), Some(queue), Some(regex)) => {
                if pattern == key || may_match(pattern, key) && topic.matches(Text::new(regex)) {
                    found.push(Text::new(queue).into());
                }
            }
            _ => names = None,
        }
    }
    look.close();
    names.map(Column::distinct_texts)
}

/// Whether a pattern may match a topic, told without its regular expression, of which PostgreSQL keeps no more than 32
/// compiled: whether what stands between its wildcards stands in the topic, in that order.
fn may_match(pattern: &str, topic: &str) -> bool {
    let mut literals = pattern.split(['*', '#']);
    let (Some(first), Some(last)) = (literals.next(), literals.next_back()) else { return false };
    let Some(mut rest) = topic.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    literals.all(|literal| match rest.find(literal) {
        Some(at) => {
            rest = &rest[at + literal.len()..];
            true
        }
        None => false,
    })
}

/// Checks an envelope; fields that the contract does not name pass untouched.
fn check_envelope(argument: Argument, topic: &str, envelope: Jsonb) {
    let part = Part { argument, value: envelope };
    let Some(fields) = envelope.as_object() else { part.refuse("{}", "must be a JSON object") };
    match fields.get("payload") {
        Field::Object(payload) => part.check_payload("{payload}", Some(payload)),
        _ => part.check_payload("{payload}", None),
    }
    match fields.get("eventName") {
        Field::Missing => {}
        Field::String(name) if name == topic => {}
        _ => part.refuse("{eventName}", "must be the topic, where it is present"),
    }
    match fields.get("eventId") {
        Field::Missing => {}
        Field::String(id) if !id.is_empty() && at_most(id, NAME) => {}
        _ => part.refuse("{eventId}", "must be a string of 1 to 200 characters, where it is present"),
    }
    match fields.get("metadata") {
        Field::Missing => {}
        Field::Object(metadata) => match metadata.get("correlationId") {
            Field::Missing => {}
            Field::String(id) if !id.is_empty() && at_most(id, NAME) => {
                if id.contains(char::is_control) {
                    let argument = argument.part(", metadata.correlationId");
                    Error::NotAllowed { argument, came: id, allowed: NO_CONTROLS }.raise();
                }
            }
            _ => {
                part.refuse("{metadata,correlationId}", "must be a string of 1 to 200 characters, where it is present")
            }
        },
        _ => part.refuse("{metadata}", "must be a JSON object, where it is present"),
    }
}

fn at_most(text: &str, characters: usize) -> bool {
    text.len() <= characters || text.chars().count() <= characters
}

/// A JSON argument, for errors about a part of it.
#[derive(Clone, Copy)]
struct Part {
    argument: Argument,
    value: Jsonb,
}

impl Part {
    /// The payload of an event: an object with a non-empty `dedupeKey`. `path` is where it stands in the argument.
    fn check_payload(self, path: &str, payload: Option<Fields>) {
        let Some(payload) = payload else { self.refuse(path, "must be a JSON object") };
        match payload.get("dedupeKey") {
            Field::String(key) if !key.is_empty() => {}
            _ if path == "{}" => self.refuse("{dedupeKey}", "must be a non-empty string"),
            _ => self.refuse("{payload,dedupeKey}", "must be a non-empty string"),
        }
    }

    fn refuse(self, path: &str, rule: &'static str) -> ! {
        let came = PART.value([self.value.into(), Text::new(path).into()]).as_text();
        let came = came.as_ref().map(Characters::as_str);
        Error::Part { argument: self.argument, path, rule, came }.raise()
    }
}

/// Takes visible messages from a queue, those that became visible first, and hides them for a while. Commit it before
/// handling them: a delivery that is rolled back is not counted, and a message that always fails would come back for
/// ever.
///
/// p_queue: any queue that pgmq has. p_vt: the visibility timeout, 0 or more seconds. p_qty: how many messages at most,
/// 1 to 10,000.
/// Answers the messages by msg_id: msg_id, read_ct (how often it was delivered, this time counted; it is the fencing
/// token of this delivery), enqueued_at, vt (until when it is hidden), message and headers. No row: nothing is visible.
/// Errors: 22004 for NULL, 22023 for an empty name or out of range, 42704 for a queue that does not exist, 40001 from
/// PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn event_bus_read(
    p_queue: Option<Text>,
    p_vt: Option<i32>,
    p_qty: Option<i32>,
    call: Call,
) -> TableIterator<
    'static,
    (
        name!(msg_id, i64),
        name!(read_ct, i32),
        name!(enqueued_at, Instant),
        name!(vt, Instant),
        name!(message, Jsonb),
        name!(headers, Jsonb),
    ),
> {
    let queue = existing_queue(p_queue);
    let now = Instant::now();
    let until = hidden_until(now, p_vt);
    let quantity = argument::batch("p_qty", p_qty);
    match quantity {
        1 => call.answer(READ_ONE.on(queue), [now.into(), until.into()]),
        _ => call.answer(READ.on(queue), [now.into(), until.into(), quantity.into()]),
    }
}

/// Until when a visibility timeout hides a message.
fn hidden_until(now: Instant, timeout: Option<i32>) -> Instant {
    now.plus(i64::from(argument::visibility_timeout("p_vt", timeout)) * 1_000_000)
}

/// Ends a message as handled: out of the queue, into its archive, in one atomic move.
///
/// p_queue: any queue that pgmq has. p_msg_id: the message's id. p_read_ct: the read_ct of the delivery that handled
/// it; with it, the message goes only while that delivery still holds it. NULL: whoever holds it.
/// Answers one row with the message's id. No row: it is gone, or a later delivery holds it.
/// Errors: 22004 for a NULL queue or id, 22023 for an empty name, 42704 for a queue that does not exist, 40001 from
/// PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_archive(
    p_queue: Option<Text>,
    p_msg_id: Option<i64>,
    p_read_ct: default!(Option<i32>, "NULL"),
    call: Call,
) -> TableIterator<'static, (name!(msg_id, i64),)> {
    let queue = existing_queue(p_queue);
    let msg_id = argument::required("p_msg_id", p_msg_id);
    call.answer(ARCHIVE.on(queue), [msg_id.into(), p_read_ct.into(), Instant::now().into()])
}

/// Ends many messages as handled in one call, each as event_bus_archive does: if this delivery still holds it.
///
/// p_queue: any queue that pgmq has. p_msg_ids: the messages' ids, at most 10,000. p_read_cts: the read_ct of each one's
/// delivery.
/// Answers one row for each item, in their order: the message's id and a verdict. done: this call archived it. stale: a
/// later delivery holds it. unknown: it is not in the queue (any more). Equal items have one verdict. What another
/// call takes while this one waits for it may answer stale.
/// Errors: 22004 for NULL, also inside an array, 22023 for an empty name, arrays of two lengths, of more than one
/// dimension or of more than 10,000 elements; a message names the element as p_msg_ids[3], counted from 1. 42704 for a
/// queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_archive_many(
    p_queue: Option<Text>,
    p_msg_ids: Option<Bigints>,
    p_read_cts: Option<Integers>,
    call: Call,
) -> TableIterator<'static, (name!(msg_id, i64), name!(verdict, Text))> {
    let queue = existing_queue(p_queue);
    let msg_ids = argument::each("p_msg_ids", p_msg_ids, argument::required);
    let read_cts = argument::each("p_read_cts", p_read_cts, argument::required);
    argument::same_length("p_read_cts", read_cts, "p_msg_ids", msg_ids);
    call.answer(ARCHIVE_MANY.on(queue), [msg_ids.into(), read_cts.into(), Instant::now().into()])
}

/// Hides a message for longer, if this delivery still holds it; also where its timeout has ended and nobody has read it
/// since. A message never becomes visible earlier by it.
///
/// p_queue: any queue that pgmq has. p_msg_id: the message's id. p_read_ct: the read_ct of the delivery that works on it.
/// p_vt: for how many seconds from now on, 0 or more.
/// Answers one row with the message's id and vt (until when it is hidden now). No row: it is gone, or a later delivery
/// holds it; the caller must stop.
/// Errors: 22004 for NULL, 22023 for an empty name or a timeout below 0, 42704 for a queue that does not exist, 40001
/// from PostgreSQL above READ COMMITTED.
/// Since 0.3.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_extend(
    p_queue: Option<Text>,
    p_msg_id: Option<i64>,
    p_read_ct: Option<i32>,
    p_vt: Option<i32>,
    call: Call,
) -> TableIterator<'static, (name!(msg_id, i64), name!(vt, Instant))> {
    let queue = existing_queue(p_queue);
    let msg_id = argument::required("p_msg_id", p_msg_id);
    let read_ct = argument::required("p_read_ct", p_read_ct);
    let until = hidden_until(Instant::now(), p_vt);
    call.answer(EXTEND.on(queue), [msg_id.into(), read_ct.into(), until.into()])
}

/// Moves a message into the dead-letter queue `<queue>__dead`, with its headers, in one atomic move; twice, or by
/// several at once, makes one dead letter. A note stands in the dead letter's headers under the key hfs_lite:
/// source_msg_id, attempts (its read_ct), first_enqueued_at, buried_at, reason, requeues.
///
/// p_queue: any queue that pgmq has, and that has a dead-letter queue. p_msg_id: the message's id. p_reason: why; NULL,
/// or at least one character. p_read_ct: the read_ct of the delivery that gives up; with it, the message goes only
/// while that delivery still holds it. NULL: whoever holds it.
/// Answers one row with the dead letter's id. No row: the message is gone, or a later delivery holds it.
/// Errors: 22004 for a NULL queue or id, 22023 for an empty text, 42704 for a queue or a dead-letter queue that does
/// not exist, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_bury(
    p_queue: Option<Text>,
    p_msg_id: Option<i64>,
    p_reason: default!(Option<Text>, "NULL"),
    p_read_ct: default!(Option<i32>, "NULL"),
    call: Call,
) -> TableIterator<'static, (name!(msg_id, i64),)> {
    let queue = existing_queue_with_dead_letters(p_queue);
    let msg_id = argument::required("p_msg_id", p_msg_id);
    if p_reason.is_some() {
        argument::non_empty("p_reason", p_reason);
    }
    let args = [msg_id.into(), p_read_ct.into(), Instant::now().into(), p_reason.into()];
    call.answer(BURY.on(queue), args)
}

/// Shows the dead letters of a consumer's queue, oldest first; it hides and counts nothing.
///
/// p_queue: the consumer's queue, without __dead. p_limit: how many at most, 1 to 10,000; 100 unless given.
/// Answers for each dead letter: msg_id, attempts (how often it had been delivered), enqueued_at (when it was enqueued
/// the very first time), buried_at, reason, message, and headers as they were, without the note. A dead letter that
/// something else put there answers attempts 0, its own time and no reason.
/// Errors: 22004 for NULL, 22023 for an empty name or out of range, 42704 for a dead-letter queue that does not exist.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn event_bus_dead_letters(
    p_queue: Option<Text>,
    p_limit: default!(Option<i32>, "100"),
    call: Call,
) -> TableIterator<
    'static,
    (
        name!(msg_id, i64),
        name!(attempts, i32),
        name!(enqueued_at, Instant),
        name!(buried_at, Instant),
        name!(reason, Text),
        name!(message, Jsonb),
        name!(headers, Jsonb),
    ),
> {
    let queue = argument::non_empty("p_queue", p_queue);
    let limit = argument::batch("p_limit", p_limit);
    // Dead letters outlive their queue, so it is not asked for.
    match find(dead_letter_queue_of(queue)).filter(|dead| dead.exists()) {
        Some(dead) => call.answer(DEAD_LETTERS.on(dead), [limit.into()]),
        None => Error::NoDeadLetterQueue { queue: queue.as_str() }.raise(),
    }
}

/// Shows the dead letters of all queues, queue by queue in the order of their names, oldest first; it hides and counts
/// nothing. The view hfs_lite_dead_letters shows them with their ages in words.
///
/// p_limit: how many of each queue at most, 1 to 10,000; 100 unless given.
/// Answers the queue's name, without __dead, and what event_bus_dead_letters answers of it.
/// Errors: 22004 for NULL, 22023 out of range.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn event_bus_all_dead_letters(
    p_limit: default!(Option<i32>, "100"),
    call: Call,
) -> TableIterator<
    'static,
    (
        name!(queue, Text),
        name!(msg_id, i64),
        name!(attempts, i32),
        name!(enqueued_at, Instant),
        name!(buried_at, Instant),
        name!(reason, Text),
        name!(message, Jsonb),
        name!(headers, Jsonb),
    ),
> {
    let limit = argument::batch("p_limit", p_limit);
    let names = DEAD_LETTER_QUEUES.column([]);
    for name in names.texts() {
        if let Some(dead) = find(dead_letter_queue_of(name)).filter(|dead| dead.is_readable()) {
            ALL_DEAD_LETTERS.on(dead).rows(call, [limit.into(), name.into()]);
        }
    }
    call.done()
}

/// Moves one dead letter back into its queue, visible at once and with a fresh budget of deliveries, in one atomic
/// move. Its headers keep first_enqueued_at and requeues under the key hfs_lite, so that the next burial knows.
///
/// p_queue: the consumer's queue, without __dead. p_msg_id: the dead letter's id.
/// Answers one row with the message's new id. No row: there is no such dead letter (any more).
/// Errors: 22004 for NULL, 22023 for an empty name, 42704 for a queue or a dead-letter queue that does not exist, 40001
/// from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_requeue(
    p_queue: Option<Text>,
    p_msg_id: Option<i64>,
    call: Call,
) -> TableIterator<'static, (name!(msg_id, i64),)> {
    let queue = existing_queue_with_dead_letters(p_queue);
    let msg_id = argument::required("p_msg_id", p_msg_id);
    call.answer(REQUEUE.on(queue), [msg_id.into(), Instant::now().into()])
}

/// Deletes old messages from a queue's archive, oldest first, skipping locked ones; what is in the queue stays.
///
/// p_queue: any queue that pgmq has. p_cutoff: messages archived before this instant go. p_batch: how many at most, 1 to
/// 10,000.
/// Answers one row with the number of deleted messages.
/// Errors: 22004 for NULL, 22023 for an empty name, out of range or for an infinite instant, 42704 for a queue that does
/// not exist, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_sweep(
    p_queue: Option<Text>,
    p_cutoff: Option<Instant>,
    p_batch: Option<i32>,
    call: Call,
) -> TableIterator<'static, (name!(deleted_count, i32),)> {
    let queue = existing_queue(p_queue);
    let cutoff = argument::instant("p_cutoff", p_cutoff);
    let batch = argument::batch("p_batch", p_batch);
    call.answer(SWEEP.on(queue), [cutoff.into(), batch.into()])
}

pub fn dead_letter_queue_of(queue: Text) -> Text {
    Text::new(&format!("{}__dead", queue.as_str()))
}

/// The queue of this name that pgmq lists or that this backend has met, if there is one.
pub fn find(name: Text) -> Option<Queue> {
    Queue::met(name.as_str()).or_else(|| listed(name))
}

/// The queue of this name that pgmq lists, if there is one.
pub fn listed(name: Text) -> Option<Queue> {
    let table = TABLE.value([name.into()]).as_text()?;
    Some(Queue::remember(name.as_str(), table.as_str()))
}

fn existing_queue(queue: Option<Text>) -> Queue {
    let name = argument::non_empty("p_queue", queue);
    match find(name).filter(|queue| queue.exists()) {
        Some(queue) => queue,
        None => Error::NoQueue { queue: name.as_str() }.raise(),
    }
}

fn existing_queue_with_dead_letters(queue: Option<Text>) -> Queue {
    let found = existing_queue(queue);
    if !found.has_dead_letter_queue() {
        let name = queue.as_ref().map_or("", Characters::as_str);
        Error::NoDeadLetterQueue { queue: name }.raise();
    }
    found
}
