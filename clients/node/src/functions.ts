// Generated from the catalog by generate.mjs; not to be edited. ./run --write makes it anew.
import type { BigInteger, Instant, Json } from './index';

/** All functions of hfs_lite: what each takes, and the rows that it answers. */
export interface DbFunctions {
  /**
   * The canonical form of a JSON value after RFC 8785 (JCS): no white space, keys by UTF-16 code units, numbers as the
   * nearest double in ECMAScript's layout, no Unicode normalisation. It is what JavaScript makes of the parsed value,
   * and never jsonb's own text.
   *
   * - p_value: the value. A number too small for a double is 0, and -0 is 0, as in JavaScript.
   *
   * Answers the text; NULL for NULL.
   *
   * Errors: 22003 for a number that no double holds.
   *
   * Since 0.1.0.
   */
  'public.canonical_json': {
    args: [
      p_value: Json,
    ];
    row: {
      canonical_json: string;
    };
  };
  /**
   * Shows the dead letters of all queues, queue by queue in the order of their names, oldest first; it hides and counts
   * nothing. The view hfs_lite_dead_letters shows them with their ages in words.
   *
   * - p_limit: how many of each queue at most, 1 to 10,000; 100 unless given.
   *
   * Answers the queue's name, without __dead, and what event_bus_dead_letters answers of it.
   *
   * Errors: 22004 for NULL, 22023 out of range.
   *
   * Since 0.2.0.
   */
  'public.event_bus_all_dead_letters': {
    args: [
      p_limit?: number,
    ];
    row: {
      queue: string;
      msg_id: string;
      attempts: number;
      enqueued_at: Date;
      buried_at: Date;
      reason: string | null;
      message: unknown;
      headers: unknown;
    };
  };
  /**
   * Ends a message as handled: out of the queue, into its archive, in one atomic move.
   *
   * - p_queue: any queue that pgmq has.
   * - p_msg_id: the message's id.
   * - p_read_ct: the read_ct of the delivery that handled it; with it, the message goes only while that delivery still
   *   holds it. NULL: whoever holds it.
   *
   * Answers one row with the message's id. No row: it is gone, or a later delivery holds it.
   *
   * Errors: 22004 for a NULL queue or id, 22023 for an empty name, 42704 for a queue that does not exist, 40001 from
   * PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.event_bus_archive': {
    args: [
      p_queue: string,
      p_msg_id: BigInteger,
      p_read_ct?: number | null,
    ];
    row: {
      msg_id: string;
    };
  };
  /**
   * Ends many messages as handled in one call, each as event_bus_archive does: if this delivery still holds it.
   *
   * - p_queue: any queue that pgmq has.
   * - p_msg_ids: the messages' ids, at most 10,000.
   * - p_read_cts: the read_ct of each one's delivery.
   *
   * Answers one row for each item, in their order: the message's id and a verdict. done: this call archived it. stale:
   * a later delivery holds it. unknown: it is not in the queue (any more). Equal items have one verdict. What another
   * call takes while this one waits for it may answer stale.
   *
   * Errors: 22004 for NULL, also inside an array, 22023 for an empty name, arrays of two lengths, of more than one
   * dimension or of more than 10,000 elements; a message names the element as p_msg_ids[3], counted from 1. 42704 for a
   * queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.3.0.
   */
  'public.event_bus_archive_many': {
    args: [
      p_queue: string,
      p_msg_ids: readonly BigInteger[],
      p_read_cts: readonly number[],
    ];
    row: {
      msg_id: string;
      verdict: 'done' | 'stale' | 'unknown';
    };
  };
  /**
   * Moves a message into the dead-letter queue `<queue>__dead`, with its headers, in one atomic move; twice, or by
   * several at once, makes one dead letter. A note stands in the dead letter's headers under the key hfs_lite:
   * source_msg_id, attempts (its read_ct), first_enqueued_at, buried_at, reason, requeues.
   *
   * - p_queue: any queue that pgmq has, and that has a dead-letter queue.
   * - p_msg_id: the message's id.
   * - p_reason: why; NULL, or at least one character.
   * - p_read_ct: the read_ct of the delivery that gives up; with it, the message goes only while that delivery still
   *   holds it. NULL: whoever holds it.
   *
   * Answers one row with the dead letter's id. No row: the message is gone, or a later delivery holds it.
   *
   * Errors: 22004 for a NULL queue or id, 22023 for an empty text, 42704 for a queue or a dead-letter queue that does
   * not exist, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.event_bus_bury': {
    args: [
      p_queue: string,
      p_msg_id: BigInteger,
      p_reason?: string | null,
      p_read_ct?: number | null,
    ];
    row: {
      msg_id: string;
    };
  };
  /**
   * Lists what is wrong with the event bus; it changes nothing. Ask it after a restore.
   *
   * Answers a row for each problem, in the order in which they are to be mended: the problem, the topic where it is
   * about one, the queue, the call or command that mends it, and whether event_bus_repair does so by itself. Problems:
   * pgmq_too_old (older than 1.11.1; nothing else is looked for), pgmq_other_owner (a role that is no superuser owns
   * pgmq and could replace what is called as the extension's owner), missing_queue (a queue that is recorded or bound),
   * missing_table (a queue without its table or its archive), missing_dead_letter_queue (the queue is named),
   * missing_binding (it is recorded, and pgmq has none), unrecorded_subscription (pgmq has a binding of which there is
   * no record), orphaned_dead_letter_queue (its queue is gone), other_owner (a queue's table belongs to another role
   * than the extension's owner; unless that is a superuser, calls have no more than that role's rights there). No row:
   * all is well.
   *
   * Since 0.2.0.
   */
  'public.event_bus_check': {
    args: [];
    row: {
      problem: string;
      topic: string | null;
      queue: string | null;
      mend: string;
      repairable: boolean;
    };
  };
  /**
   * Shows the dead letters of a consumer's queue, oldest first; it hides and counts nothing.
   *
   * - p_queue: the consumer's queue, without __dead.
   * - p_limit: how many at most, 1 to 10,000; 100 unless given.
   *
   * Answers for each dead letter: msg_id, attempts (how often it had been delivered), enqueued_at (when it was enqueued
   * the very first time), buried_at, reason, message, and headers as they were, without the note. A dead letter that
   * something else put there answers attempts 0, its own time and no reason.
   *
   * Errors: 22004 for NULL, 22023 for an empty name or out of range, 42704 for a dead-letter queue that does not exist.
   *
   * Since 0.1.0.
   */
  'public.event_bus_dead_letters': {
    args: [
      p_queue: string,
      p_limit?: number,
    ];
    row: {
      msg_id: string;
      attempts: number;
      enqueued_at: Date;
      buried_at: Date;
      reason: string | null;
      message: unknown;
      headers: unknown;
    };
  };
  /**
   * Hides a message for longer, if this delivery still holds it; also where its timeout has ended and nobody has read
   * it since. A message never becomes visible earlier by it.
   *
   * - p_queue: any queue that pgmq has.
   * - p_msg_id: the message's id.
   * - p_read_ct: the read_ct of the delivery that works on it.
   * - p_vt: for how many seconds from now on, 0 or more.
   *
   * Answers one row with the message's id and vt (until when it is hidden now). No row: it is gone, or a later delivery
   * holds it; the caller must stop.
   *
   * Errors: 22004 for NULL, 22023 for an empty name or a timeout below 0, 42704 for a queue that does not exist, 40001
   * from PostgreSQL above READ COMMITTED.
   *
   * Since 0.3.0.
   */
  'public.event_bus_extend': {
    args: [
      p_queue: string,
      p_msg_id: BigInteger,
      p_read_ct: number,
      p_vt: number,
    ];
    row: {
      msg_id: string;
      vt: Date;
    };
  };
  /**
   * Takes visible messages from a queue, those that became visible first, and hides them for a while. Commit it before
   * handling them: a delivery that is rolled back is not counted, and a message that always fails would come back for
   * ever.
   *
   * - p_queue: any queue that pgmq has.
   * - p_vt: the visibility timeout, 0 or more seconds.
   * - p_qty: how many messages at most, 1 to 10,000.
   *
   * Answers the messages by msg_id: msg_id, read_ct (how often it was delivered, this time counted; it is the fencing
   * token of this delivery), enqueued_at, vt (until when it is hidden), message and headers. No row: nothing is
   * visible.
   *
   * Errors: 22004 for NULL, 22023 for an empty name or out of range, 42704 for a queue that does not exist, 40001 from
   * PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.event_bus_read': {
    args: [
      p_queue: string,
      p_vt: number,
      p_qty: number,
    ];
    row: {
      msg_id: string;
      read_ct: number;
      enqueued_at: Date;
      vt: Date;
      message: unknown;
      headers: unknown;
    };
  };
  /**
   * Records the bindings that pgmq has and event_bus_subscriptions lacks, such as those that a migration made with
   * pgmq.bind_topic, so that event_bus_check knows what must be there.
   *
   * - p_queue: of this queue only; NULL means of all queues.
   *
   * Answers one row for each subscription recorded now, by queue and topic.
   *
   * Errors: 22023 for an empty name, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.2.0.
   */
  'public.event_bus_record': {
    args: [
      p_queue?: string | null,
    ];
    row: {
      topic: string;
      queue: string;
    };
  };
  /**
   * Mends what event_bus_check lists as repairable: queues, tables and dead-letter queues that are missing are made,
   * and recorded subscriptions that are not bound are bound. No message is lost: a table that is there is taken as it
   * is. It may be called any number of times, also at once from many sessions.
   *
   * Answers a row for each problem that was mended, as event_bus_check listed it. No row: there was nothing to mend.
   *
   * Errors: 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.2.0.
   */
  'public.event_bus_repair': {
    args: [];
    row: {
      problem: string;
      topic: string | null;
      queue: string;
      mend: string;
    };
  };
  /**
   * Moves one dead letter back into its queue, visible at once and with a fresh budget of deliveries, in one atomic
   * move. Its headers keep first_enqueued_at and requeues under the key hfs_lite, so that the next burial knows.
   *
   * - p_queue: the consumer's queue, without __dead.
   * - p_msg_id: the dead letter's id.
   *
   * Answers one row with the message's new id. No row: there is no such dead letter (any more).
   *
   * Errors: 22004 for NULL, 22023 for an empty name, 42704 for a queue or a dead-letter queue that does not exist,
   * 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.event_bus_requeue': {
    args: [
      p_queue: string,
      p_msg_id: BigInteger,
    ];
    row: {
      msg_id: string;
    };
  };
  /**
   * Sends an envelope to every queue bound to a topic, in the caller's transaction: rolled back, nothing was sent.
   *
   * - p_topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters.
   * - p_envelope: a JSON object; its payload is an object with a non-empty string dedupeKey; where present, eventName
   *   is the topic, eventId a string of 1 to 200 characters, and metadata an object whose correlationId, where present,
   *   is a string of 1 to 200 characters without control characters. Other fields pass untouched.
   *
   * Answers one row with the number of queues it was sent to; 0 where none is bound. A bound queue whose table is gone
   * is passed over with a warning (42P01).
   *
   * Errors: 22004 for NULL, 22023 for a topic or an envelope that breaks these rules, 22001 for a topic over its width.
   *
   * Since 0.1.0.
   *
   * Or, with other arguments:
   *
   * Sends an event to every queue bound to its name, in the caller's transaction; the envelope {"eventId", "eventName",
   * "payload", "metadata": {"correlationId"}} is built inside, without metadata where the correlation id is NULL.
   *
   * - p_event_id: the event's id, 1 to 200 characters.
   * - p_event_name: its name, which is the topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice
   *   running; at most 255 characters.
   * - p_payload: a JSON object with a non-empty string dedupeKey.
   * - p_correlation_id: NULL, or 1 to 200 characters without control characters.
   *
   * Answers one row with the number of queues it was sent to; 0 where none is bound. A bound queue whose table is gone
   * is passed over with a warning (42P01).
   *
   * Errors: 22004 for a NULL id, name or payload, 22023 for a value that breaks these rules, 22001 for text over its
   * width.
   *
   * Since 0.1.0.
   */
  'public.event_bus_send': {
    args: 
      | [
        p_topic: string,
        p_envelope: Json,
      ]
      | [
        p_event_id: string,
        p_event_name: string,
        p_payload: Json,
        p_correlation_id: string | null,
      ];
    row: {
      queues: number;
    };
  };
  /**
   * Sends many envelopes to every queue bound to a topic, in the caller's transaction; each as event_bus_send does. All
   * of them are checked before any is sent, and a queue has them in the order in which they were passed.
   *
   * - p_topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters.
   * - p_envelopes: at most 10,000, each as event_bus_send takes it.
   *
   * Answers one row with the number of queues that they were sent to; 0 where none is bound. No row: the array was
   * empty. A bound queue whose table is gone is passed over with a warning (42P01).
   *
   * Errors: 22004 for NULL, also inside the array, 22023 for a topic or an envelope that breaks these rules, an array
   * of more than one dimension or of more than 10,000 elements, 22001 for a topic over its width; a message names the
   * element as p_envelopes[3], counted from 1.
   *
   * Since 0.3.0.
   */
  'public.event_bus_send_many': {
    args: [
      p_topic: string,
      p_envelopes: readonly Json[],
    ];
    row: {
      queues: number;
    };
  };
  /**
   * Creates a consumer's queue `<topic>__<consumer>` and its dead-letter queue `<topic>__<consumer>__dead`, and binds
   * the queue to the topic; what is there already stays as it is. The subscription is recorded in
   * event_bus_subscriptions, so that event_bus_check knows what must be there. It may be called any number of times,
   * also at once from many sessions.
   *
   * - p_topic: words of a-z and 0-9, a letter first, joined by single '.', '_' or '-'.
   * - p_consumer: the same without '.', not 'dead', and not ending in _vt_idx, _pkey or _msg_id_seq. The queue's name
   *   has at most 41 characters.
   *
   * Answers one row with the names of both queues.
   *
   * Errors: 22004 for NULL, 22023 for a name that breaks these rules, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.event_bus_subscribe': {
    args: [
      p_topic: string,
      p_consumer: string,
    ];
    row: {
      queue: string;
      dead_letter_queue: string;
    };
  };
  /**
   * Deletes old messages from a queue's archive, oldest first, skipping locked ones; what is in the queue stays.
   *
   * - p_queue: any queue that pgmq has.
   * - p_cutoff: messages archived before this instant go.
   * - p_batch: how many at most, 1 to 10,000.
   *
   * Answers one row with the number of deleted messages.
   *
   * Errors: 22004 for NULL, 22023 for an empty name, out of range or for an infinite instant, 42704 for a queue that
   * does not exist, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.2.0.
   */
  'public.event_bus_sweep': {
    args: [
      p_queue: string,
      p_cutoff: Instant,
      p_batch: number,
    ];
    row: {
      deleted_count: number;
    };
  };
  /**
   * Ends a subscription: events of the topic are no longer sent to the queue, and the record of it is deleted. The
   * queue, its dead-letter queue and what they hold stay.
   *
   * - p_topic: the topic or pattern that the queue is bound to.
   * - p_queue: the queue.
   *
   * Answers one row with both. No row: there was no such binding and no record of one.
   *
   * Errors: 22004 for NULL, 22023 for an empty text, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.2.0.
   */
  'public.event_bus_unsubscribe': {
    args: [
      p_topic: string,
      p_queue: string,
    ];
    row: {
      topic: string;
      queue: string;
    };
  };
  /**
   * The time since an instant, or until it, in words: the largest unit that fits, as in '3 minutes', '1 day' and 'in 2
   * hours'.
   *
   * - p_instant: the instant.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers the words; NULL for a NULL or an infinite p_instant.
   *
   * Errors: 22023 for an infinite p_now.
   *
   * Since 0.2.0.
   */
  'public.hfs_lite_age': {
    args: [
      p_instant: Instant | null,
      p_now?: Instant | null,
    ];
    row: {
      hfs_lite_age: string | null;
    };
  };
  /**
   * Gives a role what it needs to call the functions: EXECUTE, and nothing on any table or on schema pgmq. It may be
   * called any number of times.
   *
   * - p_role: the role.
   * - p_as: 'application' (the functions that applications call), 'operator' (those too that maintain and watch, and
   *   SELECT on the views) or 'monitor' (only those that watch, which change nothing, and the views).
   *
   * Answers nothing.
   *
   * Errors: 22004 for NULL, 22023 for another kind, and for anon, authenticated and roles that they are members of,
   * 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
   *
   * Since 0.1.0.
   */
  'public.hfs_lite_grant': {
    args: [
      p_role: string,
      p_as?: 'application' | 'operator' | 'monitor',
    ];
    row: {
      hfs_lite_grant: '';
    };
  };
  /**
   * Says how the work stands: what waits, runs, is stuck or dead, and since when. It reads no more than 10,000 index
   * entries for a number, so a count of 10,000 means that many or more, and it answers in a moment whatever the size of
   * the tables.
   *
   * Answers rows of area, name, metric, value and unit, always in one order. area jobs: running, lease_ended (running,
   * and the lease is over), failed, oldest_failed_age, to_sweep (done, and older than hfs_lite.retain_jobs). area
   * queue: waiting, oldest_waiting_age, to_sweep (sent, and older than hfs_lite.retain_queue). area inbox: incomplete
   * (receipts claimed more than a minute ago that have no outcome), oldest_incomplete_age. area event_bus, for each
   * queue by name: visible, in_flight (hidden), oldest_age, dead (in its dead-letter queue; no row where it has none).
   * Each also dead_tuples, as PostgreSQL's statistics have them. Ages are in seconds; NULL where there is nothing.
   *
   * Since 0.2.0.
   */
  'public.hfs_lite_health': {
    args: [];
    row: {
      area: string;
      name: string;
      metric: string;
      value: number | null;
      unit: string;
    };
  };
  /**
   * Takes all rights on the functions and views back from a role. It may be called any number of times.
   *
   * - p_role: the role.
   *
   * Answers nothing.
   *
   * Errors: 22004 for NULL, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser
   * calls.
   *
   * Since 0.1.0.
   */
  'public.hfs_lite_revoke': {
    args: [
      p_role: string,
    ];
    row: {
      hfs_lite_revoke: '';
    };
  };
  /**
   * Claims a client's request, or answers what is stored of it. The caller compares the fingerprints;
   * inbox_claim_request does that itself.
   *
   * - p_source: the door, 1 to 200 characters.
   * - p_event_id: the client's idempotency key, 1 to 200 characters.
   * - p_request_fingerprint: the fingerprint of the request, 1 to 64 characters.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers always one row. Claimed now: the caller's fingerprint, a NULL outcome, incomplete false. There before: the
   * stored fingerprint and outcome, and incomplete true where there is no outcome yet; nothing is written. A row that a
   * delivery claimed answers a NULL fingerprint and incomplete true. A concurrent caller waits for the first one, then
   * answers its outcome, or claims if it was rolled back.
   *
   * Errors: 22004 for NULL, 22023 for an empty text or an infinite instant, 22001 for text over its width, 55000 where
   * a trigger keeps the row out, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.inbox_claim_client': {
    args: [
      p_source: string,
      p_event_id: string,
      p_request_fingerprint: string,
      p_now?: Instant | null,
    ];
    row: {
      request_fingerprint: string | null;
      outcome: unknown;
      incomplete: boolean;
    };
  };
  /**
   * Claims a delivery: the first caller gets it, every repeat gets none. Claim it in the transaction that does the
   * work, so that both are committed or neither.
   *
   * - p_source: the door it came in through, 1 to 200 characters.
   * - p_event_id: the delivery's id, 1 to 200 characters.
   *
   * Answers one row with the event id. No row: it was claimed before. A repeat during the first one's open transaction
   * waits for it, and claims if that was rolled back.
   *
   * Errors: 22004 for NULL, 22023 for an empty text, 22001 for text over its width, 40001 from PostgreSQL above READ
   * COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.inbox_claim_event': {
    args: [
      p_source: string,
      p_event_id: string,
    ];
    row: {
      event_id: string;
    };
  };
  /**
   * Claims many deliveries of one source in one call, each as inbox_claim_event does. Claim them in the transaction
   * that does the work, so that all of it is committed or none.
   *
   * - p_source: the door they came in through, 1 to 200 characters.
   * - p_event_ids: the deliveries' ids, at most 10,000, each of 1 to 200 characters.
   *
   * Answers the ids of those that were not claimed before, in the order in which they were passed, each once however
   * often it was passed. No row: all of them were claimed before. A repeat during another's open transaction waits for
   * it, and claims if that was rolled back.
   *
   * Errors: 22004 for NULL, also inside the array, 22023 for an empty text, an array of more than one dimension or of
   * more than 10,000 elements, 22001 for text over its width; a message names the element as p_event_ids[3], counted
   * from 1. 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.3.0.
   */
  'public.inbox_claim_events': {
    args: [
      p_source: string,
      p_event_ids: readonly string[],
    ];
    row: {
      event_id: string;
    };
  };
  /**
   * Claims a client's request by its whole content, or answers what is stored of it: source and fingerprint are made
   * inside, and compared.
   *
   * - p_principal_id: who asks;
   * - p_operation: what for; 1 or more characters without ':', and `client:<p_principal_id>:<p_operation>` at most 200.
   * - p_idempotency_key: the client's key, 1 to 200 characters.
   * - p_request: the request.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers always one row: the source `client:<p_principal_id>:<p_operation>`, the request's fingerprint, the outcome,
   * and a state: claimed (do the work, and save its outcome), replay (answer the outcome) or incomplete (claimed
   * before, and no outcome yet).
   *
   * Errors: LT001 where the key was used with another request, 22004 for NULL, 22023 for an empty text, a ':' or an
   * infinite instant, 22001 for text over its width, 22003 for a number that no double holds, 55000 where a trigger
   * keeps the row out, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.inbox_claim_request': {
    args: [
      p_principal_id: string,
      p_operation: string,
      p_idempotency_key: string,
      p_request: Json,
      p_now?: Instant | null,
    ];
    row: {
      source: string;
      request_fingerprint: string;
      outcome: unknown;
      state: 'claimed' | 'replay' | 'incomplete';
    };
  };
  /**
   * Deletes one row of the inbox, so that what it stands for can be done again: the operator's way out of a receipt
   * that stays incomplete, or to have a delivery done again.
   *
   * - p_source: the door, 1 to 200 characters.
   * - p_event_id: the delivery's id or the client's idempotency key, 1 to 200 characters.
   *
   * Answers one row with the event id. No row: there is none, or an open transaction holds it; nothing changed.
   *
   * Errors: 22004 for NULL, 22023 for an empty text, 22001 for text over its width, 40001 from PostgreSQL above READ
   * COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.inbox_forget': {
    args: [
      p_source: string,
      p_event_id: string,
    ];
    row: {
      event_id: string;
    };
  };
  /**
   * Stores the outcome of a claimed request, once: a stored outcome is never overwritten.
   *
   * - p_source: the door, 1 to 200 characters.
   * - p_event_id: the client's idempotency key, 1 to 200 characters.
   * - p_outcome: the outcome; {"value": null} is one, a bare JSON null is not.
   *
   * Answers one row with the outcome as stored. No row: there is no such receipt, it has an outcome already, or it is a
   * delivery; nothing changed.
   *
   * Errors: 22004 for NULL, 22023 for an empty text or a bare JSON null, 22001 for text over its width, 40001 from
   * PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.inbox_save_client_outcome': {
    args: [
      p_source: string,
      p_event_id: string,
      p_outcome: Json,
    ];
    row: {
      outcome: unknown;
    };
  };
  /**
   * Deletes old completed receipts of clients, oldest first, skipping locked ones; deliveries and receipts without an
   * outcome stay.
   *
   * - p_cutoff: receipts claimed before this instant go.
   * - p_batch: how many at most, 1 to 10,000.
   *
   * Answers one row with the number of deleted receipts.
   *
   * Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.inbox_sweep_clients': {
    args: [
      p_cutoff: Instant,
      p_batch: number,
    ];
    row: {
      deleted_count: number;
    };
  };
  /**
   * Deletes old deliveries, oldest first, skipping locked ones; clients' receipts stay. A delivery that comes again
   * after that is done again, so keep them for longer than the sender repeats.
   *
   * - p_cutoff: deliveries claimed before this instant go.
   * - p_batch: how many at most, 1 to 10,000.
   *
   * Answers one row with the number of deleted deliveries.
   *
   * Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.2.0.
   */
  'public.inbox_sweep_events': {
    args: [
      p_cutoff: Instant,
      p_batch: number,
    ];
    row: {
      deleted_count: number;
    };
  };
  /**
   * Notes the step that a running job has come to, if the caller still holds it.
   *
   * - p_id: the job's id.
   * - p_token: the caller's fencing token, 1 or more.
   * - p_step: the step, 1 to 200 characters.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed,
   * and the caller must stop.
   *
   * Errors: 22004 for NULL, 22023 for a token below 1, an empty step or an infinite instant, 22001 for a step over its
   * width, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.job_advance': {
    args: [
      p_id: string,
      p_token: BigInteger,
      p_step: string,
      p_now: Instant | null,
    ];
    row: {
      id: string;
    };
  };
  /**
   * Claims a job by its key, or claims it again after it failed or its lease ended, in one atomic step.
   *
   * - p_kind: what kind of job, 1 to 200 characters; a stored kind stays.
   * - p_job_key: the job's key, 1 to 200 characters.
   * - p_worker: who claims, 1 to 200 characters.
   * - p_lease_end: when the lease ends, later than p_now.
   * - p_payload: stored at the first claim only.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row: the id, the stored kind, the fencing token (1 for a new job, one more at every further claim), the
   * stored step and payload. No row: the job is done, or somebody holds a live lease.
   *
   * Errors: 22004 for NULL, 22023 for an empty text, an infinite instant or a lease that does not end after p_now,
   * 22001 for text over its width, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.job_claim': {
    args: [
      p_kind: string,
      p_job_key: string,
      p_worker: string,
      p_lease_end: Instant,
      p_payload: Json,
      p_now: Instant | null,
    ];
    row: {
      id: string;
      kind: string;
      fencing_token: string;
      current_step: string | null;
      payload: unknown;
    };
  };
  /**
   * Claims many jobs of one kind by their keys, each as job_claim does, in one call: what is new, failed or has a lease
   * that ended is the worker's, under one lease.
   *
   * - p_kind: what kind of jobs, 1 to 200 characters; a stored kind stays.
   * - p_job_keys: the jobs' keys, at most 10,000, each of 1 to 200 characters; of equal ones the first counts.
   * - p_worker: who claims, 1 to 200 characters.
   * - p_lease_end: when the leases end, later than p_now.
   * - p_payloads: one for each key, stored at the first claim only.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row for each job that was claimed, in no order: its key, and what job_claim answers. A key without a
   * row is done, or somebody holds a live lease. No row: none was claimed.
   *
   * Errors: 22004 for NULL, also inside an array, 22023 for an empty text, an infinite instant, a lease that does not
   * end after p_now, arrays of two lengths, of more than one dimension or of more than 10,000 elements, 22001 for text
   * over its width; a message names the element as p_job_keys[3], counted from 1. 40001 from PostgreSQL above READ
   * COMMITTED.
   *
   * Since 0.3.0.
   */
  'public.job_claim_many': {
    args: [
      p_kind: string,
      p_job_keys: readonly string[],
      p_worker: string,
      p_lease_end: Instant,
      p_payloads: readonly Json[],
      p_now: Instant | null,
    ];
    row: {
      job_key: string;
      id: string;
      kind: string;
      fencing_token: string;
      current_step: string | null;
      payload: unknown;
    };
  };
  /**
   * Ends a running job as done, if the caller still holds it, and clears its lease. A done job is never claimed again.
   *
   * - p_id: the job's id.
   * - p_token: the caller's fencing token, 1 or more.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed.
   *
   * Errors: 22004 for NULL, 22023 for a token below 1 or an infinite instant, 40001 from PostgreSQL above READ
   * COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.job_complete': {
    args: [
      p_id: string,
      p_token: BigInteger,
      p_now: Instant | null,
    ];
    row: {
      id: string;
    };
  };
  /**
   * Ends many running jobs as done in one call, each as job_complete does: if the caller still holds it by its token.
   *
   * - p_ids: the jobs' ids, at most 10,000.
   * - p_tokens: the fencing token of each, 1 or more.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row for each item, in their order: the id and a verdict. done: this call ended the job. stale: the
   * token is no longer the job's, or the job is not running; nothing changed there. unknown: there is no such job.
   * Equal items have one verdict.
   *
   * Errors: 22004 for NULL, also inside an array, 22023 for a token below 1, an infinite instant, arrays of two
   * lengths, of more than one dimension or of more than 10,000 elements; a message names the element as p_tokens[3],
   * counted from 1. 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.3.0.
   */
  'public.job_complete_many': {
    args: [
      p_ids: readonly string[],
      p_tokens: readonly BigInteger[],
      p_now: Instant | null,
    ];
    row: {
      id: string;
      verdict: 'done' | 'stale' | 'unknown';
    };
  };
  /**
   * Ends an attempt at a running job as failed, if the caller still holds it, and clears its lease; the job may then be
   * claimed again.
   *
   * - p_id: the job's id.
   * - p_token: the caller's fencing token, 1 or more.
   * - p_reason: why; NULL and any text are accepted, and what is longer than 10,000 characters is cut there and ends in
   *   a mark that says so.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row with the id. No row: the token is no longer the job's, or the job is not running; nothing changed.
   *
   * Errors: 22004 for a NULL id or token, 22023 for a token below 1 or an infinite instant, 40001 from PostgreSQL above
   * READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.job_fail': {
    args: [
      p_id: string,
      p_token: BigInteger,
      p_reason: string | null,
      p_now: Instant | null,
    ];
    row: {
      id: string;
    };
  };
  /**
   * Ends attempts at many running jobs as failed in one call, each as job_fail does: if the caller still holds it by
   * its token.
   *
   * - p_ids: the jobs' ids, at most 10,000.
   * - p_tokens: the fencing token of each, 1 or more.
   * - p_reasons: why, one for each item; NULL for none at all. NULL and any text are accepted inside it, and what is
   *   longer than 10,000 characters is cut there and ends in a mark that says so; of equal items the first one's is
   *   kept.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row for each item, in their order: the id and a verdict. done: this call failed the job. stale: the
   * token is no longer the job's, or the job is not running; nothing changed there. unknown: there is no such job.
   * Equal items have one verdict.
   *
   * Errors: 22004 for NULL ids or tokens, also inside the arrays, 22023 for a token below 1, an infinite instant,
   * arrays of two lengths, of more than one dimension or of more than 10,000 elements; a message names the element as
   * p_tokens[3], counted from 1. 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.3.0.
   */
  'public.job_fail_many': {
    args: [
      p_ids: readonly string[],
      p_tokens: readonly BigInteger[],
      p_reasons: readonly (string | null)[] | null,
      p_now: Instant | null,
    ];
    row: {
      id: string;
      verdict: 'done' | 'stale' | 'unknown';
    };
  };
  /**
   * Prolongs the lease of a running job, if the caller still holds it; also where the lease has ended and nobody has
   * taken the job over. A lease never becomes shorter by it.
   *
   * - p_id: the job's id.
   * - p_token: the caller's fencing token, 1 or more.
   * - p_lease_end: when the lease is to end, later than p_now.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row with the id and the instant at which the lease ends now: p_lease_end, or what it was where that is
   * later. No row: the token is no longer the job's, or the job is not running; nothing changed, and the caller must
   * stop.
   *
   * Errors: 22004 for NULL, 22023 for a token below 1, an infinite instant or a lease that does not end after p_now,
   * 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.3.0.
   */
  'public.job_heartbeat': {
    args: [
      p_id: string,
      p_token: BigInteger,
      p_lease_end: Instant,
      p_now: Instant | null,
    ];
    row: {
      id: string;
      lease_expires_at: Date;
    };
  };
  /**
   * Claims a minute for the scheduler of this name, so that of many that wake at once one runs it.
   *
   * - p_name: the scheduler's name, 1 to 200 characters.
   * - p_minute: an instant of the minute; it is cut to the UTC minute.
   * - p_now: the caller's instant; NULL means the database's clock.
   *
   * Answers one row with the name and the minute to the first caller. No row: somebody has that minute, or it is more
   * than 24 hours older than the newest minute claimed under that name. Minutes may be claimed in any order.
   *
   * Rows more than 48 hours older than the name's newest are deleted in passing, at most 100 a call, once no open
   * transaction can still overlook them.
   *
   * Errors: 22004 for NULL, 22023 for an empty name or an infinite instant, 22001 for a name over its width, 40001 from
   * PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.job_tick_claim': {
    args: [
      p_name: string,
      p_minute: Instant,
      p_now?: Instant | null,
    ];
    row: {
      name: string;
      minute: Date;
    };
  };
  /**
   * Deletes old done jobs, oldest first, skipping locked ones; running and failed jobs stay. A job that is gone is not
   * known any more: claimed under its key again, it is a new job.
   *
   * - p_cutoff: jobs done before this instant go, by their updated_at.
   * - p_batch: how many at most, 1 to 10,000.
   *
   * Answers one row with the number of deleted jobs.
   *
   * Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.2.0.
   */
  'public.jobs_sweep': {
    args: [
      p_cutoff: Instant,
      p_batch: number,
    ];
    row: {
      deleted_count: number;
    };
  };
  /**
   * Marks rows of the outbox as sent, in the transaction of the queue_waiting that took them.
   *
   * - p_ids: the rows' ids; one that is unknown or stands twice is no error, and an empty array does nothing.
   * - p_sent_at: when; NULL means the database's clock. A row that was sent before keeps its first instant.
   *
   * Answers nothing.
   *
   * Errors: 22004 for NULL, also inside the array, 22023 for an infinite instant, 40001 from PostgreSQL above READ
   * COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.queue_mark_sent': {
    args: [
      p_ids: readonly string[],
      p_sent_at: Instant | null,
    ];
    row: {
      queue_mark_sent: '';
    };
  };
  /**
   * Deletes old sent rows of the outbox, oldest first, skipping locked ones; waiting rows stay.
   *
   * - p_cutoff: rows sent before this instant go, by their sent_at.
   * - p_batch: how many at most, 1 to 10,000.
   *
   * Answers one row with the number of deleted rows.
   *
   * Errors: 22004 for NULL, 22023 out of range or for an infinite instant, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.2.0.
   */
  'public.queue_sweep': {
    args: [
      p_cutoff: Instant,
      p_batch: number,
    ];
    row: {
      deleted_count: number;
    };
  };
  /**
   * Takes the oldest waiting rows of the outbox, locked until the caller's transaction ends; rows that another relay
   * holds are skipped. Call it inside a transaction: in autocommit the locks end with the call, and two relays carry
   * the same rows.
   *
   * - p_batch: how many at most, 1 to 10,000.
   *
   * Answers the rows by (created_at, id): id, queue, payload and correlation id; a row without a correlation id answers
   * its id as text. No row: nothing waits that is free.
   *
   * Errors: 22004 for NULL, 22023 out of range, 40001 from PostgreSQL above READ COMMITTED.
   *
   * Since 0.1.0.
   */
  'public.queue_waiting': {
    args: [
      p_batch: number,
    ];
    row: {
      id: string;
      queue: string;
      payload: unknown;
      correlationId: string;
    };
  };
  /**
   * Writes one row into the outbox, in the caller's transaction: rolled back, it was never there.
   *
   * - p_queue: where it is to be carried, 1 to 200 characters.
   * - p_payload: what is to be carried.
   * - p_created_at: the row's instant; NULL means the database's clock.
   * - p_correlation_id: NULL, or 1 to 200 characters without control characters (Unicode's category Cc).
   *
   * Answers nothing.
   *
   * Errors: 22004 for a NULL queue or payload, 22023 for an empty text, a control character or an infinite instant,
   * 22001 for text over its width.
   *
   * Since 0.1.0.
   */
  'public.queue_write': {
    args: [
      p_queue: string,
      p_payload: Json,
      p_created_at: Instant | null,
      p_correlation_id: string | null,
    ];
    row: {
      queue_write: '';
    };
  };
  /**
   * Writes many rows into the outbox in one call, each as queue_write does. A relay takes them in the order in which
   * they were passed.
   *
   * - p_queue: where they are to be carried, 1 to 200 characters.
   * - p_payloads: what is to be carried, at most 10,000.
   * - p_created_at: the rows' instant; NULL means the database's clock.
   * - p_correlation_id: that of all of them: NULL, or 1 to 200 characters without control characters (Unicode's
   *   category Cc).
   *
   * Answers the ids of the rows, in the order of the payloads.
   *
   * Errors: 22004 for a NULL queue or payload, 22023 for an empty text, a control character, an infinite instant, an
   * array of more than one dimension or of more than 10,000 elements, 22001 for text over its width; a message names
   * the element as p_payloads[3], counted from 1.
   *
   * Since 0.3.0.
   */
  'public.queue_write_many': {
    args: [
      p_queue: string,
      p_payloads: readonly Json[],
      p_created_at: Instant | null,
      p_correlation_id: string | null,
    ];
    row: {
      id: string;
    };
  };
  /**
   * The fingerprint of a request: the SHA-256 of its canonical form, equal to what JavaScript computes on the parsed
   * body.
   *
   * - p_request: the request. Two integers that differ only beyond 2^53 have one fingerprint, as they are one number in
   *   JavaScript: send ids and money as strings.
   *
   * Answers 64 lower-case hexadecimal digits; NULL for NULL.
   *
   * Errors: 22003 for a number that no double holds.
   *
   * Since 0.1.0.
   */
  'public.request_fingerprint': {
    args: [
      p_request: Json,
    ];
    row: {
      request_fingerprint: string;
    };
  };
}

