// Every function, called as applications call it, by every driver, through both doors: what goes in as JavaScript
// values, and what comes out, under which names and as which JavaScript types.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { caller, callerOn, doors, drivers, onlyRow, ownDatabase, unique } from './support.js';

const database = await ownDatabase();
const minutes = (n) => new Date(Date.now() + n * 60_000);
/** The same instant as ISO text with an offset other than UTC's. */
const withOffset = (date) => new Date(date.getTime() + 2 * 3_600_000).toISOString().replace('Z', '+02:00');

const called = new Set();
/** A call that is noted, so that none is forgotten. */
const noting = (call) => (name, ...args) => {
  called.add(`${name}/${args.length}`);
  return call(name, ...args);
};

const asAdmin = noting(callerOn(database.admin));

before(async () => {
  onlyRow(await asAdmin('hfs_lite_grant', 'operator', 'operator'), { hfs_lite_grant: 'void' });
});

for (const [driver, open] of Object.entries(drivers)) {
  for (const door of Object.keys(doors)) {
    describe(`${driver} through ${door}`, () => {
      let app, operator, call, operate;
      before(async () => {
        app = await open(database.connection(door));
        operator = await open(database.connection(door, 'operator'));
        call = noting(caller(app.query));
        operate = noting(caller(operator.query));
      });
      after(async () => {
        await app.close();
        await operator.close();
      });
      const inTransaction = (work) => app.transaction((query) => work(noting(caller(query))));

      const job = { id: 'uuid', kind: 'text', fencing_token: 'bigint', current_step: 'null', payload: 'jsonb' };

      test('a job is claimed, advanced, failed, claimed again and completed', async () => {
        const key = unique('job');
        const first = await inTransaction(async (call) => {
          const payload = { to: ['a', 'b'], n: 1.5 };
          const claim = await call('job_claim', 'mail', key, 'worker', minutes(5), payload, new Date());
          const row = onlyRow(claim, job);
          assert.deepEqual([row.kind, row.fencing_token, row.payload], ['mail', '1', payload]);
          const advanced = await call('job_advance', row.id, row.fencing_token, 'sent', new Date());
          assert.equal(onlyRow(advanced, { id: 'uuid' }).id, row.id);
          const failed = await call('job_fail', row.id, row.fencing_token, 'no answer', null);
          assert.equal(onlyRow(failed, { id: 'uuid' }).id, row.id);
          return row;
        });
        await inTransaction(async (call) => {
          const leaseEnd = withOffset(minutes(5));
          const claim = await call('job_claim', 'other', key, 'worker', leaseEnd, '{"other": true}', null);
          const row = onlyRow(claim, { ...job, current_step: 'text' });
          assert.deepEqual(row, { ...first, fencing_token: '2', current_step: 'sent' });
          const completed = await call('job_complete', row.id, row.fencing_token, withOffset(new Date()));
          assert.equal(onlyRow(completed, { id: 'uuid' }).id, row.id);
        });
      });

      test('a live lease, a done job and a stale token answer no row', async () => {
        const claim = [unique('job'), 'worker', minutes(5), '{}', null];
        const { id } = onlyRow(await call('job_claim', 'mail', ...claim), job);
        assert.deepEqual(await call('job_claim', 'mail', ...claim), []);
        assert.deepEqual(await call('job_advance', id, '2', 'sent', null), []);
        assert.deepEqual(await call('job_fail', id, 2, null, null), []);
        assert.deepEqual(await call('job_complete', id, 2n, null), []);
        onlyRow(await call('job_complete', id, 1, null), { id: 'uuid' });
        assert.deepEqual(await call('job_claim', 'mail', ...claim), []);
      });

      test('a fencing token is taken as the string that the driver gave, as a number and as a BigInt', async () => {
        const claim = await call('job_claim', 'mail', unique('job'), 'worker', minutes(5), '{}', null);
        const { id } = onlyRow(claim, job);
        for (const token of ['1', 1, 1n]) {
          onlyRow(await call('job_advance', id, token, 'sent', null), { id: 'uuid' });
        }
      });

      test('a heartbeat answers the end of the lease as a Date', async () => {
        const claim = await call('job_claim', 'mail', unique('job'), 'worker', minutes(5), '{}', null);
        const { id, fencing_token } = onlyRow(claim, job);
        const leaseEnd = minutes(10);
        const beat = { id: 'uuid', lease_expires_at: 'timestamptz' };
        for (const end of [leaseEnd, withOffset(leaseEnd), minutes(1)]) {
          const answer = onlyRow(await call('job_heartbeat', id, fencing_token, end, null), beat);
          assert.deepEqual(answer, { id, lease_expires_at: leaseEnd });
        }
        assert.deepEqual(await call('job_heartbeat', id, 2n, leaseEnd, new Date()), []);
      });

      test('many jobs are claimed, completed and failed in one call each', async () => {
        const keys = [unique('job'), unique('a "job", \\ and {more}'), unique('job')];
        const payloads = [{ n: 1.5 }, { quoted: '"\\,{}' }, { third: true }];
        // A driver makes an array literal of a JavaScript array: of objects, and of JSON as text.
        for (const [run, values] of [payloads, payloads.map((payload) => JSON.stringify(payload))].entries()) {
          const names = keys.map((key) => `${key} ${run}`);
          const claim = ['mail', names, 'worker', minutes(5), values, new Date()];
          const rows = await inTransaction((call) => call('job_claim_many', ...claim));
          for (const row of rows) onlyRow([row], { job_key: 'text', ...job });
          const claimed = names.map((name) => rows.find((row) => row.job_key === name));
          assert.deepEqual(claimed.map((row) => row.payload), payloads);
          assert.deepEqual(await call('job_claim_many', ...claim), []);

          const [first, second, third] = claimed.map((row) => row.id);
          const verdicts = { id: 'uuid', verdict: 'text' };
          const completed = await call('job_complete_many', [third, first], ['1', 2n], withOffset(new Date()));
          for (const row of completed) onlyRow([row], verdicts);
          assert.deepEqual(completed, [{ id: third, verdict: 'done' }, { id: first, verdict: 'stale' }]);
          const failed = await call('job_fail_many', `{${first},${second}}`, '{1,1}', ['no "answer"', null], null);
          for (const row of failed) onlyRow([row], verdicts);
          assert.deepEqual(failed.map((row) => row.verdict), ['done', 'done']);
          assert.deepEqual(await call('job_complete_many', [], [], null), []);
        }
      });

      test('a minute is claimed once, whether it comes as a Date or as text with an offset', async () => {
        const name = unique('cron');
        const minute = new Date('2026-03-29T01:30:00Z');
        const within = new Date(minute.getTime() + 42_500);
        const tick = { name: 'text', minute: 'timestamptz' };
        await inTransaction(async (call) => {
          assert.deepEqual(onlyRow(await call('job_tick_claim', name, within), tick), { name, minute });
        });
        assert.deepEqual(await call('job_tick_claim', name, withOffset(within), new Date()), []);
        const next = withOffset(new Date(minute.getTime() + 60_000));
        onlyRow(await call('job_tick_claim', name, next, null), tick);
      });

      test('rows of the outbox come in order, with their ids as correlation ids where they have none', async () => {
        const topic = unique('queue');
        await inTransaction(async (call) => {
          const written = await call('queue_write', topic, { second: true }, new Date('2026-01-02T00:00:00Z'), null);
          onlyRow(written, { queue_write: 'void' });
          await call('queue_write', topic, '{"first": true}', '2026-01-02T00:59:00+02:00', 'request-7');
          await call('queue_write', topic, JSON.stringify([3]), null, null);
        });
        await inTransaction(async (call) => {
          const rows = await call('queue_waiting', 10);
          const columns = { id: 'uuid', queue: 'text', payload: 'jsonb', correlationId: 'text' };
          for (const row of rows) onlyRow([row], columns);
          assert.deepEqual(rows.map((row) => row.payload), [{ first: true }, { second: true }, [3]]);
          assert.deepEqual(rows.map((row) => row.correlationId), ['request-7', rows[1].id, rows[2].id]);
          const [first, ...rest] = rows.map((row) => row.id);
          onlyRow(await call('queue_mark_sent', [first], new Date()), { queue_mark_sent: 'void' });
          await call('queue_mark_sent', `{${rest.join(',')}}`, withOffset(new Date()));
          await call('queue_mark_sent', [], null);
          await call('queue_mark_sent', '{}', null);
        });
        assert.deepEqual(await call('queue_waiting', '10'), []);
      });

      test('many rows are written in one call, and their ids come in order', async () => {
        const payloads = [{ n: 3 }, { n: 1 }, { n: 2 }];
        await inTransaction(async (call) => {
          const written = await call('queue_write_many', unique('queue'), payloads, null, 'request-8');
          for (const row of written) onlyRow([row], { id: 'uuid' });
          const waiting = await call('queue_waiting', 10);
          assert.deepEqual(waiting.map((row) => row.payload), payloads);
          assert.deepEqual(waiting.map((row) => row.id), written.map((row) => row.id));
          await call('queue_mark_sent', waiting.map((row) => row.id), null);
        });
      });

      test('what is rolled back was never written', async () => {
        const given = new Error('the business said no');
        const work = inTransaction(async (call) => {
          await call('queue_write', 'mail', '{}', null, null);
          throw given;
        });
        await assert.rejects(work, given);
        assert.deepEqual(await call('queue_waiting', 10), []);
      });

      test('a delivery is claimed once', async () => {
        const id = unique('event');
        await inTransaction(async (call) => {
          assert.deepEqual(onlyRow(await call('inbox_claim_event', 'bus', id), { event_id: 'text' }), { event_id: id });
          assert.deepEqual(await call('inbox_claim_event', 'bus', id), []);
        });
        assert.deepEqual(onlyRow(await operate('inbox_forget', 'bus', id), { event_id: 'text' }), { event_id: id });
        assert.deepEqual(await operate('inbox_forget', 'bus', id), []);
        onlyRow(await call('inbox_claim_event', 'bus', id), { event_id: 'text' });
      });

      test('of many deliveries the new ones are answered', async () => {
        const [one, two, three] = [unique('event'), unique('event "2", {}'), unique('event')];
        onlyRow(await call('inbox_claim_event', 'bus', one), { event_id: 'text' });
        const claimed = await call('inbox_claim_events', 'bus', [three, one, two, three]);
        for (const row of claimed) onlyRow([row], { event_id: 'text' });
        assert.deepEqual(claimed.map((row) => row.event_id), [three, two]);
        assert.deepEqual(await call('inbox_claim_events', 'bus', [one, two]), []);
      });

      test('a client receipt answers booleans, and its outcome as a parsed object', async () => {
        const key = unique('key');
        const claim = { request_fingerprint: 'text', outcome: 'null', incomplete: 'boolean' };
        const fingerprint = 'f'.repeat(64);
        await inTransaction(async (call) => {
          const row = onlyRow(await call('inbox_claim_client', 'client:1', key, fingerprint), claim);
          assert.deepEqual(row, { request_fingerprint: fingerprint, outcome: null, incomplete: false });
        });
        assert.equal(onlyRow(await call('inbox_claim_client', 'client:1', key, 'other', null), claim).incomplete, true);
        const outcome = { value: null, list: [1, 'two', { three: 3 }] };
        const saved = await call('inbox_save_client_outcome', 'client:1', key, outcome);
        assert.deepEqual(onlyRow(saved, { outcome: 'jsonb' }), { outcome });
        assert.deepEqual(await call('inbox_save_client_outcome', 'client:1', key, '{"value": 2}'), []);
        const replay = onlyRow(await call('inbox_claim_client', 'client:1', key, fingerprint, new Date()), {
          ...claim,
          outcome: 'jsonb',
        });
        assert.deepEqual(replay, { request_fingerprint: fingerprint, outcome, incomplete: false });
      });

      test('a request is claimed, incomplete, then replayed', async () => {
        const request = ['42', 'pay', unique('key')];
        const columns = { source: 'text', request_fingerprint: 'text', outcome: 'null', state: 'text' };
        const claimed = await inTransaction((call) => call('inbox_claim_request', ...request, { b: 1, a: [2] }));
        const row = onlyRow(claimed, columns);
        assert.deepEqual([row.source, row.state], ['client:42:pay', 'claimed']);
        assert.match(row.request_fingerprint, /^[0-9a-f]{64}$/);
        const again = await call('inbox_claim_request', ...request, '{"a": [2.0], "b": 1}', new Date());
        assert.deepEqual(onlyRow(again, columns), { ...row, state: 'incomplete' });
        await call('inbox_save_client_outcome', row.source, request[2], JSON.stringify({ value: 'paid' }));
        const replay = await call('inbox_claim_request', ...request, '{"a": [2], "b": 1}', null);
        assert.deepEqual(onlyRow(replay, { ...columns, outcome: 'jsonb' }), {
          ...row,
          outcome: { value: 'paid' },
          state: 'replay',
        });
      });

      test('completed receipts are swept, and their number comes as a number', async () => {
        const key = unique('key');
        const longAgo = '2020-01-01T00:00:00+02:00';
        await call('inbox_claim_client', 'client:1', key, 'f', longAgo);
        await call('inbox_save_client_outcome', 'client:1', key, '{}');
        const cutoff = new Date('2020-01-02T00:00:00Z');
        const swept = await inTransaction((call) => call('inbox_sweep_clients', cutoff, 100));
        assert.deepEqual(onlyRow(swept, { deleted_count: 'integer' }), { deleted_count: 1 });
        const none = await call('inbox_sweep_clients', withOffset(cutoff), '100');
        assert.deepEqual(onlyRow(none, { deleted_count: 'integer' }), { deleted_count: 0 });
      });

      test('sweeps answer the number of rows as a number', async () => {
        const cutoff = new Date('2020-01-01T00:00:00Z');
        const none = { deleted_count: 0 };
        for (const sweep of ['jobs_sweep', 'queue_sweep', 'inbox_sweep_events']) {
          assert.deepEqual(onlyRow(await operate(sweep, cutoff, 100), { deleted_count: 'integer' }), none);
        }
        const topic = unique('placed');
        const { queue } = (await operate('event_bus_subscribe', topic, 'mailer'))[0];
        const swept = await operate('event_bus_sweep', queue, withOffset(cutoff), '100');
        assert.deepEqual(onlyRow(swept, { deleted_count: 'integer' }), none);
      });

      test('a subscription is recorded, checked, repaired and ended', async () => {
        const topic = unique('placed');
        const { queue } = (await operate('event_bus_subscribe', topic, 'mailer'))[0];
        const both = { topic: 'text', queue: 'text' };
        await database.admin.query('delete from event_bus_subscriptions where queue = $1', [queue]);
        const recorded = await operate('event_bus_record', queue);
        assert.deepEqual(onlyRow(recorded, both), { topic, queue });
        assert.deepEqual(await operate('event_bus_record'), []);
        await database.admin.query('delete from pgmq.topic_bindings where queue_name = $1', [queue]);
        const problem = { problem: 'text', topic: 'text', queue: 'text', mend: 'text' };
        const found = onlyRow(await operate('event_bus_check'), { ...problem, repairable: 'boolean' });
        assert.deepEqual([found.problem, found.topic, found.repairable], ['missing_binding', topic, true]);
        assert.equal(onlyRow(await operate('event_bus_repair'), problem).queue, queue);
        assert.deepEqual(onlyRow(await operate('event_bus_unsubscribe', topic, queue), both), { topic, queue });
      });

      test('health is a number with its unit, and an age is in words', async () => {
        const health = await operate('hfs_lite_health');
        const waiting = health.filter((row) => row.area === 'queue' && row.metric === 'waiting');
        const { value } = onlyRow(waiting, { area: 'text', name: 'text', metric: 'text', value: 'double precision', unit: 'text' });
        assert.equal(typeof value, 'number');
        const age = await operate('hfs_lite_age', '2026-01-01T00:00:00Z', '2026-01-01T02:00:00Z');
        assert.deepEqual(onlyRow(age, { hfs_lite_age: 'text' }), { hfs_lite_age: '2 hours' });
        onlyRow(await operate('hfs_lite_age', null), { hfs_lite_age: 'null' });
      });

      test('canonical JSON and its fingerprint come as strings', async () => {
        const canonical = await call('canonical_json', { b: 1e21, a: 'ü', 10: null });
        assert.equal(onlyRow(canonical, { canonical_json: 'text' }).canonical_json, '{"10":null,"a":"ü","b":1e+21}');
        const fingerprint = await call('request_fingerprint', '{}');
        assert.equal(
          onlyRow(fingerprint, { request_fingerprint: 'text' }).request_fingerprint,
          '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a',
        );
        onlyRow(await call('canonical_json', null), { canonical_json: 'null' });
      });

      const delivery = {
        msg_id: 'bigint', read_ct: 'integer', enqueued_at: 'timestamptz', vt: 'timestamptz',
        message: 'jsonb', headers: 'null',
      };
      const letter = {
        msg_id: 'bigint', attempts: 'integer', enqueued_at: 'timestamptz', buried_at: 'timestamptz', reason: 'text',
        message: 'jsonb', headers: 'null',
      };

      test('an event is sent, read and archived by its delivery', async () => {
        const topic = unique('placed');
        const queue = `${topic}__mailer`;
        const subscribed = await operate('event_bus_subscribe', topic, 'mailer');
        assert.deepEqual(onlyRow(subscribed, { queue: 'text', dead_letter_queue: 'text' }), {
          queue,
          dead_letter_queue: `${queue}__dead`,
        });
        const event = { eventId: 'e1', eventName: topic, payload: { dedupeKey: 'k' } };
        const envelope = { ...event, metadata: { correlationId: 'c' } };
        await inTransaction(async (call) => {
          const sent = await call('event_bus_send', topic, envelope);
          assert.deepEqual(onlyRow(sent, { queues: 'integer' }), { queues: 1 });
          const built = await call('event_bus_send', 'e1', topic, { dedupeKey: 'k' }, 'c');
          assert.deepEqual(onlyRow(built, { queues: 'integer' }), { queues: 1 });
        });
        const sent = await call('event_bus_send', 'e1', topic, '{"dedupeKey": "k"}', null);
        assert.deepEqual(onlyRow(sent, { queues: 'integer' }), { queues: 1 });

        const rows = await inTransaction((call) => call('event_bus_read', queue, 30, 10));
        for (const row of rows) onlyRow([row], delivery);
        assert.deepEqual(rows.map((row) => [row.msg_id, row.read_ct]), [['1', 1], ['2', 1], ['3', 1]]);
        assert.deepEqual(rows.map((row) => row.message), [envelope, envelope, event]);
        assert.deepEqual(await call('event_bus_read', queue, '30', '10'), []);

        assert.deepEqual(await call('event_bus_archive', queue, '1', 2), []);
        const archived = { msg_id: 'bigint' };
        assert.equal(onlyRow(await call('event_bus_archive', queue, '1', 1), archived).msg_id, '1');
        assert.equal(onlyRow(await call('event_bus_archive', queue, 2), archived).msg_id, '2');
        assert.equal(onlyRow(await call('event_bus_archive', queue, 3n, null), archived).msg_id, '3');
        assert.deepEqual(await call('event_bus_archive', queue, '3', 1), []);
      });

      test('many events are sent, hidden for longer and archived by their deliveries', async () => {
        const topic = unique('placed');
        const queue = `${topic}__mailer`;
        await operate('event_bus_subscribe', topic, 'mailer');
        const events = ['a', 'b', 'c'].map((dedupeKey) => ({ payload: { dedupeKey } }));
        const sent = await inTransaction((call) => call('event_bus_send_many', topic, events));
        assert.deepEqual(onlyRow(sent, { queues: 'integer' }), { queues: 1 });

        const rows = await call('event_bus_read', queue, 30, 10);
        assert.deepEqual(rows.map((row) => row.message), events);
        const extended = { msg_id: 'bigint', vt: 'timestamptz' };
        const { vt } = onlyRow(await call('event_bus_extend', queue, rows[0].msg_id, rows[0].read_ct, 300), extended);
        assert(vt > rows[0].vt);
        assert.deepEqual(await call('event_bus_extend', queue, 1, 2, 300), []);

        const ids = rows.map((row) => row.msg_id);
        const archived = await call('event_bus_archive_many', queue, [...ids, '99'], [1, 2, 1, 1]);
        for (const row of archived) onlyRow([row], { msg_id: 'bigint', verdict: 'text' });
        assert.deepEqual(archived.map((row) => row.verdict), ['done', 'stale', 'done', 'unknown']);
      });

      test('a message is buried, shown and requeued', async () => {
        const topic = unique('placed');
        const queue = `${topic}__mailer`;
        await operate('event_bus_subscribe', topic, 'mailer');
        const bury = async (...more) => {
          await call('event_bus_send', 'e', topic, { dedupeKey: 'k' }, null);
          const { msg_id } = onlyRow(await call('event_bus_read', queue, 30, 1), delivery);
          assert.deepEqual(await call('event_bus_bury', queue, msg_id, null, 2), []);
          const buried = await inTransaction((call) => call('event_bus_bury', queue, msg_id, ...more));
          return onlyRow(buried, { msg_id: 'bigint' }).msg_id;
        };
        assert.deepEqual([await bury('no such address', 1), await bury('gave up'), await bury()], ['1', '2', '3']);

        const letters = await call('event_bus_dead_letters', queue);
        onlyRow([letters[0]], letter);
        onlyRow([letters[2]], { ...letter, reason: 'null' });
        assert.deepEqual(letters.map((row) => [row.attempts, row.reason]), [
          [1, 'no such address'],
          [1, 'gave up'],
          [1, null],
        ]);
        assert.deepEqual(await call('event_bus_dead_letters', queue, 1), letters.slice(0, 1));
        const all = (await operate('event_bus_all_dead_letters')).filter((row) => row.queue === queue);
        assert.deepEqual(all, letters.map((row) => ({ queue, ...row })));
        assert.equal((await operate('event_bus_all_dead_letters', 1)).filter((row) => row.queue === queue).length, 1);

        const requeued = await inTransaction((call) => call('event_bus_requeue', queue, letters[0].msg_id));
        const { msg_id } = onlyRow(requeued, { msg_id: 'bigint' });
        assert.deepEqual(await call('event_bus_requeue', queue, letters[0].msg_id), []);
        const again = onlyRow(await call('event_bus_read', queue, 30, 1), { ...delivery, headers: 'jsonb' });
        assert.deepEqual([again.msg_id, again.read_ct], [msg_id, 1]);
        assert.equal(again.headers.hfs_lite.requeues, 1);
      });
    });
  }
}

