-- Subscriptions of the event bus, recorded beside pgmq's own bindings. No foreign key leads to pgmq's tables: a parallel restore
-- would load the two in any order.

create table public.event_bus_subscriptions (
  topic varchar(255) not null,
  queue varchar(47) not null,
  subscribed_at timestamptz not null default pg_catalog.now(),
  primary key (topic, queue)
);
alter table public.event_bus_subscriptions enable row level security, force row level security;

comment on table public.event_bus_subscriptions is
  'Which queue is bound to which topic. Written by event_bus_subscribe, event_bus_unsubscribe and event_bus_record; event_bus_check compares it with what pgmq has.';
comment on column public.event_bus_subscriptions.topic is 'The topic, or a pattern of topics where pgmq''s wildcards are used.';
comment on column public.event_bus_subscriptions.queue is 'The queue that is bound to it.';
comment on column public.event_bus_subscriptions.subscribed_at is 'When the subscription was recorded.';

alter function public.event_bus_subscribe(text, text) rows 1;
comment on function public.event_bus_subscribe(text, text) is
$$Creates a consumer's queue `<topic>__<consumer>` and its dead-letter queue `<topic>__<consumer>__dead`, and binds the queue to the topic; what is there already stays as it is. The subscription is recorded in event_bus_subscriptions, so that event_bus_check knows what must be there. It may be called any number of times, also at once from many sessions.
p_topic: words of a-z and 0-9, a letter first, joined by single '.', '_' or '-'. p_consumer: the same without '.', not 'dead', and not ending in _vt_idx, _pkey or _msg_id_seq. The queue's name has at most 41 characters.
Answers one row with the names of both queues.
Errors: 22004 for NULL, 22023 for a name that breaks these rules, 40001 from PostgreSQL above READ COMMITTED.
Since 0.1.0.$$;

alter function public.event_bus_unsubscribe(text, text) rows 1;
comment on function public.event_bus_unsubscribe(text, text) is
$$Ends a subscription: events of the topic are no longer sent to the queue, and the record of it is deleted. The queue, its dead-letter queue and what they hold stay.
p_topic: the topic or pattern that the queue is bound to. p_queue: the queue.
Answers one row with both. No row: there was no such binding and no record of one.
Errors: 22004 for NULL, 22023 for an empty text, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

alter function public.event_bus_record(text) rows 10;
comment on function public.event_bus_record(text) is
$$Records the bindings that pgmq has and event_bus_subscriptions lacks, such as those that a migration made with pgmq.bind_topic, so that event_bus_check knows what must be there.
p_queue: of this queue only; NULL means of all queues.
Answers one row for each subscription recorded now, by queue and topic.
Errors: 22023 for an empty name, 42704 for a queue that does not exist, 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;

alter function public.event_bus_check() rows 10;
comment on function public.event_bus_check() is
$$Lists what is wrong with the event bus; it changes nothing. Ask it after a restore.
Answers a row for each problem, in the order in which they are to be mended: the problem, the topic where it is about one, the queue, the call or command that mends it, and whether event_bus_repair does so by itself. Problems: pgmq_too_old (older than 1.11.1; nothing else is looked for), pgmq_other_owner (a role that is no superuser owns pgmq and could replace what is called as the extension's owner), missing_queue (a queue that is recorded or bound), missing_table (a queue without its table or its archive), missing_dead_letter_queue (the queue is named), missing_binding (it is recorded, and pgmq has none), unrecorded_subscription (pgmq has a binding of which there is no record), orphaned_dead_letter_queue (its queue is gone), other_owner (a queue's table belongs to another role than the extension's owner; unless that is a superuser, calls have no more than that role's rights there). No row: all is well.
Since 0.2.0.$$;

alter function public.event_bus_repair() rows 10;
comment on function public.event_bus_repair() is
$$Mends what event_bus_check lists as repairable: queues, tables and dead-letter queues that are missing are made, and recorded subscriptions that are not bound are bound. No message is lost: a table that is there is taken as it is. It may be called any number of times, also at once from many sessions.
Answers a row for each problem that was mended, as event_bus_check listed it. No row: there was nothing to mend.
Errors: 40001 from PostgreSQL above READ COMMITTED.
Since 0.2.0.$$;
