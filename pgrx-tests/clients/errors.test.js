// Errors reach JavaScript whole, and leave a client that goes on.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { QueryFailedError } from 'typeorm';
import { caller, callerOn, doors, drivers, ownDatabase, unique } from './support.js';

const database = await ownDatabase();

const refusals = [
  ['22004', 'an argument that is missing', 'inbox_claim_event', ['bus', null], /Pass a value for p_event_id/],
  ['22004', 'a null inside an array', 'queue_mark_sent', [[null], null], /Leave the NULLs out of p_ids/],
  ['22023', 'a batch out of range', 'queue_waiting', [0], /1 to 10000/],
  ['22023', 'an empty name', 'inbox_claim_event', ['', '1'], /at least one character/],
  ['22001', 'a name over its width', 'queue_write', ['q'.repeat(201), '{}', null, null], /200 characters/],
  ['22003', 'a number that JavaScript reads as Infinity', 'canonical_json', ['{"n": 1e400}'], /as a string/],
  ['22023', 'an event without a dedupeKey', 'event_bus_send', ['e', 'placed', {}, null], /dedupeKey/],
  ['42704', 'a queue that is not there', 'event_bus_read', ['nowhere', 30, 1], /event_bus_subscribe/],
];

for (const [driver, open] of Object.entries(drivers)) {
  for (const door of Object.keys(doors)) {
    describe(`${driver} through ${door}`, () => {
      let app, call;
      before(async () => {
        app = await open(database.connection(door));
        call = caller(app.query);
      });
      after(() => app.close());
      /** The error of a call that must fail. */
      const refusal = (work) => work.then(() => assert.fail('it was not refused'), (error) => error);

      for (const [code, what, name, args, hint] of refusals) {
        test(`${what} is SQLSTATE ${code} with a hint, and the next transaction goes on`, async () => {
          const error = await refusal(app.transaction((query) => caller(query)(name, ...args)));
          assert.equal(error.code, code);
          assert.match(error.hint, hint);
          assert.deepEqual(await app.transaction((query) => caller(query)('queue_waiting', 1)), []);
        });
      }

      test('an idempotency key that is used for another request is SQLSTATE LT001 with a hint', async () => {
        const claim = (request) => ['1', 'pay', key, request, null];
        const key = unique('key');
        await call('inbox_claim_request', ...claim({ amount: 1 }));
        const reuse = app.transaction((query) => caller(query)('inbox_claim_request', ...claim({ amount: 2 })));
        const error = await refusal(reuse);
        assert.equal(error.code, 'LT001');
        assert.match(error.hint, /new idempotency key/);
        const [{ state }] = await call('inbox_claim_request', ...claim({ amount: 1 }));
        assert.equal(state, 'incomplete');
      });

      test('a refusal inside a savepoint leaves the transaction as it was before', async () => {
        const id = unique('event');
        await app.transaction(async (query) => {
          await caller(query)('inbox_claim_event', 'bus', id);
          await query('SAVEPOINT attempt');
          assert.equal((await refusal(caller(query)('queue_waiting', -1))).code, '22023');
          await query('ROLLBACK TO SAVEPOINT attempt');
        });
        assert.deepEqual(await call('inbox_claim_event', 'bus', id), []);
      });

      test('a JavaScript array as JSON has to be stringified: the driver makes an array literal of it', async () => {
        assert.equal((await refusal(call('canonical_json', [1, 'a']))).code, '22P02');
        const [{ canonical_json }] = await call('canonical_json', JSON.stringify([1, 'a']));
        assert.equal(canonical_json, '[1,"a"]');
      });

      test('the tables are closed', async () => {
        for (const table of ['jobs', 'job_ticks', 'queue', 'inbox']) {
          assert.equal((await refusal(app.query(`SELECT * FROM public.${table}`))).code, '42501');
        }
        assert.equal((await refusal(app.query('SELECT * FROM pgmq.meta'))).code, '42501');
      });
    });
  }
}

test('the only client of a pool is the same and usable after ROLLBACK', async (t) => {
  const pool = new pg.Pool({ ...database.connection('server'), max: 1 });
  t.after(() => pool.end());
  const pid = async () => (await pool.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;
  const before = await pid();
  const client = await pool.connect();
  await client.query('BEGIN');
  await assert.rejects(callerOn(client)('queue_waiting', 0), { code: '22023', severity: 'ERROR' });
  await assert.rejects(callerOn(client)('queue_waiting', 1), { code: '25P02' });
  await client.query('ROLLBACK');
  client.release();
  assert.deepEqual(await callerOn(pool)('queue_waiting', 1), []);
  assert.equal(await pid(), before);
});

test('TypeORM wraps the error, and keeps all of it', async (t) => {
  const app = await drivers['TypeORM DataSource'](database.connection('server'));
  t.after(() => app.close());
  const error = await caller(app.query)('queue_waiting', 0).catch((error) => error);
  assert(error instanceof QueryFailedError);
  assert(error.driverError instanceof pg.DatabaseError);
  assert.deepEqual(
    [error.driverError.code, error.driverError.message, error.driverError.hint],
    ['22023', 'p_batch is out of range: 0', 'Allowed: 1 to 10000.'],
  );
});