test('the back end may not do what operators do, and a role whose rights were taken back nothing', async (t) => {
  const denied = { code: '42501' };
  const app = callerOn(await database.client(t, 'server'));
  await assert.rejects(app('event_bus_subscribe', 'placed', 'mailer'), denied);
  await assert.rejects(app('inbox_forget', 'bus', '1'), denied);
  await assert.rejects(app('hfs_lite_grant', 'app_be'), denied);

  await database.admin.query('CREATE ROLE former LOGIN');
  onlyRow(await asAdmin('hfs_lite_grant', 'former'), { hfs_lite_grant: 'void' });
  const former = callerOn(await database.client(t, 'server', 'former'));
  assert.deepEqual(await former('queue_waiting', 1), []);
  onlyRow(await asAdmin('hfs_lite_revoke', 'former'), { hfs_lite_revoke: 'void' });
  await assert.rejects(former('queue_waiting', 1), denied);
});

test('no function was left out, with or without its defaults', async () => {
  const { rows } = await database.admin.query(`
    SELECT p.proname || '/' || n AS function
      FROM pg_depend d
      JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'hfs_lite'
      JOIN pg_proc p ON p.oid = d.objid
     CROSS JOIN generate_series(p.pronargs::integer - p.pronargdefaults, p.pronargs) n
     WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'`);
  assert.deepEqual([...called].sort(), rows.map((row) => row.function).sort());
});