/** The signatures of each: more than one where it is overloaded. */
export const signatures: Record<keyof DbFunctions, readonly Signature[]> = {
  'public.canonical_json': [{ required: 1, accepted: 1, json: [0], jsons: [] }],
  'public.event_bus_all_dead_letters': [{ required: 0, accepted: 1, json: [], jsons: [] }],
  'public.event_bus_archive': [{ required: 2, accepted: 3, json: [], jsons: [] }],
  'public.event_bus_archive_many': [{ required: 3, accepted: 3, json: [], jsons: [] }],
  'public.event_bus_bury': [{ required: 2, accepted: 4, json: [], jsons: [] }],
  'public.event_bus_check': [{ required: 0, accepted: 0, json: [], jsons: [] }],
  'public.event_bus_dead_letters': [{ required: 1, accepted: 2, json: [], jsons: [] }],
  'public.event_bus_extend': [{ required: 4, accepted: 4, json: [], jsons: [] }],
  'public.event_bus_read': [{ required: 3, accepted: 3, json: [], jsons: [] }],
  'public.event_bus_record': [{ required: 0, accepted: 1, json: [], jsons: [] }],
  'public.event_bus_repair': [{ required: 0, accepted: 0, json: [], jsons: [] }],
  'public.event_bus_requeue': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.event_bus_send': [{ required: 2, accepted: 2, json: [1], jsons: [] }, { required: 4, accepted: 4, json: [2], jsons: [] }],
  'public.event_bus_send_many': [{ required: 2, accepted: 2, json: [], jsons: [1] }],
  'public.event_bus_subscribe': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.event_bus_sweep': [{ required: 3, accepted: 3, json: [], jsons: [] }],
  'public.event_bus_unsubscribe': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.hfs_lite_age': [{ required: 1, accepted: 2, json: [], jsons: [] }],
  'public.hfs_lite_grant': [{ required: 1, accepted: 2, json: [], jsons: [] }],
  'public.hfs_lite_health': [{ required: 0, accepted: 0, json: [], jsons: [] }],
  'public.hfs_lite_revoke': [{ required: 1, accepted: 1, json: [], jsons: [] }],
  'public.inbox_claim_client': [{ required: 3, accepted: 4, json: [], jsons: [] }],
  'public.inbox_claim_event': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.inbox_claim_events': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.inbox_claim_request': [{ required: 4, accepted: 5, json: [3], jsons: [] }],
  'public.inbox_forget': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.inbox_save_client_outcome': [{ required: 3, accepted: 3, json: [2], jsons: [] }],
  'public.inbox_sweep_clients': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.inbox_sweep_events': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.job_advance': [{ required: 4, accepted: 4, json: [], jsons: [] }],
  'public.job_claim': [{ required: 6, accepted: 6, json: [4], jsons: [] }],
  'public.job_claim_many': [{ required: 6, accepted: 6, json: [], jsons: [4] }],
  'public.job_complete': [{ required: 3, accepted: 3, json: [], jsons: [] }],
  'public.job_complete_many': [{ required: 3, accepted: 3, json: [], jsons: [] }],
  'public.job_fail': [{ required: 4, accepted: 4, json: [], jsons: [] }],
  'public.job_fail_many': [{ required: 4, accepted: 4, json: [], jsons: [] }],
  'public.job_heartbeat': [{ required: 4, accepted: 4, json: [], jsons: [] }],
  'public.job_tick_claim': [{ required: 2, accepted: 3, json: [], jsons: [] }],
  'public.jobs_sweep': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.queue_mark_sent': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.queue_sweep': [{ required: 2, accepted: 2, json: [], jsons: [] }],
  'public.queue_waiting': [{ required: 1, accepted: 1, json: [], jsons: [] }],
  'public.queue_write': [{ required: 4, accepted: 4, json: [1], jsons: [] }],
  'public.queue_write_many': [{ required: 4, accepted: 4, json: [], jsons: [1] }],
  'public.request_fingerprint': [{ required: 1, accepted: 1, json: [0], jsons: [] }],
};

export interface Signature {
  /** How many arguments must be given, and how many may be. */
  required: number;
  accepted: number;
  /** The places of those that are jsonb, and of those that are jsonb[]. */
  json: readonly number[];
  jsons: readonly number[];
}
