// Many clients at once, through few connections: one of them gets each thing, and nobody waits for ever.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { consumeBatch } from './app/consumer.js';
import { transaction } from './app/database.js';
import { performOnce } from './app/receipt.js';
import { relayBatch } from './app/relay.js';
import { runJob } from './app/worker.js';
import { callerOn, doors, ownDatabase, unique } from './support.js';

/** As pgrx-tests/clients/run gives PgBouncer for each database and role. */
const POOLED_CONNECTIONS = 2;

const database = await ownDatabase();
const asAdmin = callerOn(database.admin);
await database.admin.query('CREATE TABLE effects (what text, backend integer); GRANT INSERT ON effects TO app_be');
/** A business write that also notes over which of the server's connections it came. */
const note = (tx, what) => tx.query('INSERT INTO effects VALUES ($1, pg_backend_pid())', [what]);
const effects = async (prefix) => {
  const { rows } = await database.admin.query('SELECT * FROM effects WHERE starts_with(what, $1)', [prefix]);
  return { what: rows.map((row) => row.what).sort(), backends: new Set(rows.map((row) => row.backend)).size };
};
const range = (n) => Array.from({ length: n }, (_, i) => i);
const atOnce = (n, work) => Promise.all(range(n).map(work));

for (const door of Object.keys(doors)) {
  describe(`through ${door}`, () => {
    let pool;
    before(() => {
      pool = new pg.Pool({ ...database.connection(door), max: 20 });
    });
    after(() => pool.end());

    test('of sixteen clients that claim one job at once, one gets it', async (t) => {
      const pool = new pg.Pool({ ...database.connection(door), max: 16 });
      t.after(() => pool.end());
      const call = callerOn(pool);
      const leaseEnd = new Date(Date.now() + 60_000);
      for (const key of range(20).map(() => unique('job'))) {
        // A new key first, then the same job after it failed.
        for (const token of ['1', '2']) {
          const claims = await atOnce(16, (i) => call('job_claim', 'mail', key, `worker-${i}`, leaseEnd, '{}', null));
          const rows = claims.flat();
          assert.deepEqual(rows.map((row) => row.fencing_token), [token]);
          await call('job_fail', rows[0].id, token, 'no answer', null);
        }
      }
    });

    test('of twenty schedulers that wake in one minute, one runs it', async () => {
      const name = unique('cron');
      const minute = new Date();
      const claims = await atOnce(20, () => callerOn(pool)('job_tick_claim', name, minute));
      assert.deepEqual(claims.flat().map((tick) => tick.name), [name]);
    });

    test('twenty workers do each of sixty jobs once', async () => {
      const run = unique('jobs');
      const keys = range(60).map((n) => `${run} ${n}`);
      const outcomes = await atOnce(20, async (worker) => {
        const mine = [];
        // Each begins elsewhere, and all of them come by every job.
        for (const n of range(60)) {
          const key = keys[(n + worker * 3) % 60];
          const job = { kind: 'mail', key, worker: `worker-${worker}`, payload: { key } };
          mine.push(await runJob(pool, job, (job, step) => step('sent', (tx) => note(tx, job.payload.key))));
        }
        return mine;
      });
      const count = (outcome) => outcomes.flat().filter((one) => one === outcome).length;
      assert.deepEqual([count('done'), count('refused')], [60, 20 * 60 - 60]);
      assert.deepEqual((await effects(`${run} `)).what, keys.toSorted());
    });

    test('requests become events that are handled once each, with everything at once', async () => {
      const run = unique('orders');
      const topic = unique('ordered');
      await asAdmin('event_bus_subscribe', topic, 'mailer');
      const requests = range(40).map((n) => `${run} ${n}`);

      // Every request comes three times at once, as from an impatient client.
      let ordering = true;
      const clients = Promise.all(
        [...requests, ...requests, ...requests].map((key) =>
          performOnce(pool, { principal: '42', operation: 'order', key, request: { key } }, async (tx) => {
            await tx.query('SELECT * FROM public.queue_write($1, $2, $3, $4)', [topic, { dedupeKey: key }, null, null]);
            return key;
          }),
        ),
      ).finally(() => (ordering = false));

      const publish = ({ id, queue, payload, correlationId }, tx) =>
        tx.query('SELECT * FROM public.event_bus_send($1, $2, $3, $4)', [id, queue, payload, correlationId]);
      let relaying = true;
      const relays = atOnce(3, async () => {
        for (let more = true; more; ) {
          const last = !ordering;
          more = (await relayBatch(pool, publish, 5)) > 0 || !last;
        }
      }).finally(() => (relaying = false));

      const consumers = atOnce(5, async () => {
        const handle = (message, tx) => note(tx, message.payload.dedupeKey);
        for (let more = true; more; ) {
          const last = !relaying;
          more = (await consumeBatch(pool, `${topic}__mailer`, handle)) > 0 || !last;
        }
      });

      const [answers] = await Promise.all([clients, relays, consumers]);
      assert.deepEqual(answers, [...requests, ...requests, ...requests]);
      assert.deepEqual((await effects(`${run} `)).what, requests.toSorted());
      assert.deepEqual(await asAdmin('event_bus_dead_letters', `${topic}__mailer`), []);
    });
  });
}

test('twenty clients in transactions of their own share two connections through PgBouncer', async (t) => {
  const run = unique('shared');
  const pools = range(20).map(() => new pg.Pool({ ...database.connection('PgBouncer'), max: 1 }));
  t.after(() => Promise.all(pools.map((pool) => pool.end())));
  await Promise.all(
    pools.map(async (pool, client) => {
      for (const n of range(10)) {
        const what = `${run} ${client}/${n}`;
        const first = await transaction(pool, async (tx) => {
          await note(tx, what);
          return tx.query('SELECT * FROM public.inbox_claim_event($1, $2)', [run, what]);
        });
        assert.equal(first.rowCount, 1);
        assert.equal((await pool.query('SELECT * FROM public.inbox_claim_event($1, $2)', [run, what])).rowCount, 0);
      }
    }),
  );
  const { what, backends } = await effects(`${run} `);
  assert.equal(what.length, 200);
  assert.equal(backends, POOLED_CONNECTIONS);
});
