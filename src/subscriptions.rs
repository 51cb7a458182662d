//! Subscriptions of the event bus: which queue is bound to which topic. pgmq's bindings are what routes an event; each is also
//! recorded in a table of ours, since a parallel restore can lose pgmq's, and since only a record tells what is missing.

use crate::argument;
use crate::error::{Error, QUEUE_NAME};
use crate::event_bus::{dead_letter_queue_of, listed};
use crate::statement::{
    Call, Characters, Saved, Statement, TableIterator, Text, refuse_read_only, run_commands, snapshot_is_kept, sql,
};
use pgrx::pg_sys::TEXTOID;
use pgrx::prelude::*;

// Subscribing and unsubscribing look for two rows, the binding and its record, and must find both or neither: one waits for
// the other's commit.
static LOCK_QUEUE: Statement =
    Statement::new(c"select pg_advisory_xact_lock(hashtext('hfs_lite: subscription of ' || $1))", &[TEXTOID]);

static CREATE: Statement = Statement::new(c"select pgmq.create($1)", &[TEXTOID]);

static BIND: Statement = Statement::new(
    c"select pgmq.bind_topic($1, $2)
       where not exists (select from pgmq.topic_bindings b where b.pattern = $1 and b.queue_name = $2)",
    &[TEXTOID, TEXTOID],
);

// Above READ COMMITTED a binding is still seen that was ended since the snapshot. It cannot be locked: PostgreSQL's 40001.
static CHECK_BOUND: Statement = Statement::new(
    c"select from pgmq.topic_bindings b where b.pattern = $1 and b.queue_name = $2 for key share",
    &[TEXTOID, TEXTOID],
);

static RECORD: Statement = Statement::new(
    c"insert into public.event_bus_subscriptions (topic, queue) values ($1, $2) on conflict (topic, queue) do nothing",
    &[TEXTOID, TEXTOID],
);

// A database whose extension was not updated yet has none.
static HAS_RECORDS: Statement =
    Statement::new(c"select to_regclass('public.event_bus_subscriptions') is not null", &[]);

static UNSUBSCRIBE: Statement = Statement::new(
    c"with unbound as (
        delete from pgmq.topic_bindings where pattern = $1 and queue_name = $2 returning 1),
      forgotten as (
        delete from public.event_bus_subscriptions where topic = $1 and queue = $2 returning 1)
      select $1, $2 where exists (select from unbound) or exists (select from forgotten)",
    &[TEXTOID, TEXTOID],
);

static RECORD_BINDINGS: Statement = Statement::new(
    c"with recorded as (
        insert into public.event_bus_subscriptions (topic, queue)
        select b.pattern, b.queue_name from pgmq.topic_bindings b where $1 is null or b.queue_name = $1
        on conflict (topic, queue) do nothing
        returning topic::text, queue::text)
      select topic, queue from recorded order by queue, topic",
    &[TEXTOID],
);

// Before 1.11.1 pgmq has no bindings that a dump holds, or none at all: nothing else can be looked for.
static PGMQ_TOO_OLD: Statement = Statement::new(
    c"select extversion::text from pg_extension
       where extname = 'pgmq'
         and string_to_array(substring(extversion, '^[0-9.]*[0-9]'), '.')::integer[] < array[1, 11, 1]",
    &[],
);

