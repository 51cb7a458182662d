-- Something of each kind, and an empty queue: it has no oldest message, and its metric must not be there as a zero.
select hfs_lite_grant('watcher', 'monitor');

select job_claim('mail', 'running', 'w', clock_timestamp() + interval '1 hour', '{}', null);
select job_claim('mail', 'ended', 'w', '2026-01-02', '{}', '2026-01-01');
select job_fail(id, fencing_token, 'why', null)
  from job_claim('mail', 'failed', 'w', clock_timestamp() + interval '1 hour', '{}', null);
select queue_write('mail', '{}', clock_timestamp() - interval '1 hour', null), queue_write('mail', '{}', null, null);

select event_bus_subscribe('order.created', 'billing'), event_bus_subscribe('order.created', 'shipping'),
       event_bus_subscribe('order.deleted', 'billing');
select pgmq.create('without_dead_letters');
select event_bus_send('order.created', '{"payload": {"dedupeKey": "d"}}') from generate_series(1, 3);
select event_bus_read('order.created__billing', 3600, 2);
select event_bus_bury('order.created__billing', 1);
-- A problem of the bus: a subscription whose binding is lost.
delete from pgmq.topic_bindings where queue_name = 'order.deleted__billing';
