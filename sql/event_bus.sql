-- The event bus: its queues, archives and bindings are pgmq's.

-- What event_bus_send finds a topic's bindings by: the whole of a literal pattern, and what stands before a pattern's first wildcard,
-- with a '*' behind it. It goes with the extension, and where it is lost with a table that pgmq makes anew, sending is slower only.
create index hfs_lite_topic_heads_idx on pgmq.topic_bindings (
  (pg_catalog.regexp_replace(pg_catalog.translate(pattern, '#', '*'), '[*].*', '*') collate "C"));
alter index pgmq.hfs_lite_topic_heads_idx depends on extension hfs_lite;

alter function public.event_bus_send(text, jsonb) rows 1;
comment on function public.event_bus_send(text, jsonb) is
$$Sends an envelope to every queue bound to a topic, in the caller's transaction: rolled back, nothing was sent.
p_topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters. p_envelope: a JSON object; its payload is an object with a non-empty string dedupeKey; where present, eventName is the topic, eventId a string of 1 to 200 characters, and metadata an object whose correlationId, where present, is a string of 1 to 200 characters without control characters. Other fields pass untouched.
Answers one row with the number of queues it was sent to; 0 where none is bound. A bound queue whose table is gone is passed over with a warning (42P01).
Errors: 22004 for NULL, 22023 for a topic or an envelope that breaks these rules, 22001 for a topic over its width.
Since 0.1.0.$$;

alter function public.event_bus_send(text, text, jsonb, varchar) rows 1;
comment on function public.event_bus_send(text, text, jsonb, varchar) is
$$Sends an event to every queue bound to its name, in the caller's transaction; the envelope {"eventId", "eventName", "payload", "metadata": {"correlationId"}} is built inside, without metadata where the correlation id is NULL.
p_event_id: the event's id, 1 to 200 characters. p_event_name: its name, which is the topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters. p_payload: a JSON object with a non-empty string dedupeKey. p_correlation_id: NULL, or 1 to 200 characters without control characters.
Answers one row with the number of queues it was sent to; 0 where none is bound. A bound queue whose table is gone is passed over with a warning (42P01).
Errors: 22004 for a NULL id, name or payload, 22023 for a value that breaks these rules, 22001 for text over its width.
Since 0.1.0.$$;

alter function public.event_bus_send_many(text, jsonb[]) rows 1;
comment on function public.event_bus_send_many(text, jsonb[]) is
$$Sends many envelopes to every queue bound to a topic, in the caller's transaction; each as event_bus_send does. All of them are checked before any is sent, and a queue has them in the order in which they were passed.
p_topic: letters, digits, '.', '_' and '-'; no '.' first, last or twice running; at most 255 characters. p_envelopes: at most 10,000, each as event_bus_send takes it.
Answers one row with the number of queues that they were sent to; 0 where none is bound. No row: the array was empty. A bound queue whose table is gone is passed over with a warning (42P01).
Errors: 22004 for NULL, also inside the array, 22023 for a topic or an envelope that breaks these rules, an array of more than one dimension or of more than 10,000 elements, 22001 for a topic over its width; a message names the element as p_envelopes[3], counted from 1.
Since 0.3.0.$$;

alter function public.event_bus_read(text, integer, integer) rows 10;
comment on function public.event_bus_read(text, integer, integer) is
$$Takes visible messages from a queue, those that became visible first, and hides them for a while. Commit it before handling them: a delivery that is rolled back is not counted, and a message that always fails would come back for ever.
p_queue: any queue that pgmq has. p_vt: the visibility timeout, 0 or more seconds. p_qty: how many messages at most, 1 to 10,000.
Answers the messages by msg_id: msg_id, read_ct (how often it was delivered, this time counted; it is the fencing token of this delivery), enqueued_at, vt (until when it is hidden), message and headers. No row: nothing is visible.
Errors: 22004 for NULL, 22023 for an empty name or out of range, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.event_bus_archive(text, bigint, integer) rows 1;
comment on function public.event_bus_archive(text, bigint, integer) is
$$Ends a message as handled: out of the queue, into its archive, in one atomic move.
p_queue: any queue that pgmq has. p_msg_id: the message's id. p_read_ct: the read_ct of the delivery that handled it; with it, the message goes only while that delivery still holds it. NULL: whoever holds it.
Answers one row with the message's id. No row: it is gone, or a later delivery holds it.
Errors: 22004 for a NULL queue or id, 22023 for an empty name, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.event_bus_archive_many(text, bigint[], integer[]) rows 100;
-- Each item is a look by its key, and never a scan, whatever the planner thinks of how large the table is.
alter function public.event_bus_archive_many(text, bigint[], integer[]) set enable_seqscan = off;
alter function public.event_bus_archive_many(text, bigint[], integer[]) set enable_bitmapscan = off;
comment on function public.event_bus_archive_many(text, bigint[], integer[]) is
$$Ends many messages as handled in one call, each as event_bus_archive does: if this delivery still holds it.
p_queue: any queue that pgmq has. p_msg_ids: the messages' ids, at most 10,000. p_read_cts: the read_ct of each one's delivery.
Answers one row for each item, in their order: the message's id and a verdict. done: this call archived it. stale: a later delivery holds it. unknown: it is not in the queue (any more). Equal items have one verdict. What another call takes while this one waits for it may answer stale.
Errors: 22004 for NULL, also inside an array, 22023 for an empty name, arrays of two lengths, of more than one dimension or of more than 10,000 elements; a message names the element as p_msg_ids[3], counted from 1. 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