// In the order in which they are to be mended: a queue must be there before it can be bound. pgmq.create takes a table that is
// there, with its messages, as the queue's. What pgmq would refuse as a name is nothing that a repair could mend.
macro_rules! problems {
    ($columns:literal, $condition:literal) => {
        concat!(
            "with listed as (
               select m.queue_name::text as queue, m.is_unlogged,
                      to_regclass(format('pgmq.%I', lower('q_' || m.queue_name))) as messages,
                      to_regclass(format('pgmq.%I', lower('a_' || m.queue_name))) as archive
                 from pgmq.meta m),
             bound as (select b.pattern::text as topic, b.queue_name::text as queue from pgmq.topic_bindings b),
             recorded as (select s.topic::text, s.queue::text from public.event_bus_subscriptions s),
             consumers as (select queue from bound union select queue from recorded),
             found (rank, problem, topic, queue, mend, repairable) as (
               select 0, 'pgmq_other_owner', null, null, 'leave hfs_lite, create pgmq anew as a superuser, and adopt again: see docs/security.md', false
                 from pg_extension p
                 join pg_roles r on r.oid = p.extowner and not r.rolsuper
                where p.extname = 'pgmq'
               union all
               select 1, 'missing_queue', null, c.queue, format('select pgmq.create(%L)', c.queue), true
                 from consumers c
                where not exists (select from listed l where l.queue = c.queue)
               union all
               select 2, 'missing_table', null, l.queue,
                      format('select pgmq.%s(%L)', case when l.is_unlogged then 'create_unlogged' else 'create' end, l.queue), true
                 from listed l
                where l.messages is null or l.archive is null
               union all
               select 3, 'missing_dead_letter_queue', null, c.queue,
                      case when char_length(c.queue) > 41
                           then 'its name leaves no room for __dead: subscribe a queue of at most 41 characters'
                           else format('select pgmq.create(%L)', c.queue || '__dead') end,
                      char_length(c.queue) <= 41
                 from consumers c
                where not exists (select from listed l where l.queue = c.queue || '__dead')
               union all
               select 4, 'missing_binding', r.topic, r.queue, format('select pgmq.bind_topic(%L, %L)', r.topic, r.queue),
                      r.topic ~ '^[A-Za-z0-9_#*-]+([.][A-Za-z0-9_#*-]+)*$'
                 from recorded r
                where not exists (select from bound b where b.topic = r.topic and b.queue = r.queue)
               union all
               select 5, 'unrecorded_subscription', b.topic, b.queue,
                      format('select * from public.event_bus_record(%L)', b.queue), false
                 from bound b
                where not exists (select from recorded r where r.topic = b.topic and r.queue = b.queue)
               union all
               select 6, 'orphaned_dead_letter_queue', null, l.queue, format('select pgmq.create(%L)', left(l.queue, -6)), false
                 from listed l
                where l.queue like '%_\\_\\_dead'
                  and not exists (select from listed o where o.queue = left(l.queue, -6))
                  and not exists (select from consumers c where c.queue = left(l.queue, -6))
               union all
               select 7, 'other_owner', null, l.queue, format('alter table %s owner to %I', c.oid::regclass, o.rolname), false
                 from listed l
                 join pg_class c on c.oid in (l.messages, l.archive)
                 join pg_extension e on e.extname = 'hfs_lite' and e.extowner <> c.relowner
                 join pg_roles o on o.oid = e.extowner
                where exists (select from consumers o where l.queue in (o.queue, o.queue || '__dead')))
             select ", $columns, "
               from (select rank, problem, topic, queue, mend,
                            repairable and char_length(queue) <= 47 and queue !~ '[$;'']|--' as repairable
                       from found) p
              where ", $condition
        )
    };
}

static PROBLEMS: Statement = Statement::new(
    sql!(problems!("problem, topic, queue, mend, repairable", "true order by rank, queue, topic, mend")),
    &[],
);

static REPAIRABLE: Statement =
    Statement::new(sql!(problems!("problem, topic, queue, mend", "repairable order by rank, queue, topic, mend")), &[]);

static MENDS: Statement =
    Statement::new(sql!(problems!("string_agg(mend, ';' order by rank, queue, topic, mend)", "repairable")), &[]);

// Two repairs at once would mend the same: the second one waits, and finds nothing.
static LOCK: Statement = Statement::new(c"select pg_advisory_xact_lock(hashtext('hfs_lite: event_bus_repair'))", &[]);

/// Creates a consumer's queue `<topic>__<consumer>` and its dead-letter queue `<topic>__<consumer>__dead`, and binds
/// the queue to the topic; what is there already stays as it is. The subscription is recorded in
/// event_bus_subscriptions, so that event_bus_check knows what must be there. It may be called any number of times, also
/// at once from many sessions.
///
/// p_topic: words of a-z and 0-9, a letter first, joined by single '.', '_' or '-'. p_consumer: the same without '.',
/// not 'dead', and not ending in _vt_idx, _pkey or _msg_id_seq. The queue's name has at most 41 characters.
/// Answers one row with the names of both queues.
/// Errors: 22004 for NULL, 22023 for a name that breaks these rules, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_subscribe(
    p_topic: Option<Text>,
    p_consumer: Option<Text>,
    call: Call,
) -> TableIterator<'static, (name!(queue, Text), name!(dead_letter_queue, Text))> {
    let topic = argument::non_empty("p_topic", p_topic);
    if !is_words(topic.as_str(), ".-_") {
        let allowed = "words of a-z and 0-9, a letter first, joined by single '.', '_' or '-'; with the consumer's name and \
                       the '__' between them at most 41 characters";
        Error::NotAllowed { argument: "p_topic".into(), came: topic.as_str(), allowed }.raise();
    }
    let consumer = argument::non_empty("p_consumer", p_consumer);
    let name = consumer.as_str();
    if !is_words(name, "-_") || name == "dead" || PGMQS_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        let allowed = "words of a-z and 0-9, a letter first, joined by single '_' or '-'; not 'dead', and not ending in \
                       _vt_idx, _pkey or _msg_id_seq; with the topic and the '__' between them at most 41 characters";
        Error::NotAllowed { argument: "p_consumer".into(), came: name, allowed }.raise();
    }
    let length = topic.as_str().len() + "__".len() + name.len();
    if length > QUEUE_NAME {
        Error::QueueNameTooLong { topic: topic.as_str(), consumer: name, length }.raise();
    }
    refuse_read_only(c"event_bus_subscribe()");
    let queue = Text::new(&format!("{}__{}", topic.as_str(), name));
    let dead = dead_letter_queue_of(queue);
    LOCK_QUEUE.run([queue.into()]);
    for name in [queue, dead] {
        // Above READ COMMITTED this backend can know a queue that the transaction's snapshot does not show to bind_topic.
        if listed(name).is_none_or(|queue| !queue.exists()) {
            CREATE.run([name.into()]);
        }
    }
    if snapshot_is_kept() {
        CHECK_BOUND.run([topic.into(), queue.into()]);
    }
    BIND.run([topic.into(), queue.into()]);
    if HAS_RECORDS.value([]).as_bool() == Some(true) {
        RECORD.run([topic.into(), queue.into()]);
    }
    call.row([queue.into(), dead.into()]);
    call.done()
}

