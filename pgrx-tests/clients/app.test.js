// The application's own loops (app/), as the README shows them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { consumeBatch } from './app/consumer.js';
import { reasonOf, transaction } from './app/database.js';
import { performOnce, ReceiptIncomplete } from './app/receipt.js';
import { relayBatch } from './app/relay.js';
import { runJob } from './app/worker.js';
import { callerOn, doors, ownDatabase, unique } from './support.js';

const database = await ownDatabase();
const asAdmin = callerOn(database.admin);
await database.admin.query('CREATE TABLE effects (what text, by text); GRANT INSERT ON effects TO app_be');

/** A business write, in the caller's transaction. */
const note = (tx, what, by) => tx.query('INSERT INTO effects VALUES ($1, $2)', [what, by]);
const notesOn = async (what) => {
  const { rows } = await database.admin.query('SELECT by FROM effects WHERE what = $1 ORDER BY by', [what]);
  return rows.map((row) => row.by);
};
const jobOf = async (key) =>
  (await database.admin.query('SELECT status, error, current_step FROM jobs WHERE job_key = $1', [key])).rows[0];
const subscribed = async () => {
  const topic = unique('placed');
  await asAdmin('event_bus_subscribe', topic, 'mailer');
  return { topic, queue: `${topic}__mailer` };
};
const lettersOf = (queue) => asAdmin('event_bus_dead_letters', queue);