alter function public.event_bus_extend(text, bigint, integer, integer) rows 1;
comment on function public.event_bus_extend(text, bigint, integer, integer) is
$$Hides a message for longer, if this delivery still holds it; also where its timeout has ended and nobody has read it since. A message never becomes visible earlier by it.
p_queue: any queue that pgmq has. p_msg_id: the message's id. p_read_ct: the read_ct of the delivery that works on it. p_vt: for how many seconds from now on, 0 or more.
Answers one row with the message's id and vt (until when it is hidden now). No row: it is gone, or a later delivery holds it; the caller must stop.
Errors: 22004 for NULL, 22023 for an empty name or a timeout below 0, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.3.0.$$;

alter function public.event_bus_bury(text, bigint, text, integer) rows 1;
comment on function public.event_bus_bury(text, bigint, text, integer) is
$$Moves a message into the dead-letter queue <queue>__dead, with its headers, in one atomic move; twice, or by several at once, makes one dead letter. A note stands in the dead letter's headers under the key hfs_lite: source_msg_id, attempts (its read_ct), first_enqueued_at, buried_at, reason, requeues.
p_queue: any queue that pgmq has, and that has a dead-letter queue. p_msg_id: the message's id. p_reason: why; NULL, or at least one character. p_read_ct: the read_ct of the delivery that gives up; with it, the message goes only while that delivery still holds it. NULL: whoever holds it.
Answers one row with the dead letter's id. No row: the message is gone, or a later delivery holds it.
Errors: 22004 for a NULL queue or id, 22023 for an empty text, 42704 for a queue or a dead-letter queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.event_bus_dead_letters(text, integer) rows 100;
comment on function public.event_bus_dead_letters(text, integer) is
$$Shows the dead letters of a consumer's queue, oldest first; it hides and counts nothing.
p_queue: the consumer's queue, without __dead. p_limit: how many at most, 1 to 10,000; 100 unless given.
Answers for each dead letter: msg_id, attempts (how often it had been delivered), enqueued_at (when it was enqueued the very first time), buried_at, reason, message, and headers as they were, without the note. A dead letter that something else put there answers attempts 0, its own time and no reason.
Errors: 22004 for NULL, 22023 for an empty name or out of range, 42704 for a dead-letter queue that does not exist.
Since 0.1.0.$$;

alter function public.event_bus_all_dead_letters(integer) rows 100;
comment on function public.event_bus_all_dead_letters(integer) is
$$Shows the dead letters of all queues, queue by queue in the order of their names, oldest first; it hides and counts nothing. The view hfs_lite_dead_letters shows them with their ages in words.
p_limit: how many of each queue at most, 1 to 10,000; 100 unless given.
Answers the queue's name, without __dead, and what event_bus_dead_letters answers of it.
Errors: 22004 for NULL, 22023 out of range.
Since 0.2.0.$$;

alter function public.event_bus_requeue(text, bigint) rows 1;
comment on function public.event_bus_requeue(text, bigint) is
$$Moves one dead letter back into its queue, visible at once and with a fresh budget of deliveries, in one atomic move. Its headers keep first_enqueued_at and requeues under the key hfs_lite, so that the next burial knows.
p_queue: the consumer's queue, without __dead. p_msg_id: the dead letter's id.
Answers one row with the message's new id. No row: there is no such dead letter (any more).
Errors: 22004 for NULL, 22023 for an empty name, 42704 for a queue or a dead-letter queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.event_bus_sweep(text, timestamptz, integer) rows 1;
-- A sweep reads its index from the old end, and never scans, whatever the planner thinks that it would save.
alter function public.event_bus_sweep(text, timestamptz, integer) set enable_seqscan = off;
alter function public.event_bus_sweep(text, timestamptz, integer) set enable_bitmapscan = off;
comment on function public.event_bus_sweep(text, timestamptz, integer) is
$$Deletes old messages from a queue's archive, oldest first, skipping locked ones; what is in the queue stays.
p_queue: any queue that pgmq has. p_cutoff: messages archived before this instant go. p_batch: how many at most, 1 to 10,000.
Answers one row with the number of deleted messages.
Errors: 22004 for NULL, 22023 for an empty name, out of range or for an infinite instant, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;