/// Names that pgmq gives to the index, key and sequence of a queue's table.
const PGMQS_ENDINGS: [&str; 3] = ["_vt_idx", "_pkey", "_msg_id_seq"];

/// Words of a-z and 0-9, a letter first, joined by single joints.
fn is_words(text: &str, joints: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .split(|c| joints.contains(c))
            .all(|word| !word.is_empty() && word.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
}

/// Ends a subscription: events of the topic are no longer sent to the queue, and the record of it is deleted. The queue,
/// its dead-letter queue and what they hold stay.
///
/// p_topic: the topic or pattern that the queue is bound to. p_queue: the queue.
/// Answers one row with both. No row: there was no such binding and no record of one.
/// Errors: 22004 for NULL, 22023 for an empty text, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_unsubscribe(
    p_topic: Option<Text>,
    p_queue: Option<Text>,
    call: Call,
) -> TableIterator<'static, (name!(topic, Text), name!(queue, Text))> {
    let topic = argument::non_empty("p_topic", p_topic);
    let queue = argument::non_empty("p_queue", p_queue);
    LOCK_QUEUE.run([queue.into()]);
    call.answer(&UNSUBSCRIBE, [topic.into(), queue.into()])
}

/// Records the bindings that pgmq has and event_bus_subscriptions lacks, such as those that a migration made with
/// pgmq.bind_topic, so that event_bus_check knows what must be there.
///
/// p_queue: of this queue only; NULL means of all queues.
/// Answers one row for each subscription recorded now, by queue and topic.
/// Errors: 22023 for an empty name, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_record(
    p_queue: default!(Option<Text>, "NULL"),
    call: Call,
) -> TableIterator<'static, (name!(topic, Text), name!(queue, Text))> {
    if let Some(queue) = p_queue {
        let name = argument::non_empty("p_queue", p_queue);
        if listed(queue).is_none() {
            Error::NoQueue { queue: name.as_str() }.raise();
        }
    }
    call.answer(&RECORD_BINDINGS, [p_queue.into()])
}

/// Lists what is wrong with the event bus; it changes nothing. Ask it after a restore.
///
/// Answers a row for each problem, in the order in which they are to be mended: the problem, the topic where it is
/// about one, the queue, the call or command that mends it, and whether event_bus_repair does so by itself. Problems:
/// pgmq_too_old (older than 1.11.1; nothing else is looked for), pgmq_other_owner (a role that is no superuser owns
/// pgmq and could replace what is called as the extension's owner), missing_queue (a queue that is recorded or bound),
/// missing_table (a queue without its table or its archive), missing_dead_letter_queue (the queue is named),
/// missing_binding (it is recorded, and pgmq has none), unrecorded_subscription (pgmq has a binding of which there is
/// no record), orphaned_dead_letter_queue (its queue is gone), other_owner (a queue's table belongs to another role
/// than the extension's owner; unless that is a superuser, calls have no more than that role's rights there). No row:
/// all is well.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn event_bus_check(
    call: Call,
) -> TableIterator<
    'static,
    (name!(problem, Text), name!(topic, Text), name!(queue, Text), name!(mend, Text), name!(repairable, bool)),
> {
    if PGMQ_TOO_OLD.value([]).as_text().is_some() {
        let problem = Text::new("pgmq_too_old");
        let mend = Text::new("alter extension pgmq update");
        call.row([problem.into(), None::<Text>.into(), None::<Text>.into(), mend.into(), false.into()]);
        return call.done();
    }
    call.answer(&PROBLEMS, [])
}

/// Mends what event_bus_check lists as repairable: queues, tables and dead-letter queues that are missing are made, and
/// recorded subscriptions that are not bound are bound. No message is lost: a table that is there is taken as it is. It
/// may be called any number of times, also at once from many sessions.
///
/// Answers a row for each problem that was mended, as event_bus_check listed it. No row: there was nothing to mend.
/// Errors: 40001 from PostgreSQL above READ COMMITTED.
/// Since 0.2.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn event_bus_repair(
    call: Call,
) -> TableIterator<'static, (name!(problem, Text), name!(topic, Text), name!(queue, Text), name!(mend, Text))> {
    refuse_read_only(c"event_bus_repair()");
    LOCK.run([]);
    if let Some(mends) = MENDS.value([]).as_text() {
        REPAIRABLE.rows(call, []);
        run_commands(mends);
    }
    call.done()
}