for (const door of Object.keys(doors)) {
  describe(`through ${door}`, () => {
    let pool, call;
    before(() => {
      pool = new pg.Pool({ ...database.connection(door), max: 4 });
      call = callerOn(pool);
    });
    after(() => pool.end());

    describe('a worker', () => {
      const jobFor = (worker, key, more) => ({ kind: 'mail', key, worker, payload: { to: 'a' }, ...more });
      const inAnHour = () => new Date(Date.now() + 3_600_000);

      test('does a job once', async () => {
        const key = unique('job');
        let jobs = [];
        const handle = async (job) => jobs.push(job);
        assert.equal(await runJob(pool, jobFor('a', key), handle), 'done');
        assert.equal(await runJob(pool, jobFor('b', key), handle), 'refused');
        assert.deepEqual(jobs.map((job) => [job.kind, job.fencing_token, job.payload]), [['mail', '1', { to: 'a' }]]);
      });

      test('is refused while another one holds the lease', async () => {
        const key = unique('job');
        const outcome = await runJob(pool, jobFor('a', key), async () => {
          assert.equal(await runJob(pool, jobFor('b', key), () => assert.fail('it was handled twice')), 'refused');
        });
        assert.equal(outcome, 'done');
      });

      test('takes a failed job over at the step that it came to', async () => {
        const key = unique('job');
        const failed = await runJob(pool, jobFor('a', key), async (job, step) => {
          await step('charged', (tx) => note(tx, key, 'a'));
          throw new Error('no\0 answer');
        });
        assert.equal(failed, 'failed');
        assert.deepEqual(await jobOf(key), { status: 'failed', error: 'Error: no answer', current_step: 'charged' });
        const done = await runJob(pool, jobFor('b', key), (job) => assert.equal(job.current_step, 'charged'));
        assert.equal(done, 'done');
        assert.deepEqual(await jobOf(key), { status: 'done', error: null, current_step: 'charged' });
        assert.deepEqual(await notesOn(key), ['a']);
      });

      test('commits a step together with its writes, or neither', async () => {
        const key = unique('job');
        const failed = await runJob(pool, jobFor('a', key), (job, step) =>
          step('charged', async (tx) => {
            await note(tx, key, 'a');
            throw new Error('no answer');
          }),
        );
        assert.equal(failed, 'failed');
        assert.equal((await jobOf(key)).current_step, null);
        assert.deepEqual(await notesOn(key), []);
      });

      test('that is late writes nothing into a job that was claimed again', async () => {
        const key = unique('job');
        const late = await runJob(pool, jobFor('a', key), async (job, step) => {
          const taker = await runJob(pool, jobFor('b', key, { now: inAnHour() }), (job, step) =>
            step('charged', (tx) => note(tx, key, 'b')),
          );
          assert.equal(taker, 'done');
          await step('charged', (tx) => note(tx, key, 'a'));
        });
        assert.equal(late, 'lost');
        assert.deepEqual(await notesOn(key), ['b']);
      });

      test('that is late cannot fail a job that was claimed again', async () => {
        const key = unique('job');
        const late = await runJob(pool, jobFor('a', key), async () => {
          assert.equal(await runJob(pool, jobFor('b', key, { now: inAnHour() }), async () => {}), 'done');
          throw new Error('too late');
        });
        assert.equal(late, 'lost');
        assert.equal((await jobOf(key)).status, 'done');
      });
    });

    describe('a relay', () => {
      test('carries each row once, the oldest first', async () => {
        for (const n of [2, 1, 3]) await call('queue_write', 'mail', { n }, new Date(n * 1000), `request-${n}`);
        const carried = [];
        const send = async (row) => carried.push([row.queue, row.payload.n, row.correlationId]);
        assert.equal(await relayBatch(pool, send, 2), 2);
        assert.equal(await relayBatch(pool, send, 2), 1);
        assert.equal(await relayBatch(pool, send, 2), 0);
        assert.deepEqual(carried, [['mail', 1, 'request-1'], ['mail', 2, 'request-2'], ['mail', 3, 'request-3']]);
      });

      test('carries a batch again, under the same ids, after a send that failed', async () => {
        for (const n of [1, 2]) await call('queue_write', 'mail', { n }, new Date(n * 1000), null);
        const ids = [];
        const failing = relayBatch(pool, async (row) => {
          ids.push(row.id);
          if (row.payload.n === 2) throw new Error('no answer');
        });
        await assert.rejects(failing, /no answer/);
        assert.equal(await relayBatch(pool, async (row) => ids.push(row.id)), 2);
        assert.deepEqual(ids.slice(0, 2), ids.slice(2));
      });

      test('skips the rows that another relay holds', async () => {
        for (const n of [1, 2, 3]) await call('queue_write', 'mail', { n }, new Date(n * 1000), null);
        const carried = { first: [], second: [] };
        await relayBatch(
          pool,
          async (row) => {
            carried.first.push(row.payload.n);
            if (row.payload.n === 1) await relayBatch(pool, async (row) => carried.second.push(row.payload.n));
          },
          2,
        );
        assert.deepEqual(carried, { first: [1, 2], second: [3] });
        assert.equal(await relayBatch(pool, () => assert.fail('a row was carried twice')), 0);
      });

      test('sends into the event bus exactly once, whatever fails on the way', async () => {
        const { topic, queue } = await subscribed();
        await call('queue_write', topic, { dedupeKey: 'k' }, null, 'request-1');
        const publish = async (row, tx) => {
          const event = [row.id, row.queue, row.payload, row.correlationId];
          await tx.query('SELECT * FROM public.event_bus_send($1, $2, $3, $4)', event);
          return event;
        };
        const failing = relayBatch(pool, async (row, tx) => {
          await publish(row, tx);
          throw new Error('crashed');
        });
        await assert.rejects(failing, /crashed/);
        assert.deepEqual(await call('event_bus_read', queue, 0, 10), []);
        assert.equal(await relayBatch(pool, publish), 1);
        const messages = await call('event_bus_read', queue, 0, 10);
        assert.deepEqual(messages.map(({ message }) => message.metadata), [{ correlationId: 'request-1' }]);
      });
    });

    describe('a consumer', () => {
      const send = (topic, dedupeKey) => call('event_bus_send', dedupeKey, topic, { dedupeKey }, null);

      test('handles each event once, also one that was sent twice', async () => {
        const { topic, queue } = await subscribed();
        for (const key of ['a', 'b', 'a']) await send(topic, key);
        const handle = (message, tx) => note(tx, topic, message.payload.dedupeKey);
        assert.equal(await consumeBatch(pool, queue, handle), 3);
        assert.equal(await consumeBatch(pool, queue, handle), 0);
        assert.deepEqual(await notesOn(topic), ['a', 'b']);
        const { rows } = await database.admin.query(`SELECT count(*)::integer AS n FROM pgmq."a_${queue}"`);
        assert.equal(rows[0].n, 3);
      });

      test('counts the deliveries of a message that always fails, and buries it with the last one', async () => {
        const { topic, queue } = await subscribed();
        await send(topic, 'poison');
        let handled = 0;
        const handle = async (message, tx) => {
          handled += 1;
          await note(tx, topic, 'poison');
          throw new Error(`attempt ${handled}`);
        };
        const once = () => consumeBatch(pool, queue, handle, { hideSeconds: 0, deliveries: 3 });
        assert.deepEqual([await once(), await once(), await once(), await once()], [1, 1, 1, 0]);
        assert.equal(handled, 3);
        assert.deepEqual(await notesOn(topic), []);
        const letters = await lettersOf(queue);
        assert.deepEqual(letters.map((row) => [row.attempts, row.reason]), [[3, 'Error: attempt 3']]);
      });

      test('buries a message whose deliveries all ended with their process, without handling it', async () => {
        const { topic, queue } = await subscribed();
        await send(topic, 'deadly');
        for (const read_ct of [1, 2, 3]) {
          const [delivery] = await call('event_bus_read', queue, 0, 1);
          assert.equal(delivery.read_ct, read_ct);
        }
        const handle = () => assert.fail('it was handled');
        assert.equal(await consumeBatch(pool, queue, handle, { deliveries: 3 }), 1);
        const letters = await lettersOf(queue);
        assert.deepEqual(letters.map((row) => [row.attempts, row.reason]), [[4, 'delivered too often']]);
      });

      test('handles a message that was requeued, since the failed attempts left no trace in the inbox', async () => {
        const { topic, queue } = await subscribed();
        await send(topic, 'k');
        await consumeBatch(pool, queue, () => Promise.reject(new Error('')), { deliveries: 1 });
        const [letter] = await lettersOf(queue);
        assert.equal(letter.reason, 'Error');
        await call('event_bus_requeue', queue, letter.msg_id);
        assert.equal(await consumeBatch(pool, queue, (message, tx) => note(tx, topic, 'k')), 1);
        assert.deepEqual(await notesOn(topic), ['k']);
      });

      test('that is late leaves a message alone that was delivered again', async () => {
        const { topic, queue } = await subscribed();
        for (const key of ['a', 'b']) await send(topic, key);
        let next;
        const late = async (message, tx) => {
          await note(tx, topic, message.payload.dedupeKey);
          // The message at hand is locked; the other one of the batch is visible again, and another consumer takes it.
          next ??= await call('event_bus_read', queue, 60, 10);
        };
        assert.equal(await consumeBatch(pool, queue, late, { hideSeconds: 0 }), 2);
        assert.deepEqual(await notesOn(topic), ['a']);
        assert.deepEqual(next.map(({ message, read_ct }) => [message.eventId, read_ct]), [['b', 2]]);
        assert.equal((await call('event_bus_archive', queue, next[0].msg_id, 2)).length, 1);
      });
    });

    describe('a receipt', () => {
      const requestWith = (key, amount = 1) => ({ principal: '42', operation: 'pay', key, request: { amount } });

      test('answers the outcome of the first time, also where it is null', async () => {
        for (const outcome of [{ id: 7, lines: [1.5, 'two'] }, null, undefined, 0, 'text']) {
          const key = unique('key');
          const perform = async (tx) => {
            await note(tx, key, 'paid');
            return outcome;
          };
          const first = await performOnce(pool, requestWith(key), perform);
          assert.deepEqual(first, outcome ?? null);
          assert.deepEqual(await performOnce(pool, requestWith(key), () => assert.fail('it was done twice')), first);
          assert.deepEqual(await notesOn(key), ['paid']);
        }
      });

      test('is gone with a request that failed, so that it can be tried again', async () => {
        const key = unique('key');
        const failing = performOnce(pool, requestWith(key), async (tx) => {
          await note(tx, key, 'failed');
          throw new Error('no answer');
        });
        await assert.rejects(failing, /no answer/);
        assert.equal(await performOnce(pool, requestWith(key), async () => 'paid'), 'paid');
        assert.deepEqual(await notesOn(key), []);
      });

      test('is refused to another request under the same key', async () => {
        const key = unique('key');
        await performOnce(pool, requestWith(key), async () => 'paid');
        const other = performOnce(pool, requestWith(key, 2), () => assert.fail('it was done'));
        await assert.rejects(other, { code: 'LT001' });
      });

      test('that nobody completed is not done again by itself', async () => {
        const key = unique('key');
        await call('inbox_claim_request', '42', 'pay', key, { amount: 1 }, null);
        const repeat = performOnce(pool, requestWith(key), () => assert.fail('it was done'));
        await assert.rejects(repeat, ReceiptIncomplete);
      });

      test('lets one of several requests at once be done, and answers them all alike', async () => {
        const key = unique('key');
        const attempts = [1, 2, 3, 4].map((n) =>
          performOnce(pool, requestWith(key), async (tx) => {
            await note(tx, key, 'paid');
            return { by: n };
          }),
        );
        const outcomes = await Promise.all(attempts);
        assert.deepEqual(outcomes, Array(4).fill(outcomes[0]));
        assert.deepEqual(await notesOn(key), ['paid']);
      });
    });

    describe('a transaction', () => {
      test('in which an error was swallowed is not taken for committed', async () => {
        const swallowing = transaction(pool, (tx) => callerOn(tx)('queue_waiting', 0).catch(() => {}));
        await assert.rejects(swallowing, /was rolled back/);
        assert.deepEqual(await call('queue_waiting', 1), []);
      });

      test('whose connection is lost fails, and the pool goes on', async () => {
        const cut = transaction(pool, async (tx) => {
          const { rows } = await tx.query('SELECT pg_backend_pid() AS pid');
          await database.admin.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
          await callerOn(tx)('queue_waiting', 1);
        });
        await assert.rejects(cut);
        assert.deepEqual(await call('queue_waiting', 1), []);
      });
    });
  });
}

test('a reason is never empty and holds no character that PostgreSQL does not', () => {
  assert.deepEqual([new Error('no\0'), new Error(), '', '\0', undefined].map(reasonOf), [
    'Error: no', 'Error', 'unknown', 'unknown', 'undefined',
  ]);
});
