-- A tour of hfs_lite: one day in a small shop, told by real calls and their real answers. make run shows it.
-- Each statement is printed before its answer. The answers depend on nothing but the calls; ids and the clock's instants aside.
\set QUIET on
\pset null '∅'
set client_min_messages = warning;

create extension hfs_lite cascade;
select public.hfs_lite_grant('operator', 'operator') \g /dev/null
create table public.orders (id text primary key, customer text not null, total text not null);
grant select, insert on public.orders to app_be;

\echo
\echo '1. The operator subscribes two consumers to an event.'
\echo
\set ECHO queries
set role operator;
select * from public.event_bus_subscribe('order.placed', 'mailer');
select * from public.event_bus_subscribe('order.placed', 'stock');
\set ECHO none

\echo
\echo '2. A customer places an order. One transaction claims the receipt, writes the order, its outbox row and its event,'
\echo '   and saves what the customer is answered.'
\echo
\set ECHO queries
set role app_be;
begin;
select source, outcome, state from public.inbox_claim_request('ann', 'checkout', 'key-1', '{"basket": ["tea", "cup"], "total": "12.50"}');
insert into public.orders values ('o-1', 'ann', '12.50');
select * from public.queue_write('fulfil', '{"orderId": "o-1"}', null, 'request-1');
select * from public.event_bus_send('e-1', 'order.placed', '{"dedupeKey": "o-1", "orderId": "o-1"}', 'request-1');
select * from public.inbox_save_client_outcome('client:ann:checkout', 'key-1', '{"value": {"orderId": "o-1"}}');
commit;
\set ECHO none

\echo
\echo '3. The network was slow, and her browser asks again. Nothing is done twice: the outcome is replayed, though the keys'
\echo '   of the request come in another order.'
\echo
\set ECHO queries
select outcome, state from public.inbox_claim_request('ann', 'checkout', 'key-1', '{"total": "12.50", "basket": ["tea", "cup"]}');
\set ECHO none

\echo
\echo '4. Another basket under the same key is refused.'
\echo
\set ON_ERROR_STOP off
\set VERBOSITY verbose
\set ECHO queries
select outcome, state from public.inbox_claim_request('ann', 'checkout', 'key-1', '{"total": "99.00", "basket": ["pot"]}');
\set ECHO none
\set VERBOSITY default
\set ON_ERROR_STOP on

\echo
\echo '5. A relay carries the outbox on: it takes the waiting rows, publishes them, and marks them, in one transaction.'
\echo
\set ECHO queries
begin;
select id, queue, payload, "correlationId" from public.queue_waiting(100);
\set ECHO none
select array_agg(id) as ids from public.queue_waiting(100) \gset
\set ECHO queries
select * from public.queue_mark_sent(:'ids', null);
commit;
select count(*) as still_waiting from public.queue_waiting(100);
\set ECHO none

\echo
\echo '6. A worker claims the job with token 1, notes a step, and dies. (The instants are passed in, to make the story short.)'
\echo
\set ECHO queries
select kind, fencing_token, current_step, payload from public.job_claim('fulfil', 'o-1', 'worker-a', '2030-01-01 09:01Z', '{"orderId": "o-1"}', '2030-01-01 09:00Z');
\set ECHO none
reset role;
select id as job from public.jobs where job_key = 'o-1' \gset
set role app_be;
\set ECHO queries
select * from public.job_advance(:'job', 1, 'packed', '2030-01-01 09:00:30Z');
\set ECHO none

\echo
\echo '7. While its lease lasts, nobody else gets the job. After that another worker does, with token 2, and goes on from the step.'
\echo
\set ECHO queries
select fencing_token, current_step from public.job_claim('fulfil', 'o-1', 'worker-b', '2030-01-01 09:02Z', '{}', '2030-01-01 09:00:45Z');
select fencing_token, current_step from public.job_claim('fulfil', 'o-1', 'worker-b', '2030-01-01 09:03Z', '{}', '2030-01-01 09:02Z');
\set ECHO none

\echo
\echo '8. The first worker was not dead, only slow. Its completion is refused: no row. The second one''s is not.'
\echo
\set ECHO queries
select * from public.job_complete(:'job', 1, '2030-01-01 09:02:10Z');
select * from public.job_complete(:'job', 2, '2030-01-01 09:02:20Z');
\set ECHO none

\echo
\echo '9. The event went to both consumers. The stock keeper handles its copy: read, do the work, archive.'
\echo
\set ECHO queries
select msg_id, read_ct, message -> 'payload' as payload from public.event_bus_read('order.placed__stock', 30, 10);
select * from public.event_bus_archive('order.placed__stock', 1, 1);
\set ECHO none

\echo
\echo '10. The mailer fails, again and again. After its third delivery it gives up, and the message is buried.'
\echo
\set ECHO queries
select msg_id, read_ct from public.event_bus_read('order.placed__mailer', 0, 10);
select msg_id, read_ct from public.event_bus_read('order.placed__mailer', 0, 10);
select msg_id, read_ct from public.event_bus_read('order.placed__mailer', 0, 10);
select * from public.event_bus_bury('order.placed__mailer', 1, 'smtp: 550 no such mailbox', 3);
\set ECHO none

\echo
\echo '11. An operator reads the dead letter, mends the address, and sends the message back, with a fresh budget of deliveries.'
\echo
\set ECHO queries
set role operator;
select msg_id, attempts, reason, message -> 'payload' as payload from public.event_bus_dead_letters('order.placed__mailer');
select * from public.event_bus_requeue('order.placed__mailer', 1);
set role app_be;
select msg_id, read_ct, headers -> 'hfs_lite' -> 'requeues' as requeues from public.event_bus_read('order.placed__mailer', 30, 10);
select * from public.event_bus_archive('order.placed__mailer', 2, 1);
\set ECHO none

\echo
\echo '12. At nine, two schedulers wake. One of them gets to run the minute.'
\echo
\set ECHO queries
select name, minute at time zone 'UTC' as minute from public.job_tick_claim('daily-report', '2030-01-01 09:00:03Z');
select name, minute at time zone 'UTC' as minute from public.job_tick_claim('daily-report', '2030-01-01 09:00:04Z');
\set ECHO none
