// What is sent, what is refused before that, what errors say, and that a call is part of its transaction.
import assert from 'node:assert/strict';
import net from 'node:net';
import { describe, test } from 'node:test';
import { callDbFunction, jsonNull, SqlState, sqlState, type DbFunctionName } from 'hfs-lite';
import pg from 'pg';
import { QueryFailedError } from 'typeorm';
import { minutes, only, ownDatabase, refusal, unique } from './support.mjs';

const database = await ownDatabase();

/** Something that can query, and notes what it was asked. */
function noting(answer: unknown = []) {
  const sent: [string, unknown[] | undefined][] = [];
  return { sent, query: async (sql: string, parameters?: unknown[]) => (sent.push([sql, parameters]), answer) };
}

describe('what is sent', () => {
  const lease = minutes(5);

  test('is one statement, with as many parameters as were given', async () => {
    const queryable = noting();
    await callDbFunction(queryable, 'public.job_claim', ['report', 'key', 'worker', lease, { month: 1 }, null]);
    await callDbFunction(queryable, 'public.event_bus_check', []);
    await callDbFunction(queryable, 'public.event_bus_archive', ['queue', 1n]);
    await callDbFunction(queryable, 'public.event_bus_archive', ['queue', '1', 2]);
    await callDbFunction(queryable, 'public.queue_write', ['mail', 'x', null, null]);
    await callDbFunction(queryable, 'public.queue_write', ['mail', jsonNull, null, null]);
    assert.deepEqual(queryable.sent, [
      [
        'SELECT * FROM public.job_claim($1, $2, $3, $4, $5, $6)',
        ['report', 'key', 'worker', lease, '{"month":1}', null],
      ],
      ['SELECT * FROM public.event_bus_check()', []],
      ['SELECT * FROM public.event_bus_archive($1, $2)', ['queue', 1n]],
      ['SELECT * FROM public.event_bus_archive($1, $2, $3)', ['queue', '1', 2]],
      ['SELECT * FROM public.queue_write($1, $2, $3, $4)', ['mail', '"x"', null, null]],
      ['SELECT * FROM public.queue_write($1, $2, $3, $4)', ['mail', 'null', null, null]],
    ]);
  });

  test('leaves out what is undefined at the end, where there is a default', async () => {
    const queryable = noting();
    await callDbFunction(queryable, 'public.event_bus_dead_letters', ['queue', undefined]);
    await callDbFunction(queryable, 'public.event_bus_bury', ['queue', 1, undefined, undefined]);
    await callDbFunction(queryable, 'public.event_bus_bury', ['queue', 1, undefined, 2]);
    await callDbFunction(queryable, 'public.event_bus_bury', ['queue', 1, null, null]);
    await callDbFunction(queryable, 'public.event_bus_send', ['e', 'placed', {}, undefined as never]);
    assert.deepEqual(queryable.sent, [
      ['SELECT * FROM public.event_bus_dead_letters($1)', ['queue']],
      ['SELECT * FROM public.event_bus_bury($1, $2)', ['queue', 1]],
      ['SELECT * FROM public.event_bus_bury($1, $2, $3, $4)', ['queue', 1, null, 2]],
      ['SELECT * FROM public.event_bus_bury($1, $2, $3, $4)', ['queue', 1, null, null]],
      ['SELECT * FROM public.event_bus_send($1, $2, $3, $4)', ['e', 'placed', '{}', null]],
    ]);
  });

  test('does not change what was given', async () => {
    const args: [string, object, null, null] = ['mail', { n: 1 }, null, null];
    await callDbFunction(noting(), 'public.queue_write', Object.freeze(args));
    assert.deepEqual(args, ['mail', { n: 1 }, null, null]);
  });

  test('answers the rows of either driver', async () => {
    const rows = [{ queues: 1 }];
    for (const answer of [rows, { rows, rowCount: 1 }]) {
      assert.deepEqual(await callDbFunction(noting(answer), 'public.event_bus_send', ['placed', {}]), rows);
    }
  });
});

describe('what is refused before anything is sent', () => {
  const refused = async (name: unknown, args: unknown, message: RegExp) => {
    const queryable = noting();
    const error = await refusal(callDbFunction(queryable, name as DbFunctionName, args as never));
    assert(error instanceof TypeError);
    assert.match(error.message, message);
    assert.deepEqual(queryable.sent, []);
  };

  const names = [
    'public.job_clame', 'job_claim', 'PUBLIC.JOB_CLAIM', 'public.job_claim; DROP TABLE jobs; --', 'pgmq.send', '',
    'toString', '__proto__', 'constructor', undefined, null, 1, {}, Symbol('public.job_claim'),
  ];
  for (const name of names) {
    test(`the name ${String(name)}`, () => refused(name, [], /^hfs_lite has no function /));
  }

  test('a name that is text only when it is asked the second time', async () => {
    let asked = 0;
    const name = { toString: () => (asked++ === 0 ? 'public.event_bus_check' : 'evil()--') };
    await refused(name, [], /^hfs_lite has no function /);
  });

  test('too few and too many arguments', async () => {
    await refused('public.job_complete', ['id', 1], /^public\.job_complete takes 3 arguments, and 2 came$/);
    await refused('public.job_complete', ['id', 1, null, null], /takes 3 arguments, and 4 came/);
    await refused('public.event_bus_archive', ['queue'], /takes 2 to 3 arguments, and 1 came/);
    await refused('public.event_bus_send', ['a', 'b', {}], /takes 2 or 4 arguments, and 3 came/);
  });

  test('arguments that are no array', async () => {
    await refused('public.event_bus_check', undefined, /public\.event_bus_check takes its arguments as an array/);
    await refused('public.inbox_claim_event', 'ab', /takes its arguments as an array/);
    await refused('public.inbox_claim_event', { length: 2 }, /takes its arguments as an array/);
  });

  test('a value that is no JSON', async () => {
    await refused('public.canonical_json', [() => 1], /argument 1 is a function, which is no JSON/);
    await refused('public.queue_write', ['mail', Symbol('x'), null, null], /argument 2 is a symbol, which is no JSON/);
    await refused('public.queue_write', ['mail', { n: 1n }, null, null], /BigInt/);
    const circle: { self?: unknown } = {};
    circle.self = circle;
    await refused('public.queue_write', ['mail', circle, null, null], /circular/);
  });
});

describe('the SQLSTATE of an error', async () => {
  for (const [what, queryable] of Object.entries(await database.queryables())) {
    test(`on ${what}`, async () => {
      const key = unique('key');
      const claim = (amount: number) =>
        callDbFunction(queryable, 'public.inbox_claim_request', ['ann', 'pay', key, { amount }]);
      await claim(1);
      const reused = await refusal(claim(2));
      assert.equal(sqlState(reused), SqlState.idempotencyKeyReused);
      assert.equal(sqlState(await refusal(callDbFunction(queryable, 'public.queue_waiting', [0]))), '22023');
      assert.equal(sqlState(await refusal(callDbFunction(queryable, 'public.event_bus_read', ['no', 1, 1]))), '42704');
      assert.equal(sqlState(await refusal(callDbFunction(queryable, 'public.hfs_lite_revoke', ['app_be']))), '42501');
    });
  }

  test('is found where the error was wrapped, and hint and detail with it', async () => {
    const source = await database.source();
    const error = await refusal(callDbFunction(source, 'public.queue_waiting', [0]));
    assert(error instanceof QueryFailedError);
    assert(error.driverError instanceof pg.DatabaseError);
    assert.equal(error.driverError.hint, 'Allowed: 1 to 10000.');
    assert.equal(sqlState(new Error('the order failed', { cause: new Error('again', { cause: error }) })), '22023');
  });

  test('is that of a deadlock, of a lock that did not come, and of a snapshot that was too old', async () => {
    const [one, other] = [await database.client(), await database.client()];
    const claimBy = (client: pg.Client, id: string) => callDbFunction(client, 'public.inbox_claim_event', ['bus', id]);
    const [a, b] = [unique('event'), unique('event')];
    await one.query('BEGIN');
    await claimBy(one, a);
    await other.query(`BEGIN; SET LOCAL lock_timeout = '10ms'`);
    assert.equal(sqlState(await refusal(claimBy(other, a))), SqlState.lockNotAvailable);
    await other.query('ROLLBACK; BEGIN');
    await claimBy(other, b);
    const outcomes = await Promise.allSettled([
      claimBy(one, b).finally(() => one.query('ROLLBACK')),
      claimBy(other, a).finally(() => other.query('ROLLBACK')),
    ]);
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
    assert.deepEqual(failed.map((outcome) => sqlState(outcome.reason)), [SqlState.deadlockDetected]);
    await one.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await one.query('SELECT 1');
    await claimBy(other, a);
    assert.equal(sqlState(await refusal(claimBy(one, a))), SqlState.serializationFailure);
    await one.query('ROLLBACK');
  });

  test('is undefined where the server said nothing', async () => {
    const closed = await new Promise<number>((resolve) => {
      const server = net.createServer().listen(0, '127.0.0.1', () => {
        const { port } = server.address() as net.AddressInfo;
        server.close(() => resolve(port));
      });
    });
    const pool = new pg.Pool({ host: '127.0.0.1', port: closed });
    const error = await refusal(callDbFunction(pool, 'public.event_bus_check', []));
    await pool.end();
    assert.equal((error as NodeJS.ErrnoException).code, 'ECONNREFUSED');
    const broken = Object.assign(new Error('broken'), { code: 'EPIPE', errno: -32, syscall: 'write' });
    const circle: Error = new Error('circle');
    circle.cause = circle;
    const others = [error, broken, circle, new TypeError('no function'), 'LT001', { code: 'LT001' }, null, undefined];
    for (const other of others) {
      assert.equal(sqlState(other), undefined);
    }
  });
});

describe('a call is part of its transaction', () => {
  const written = async () => {
    const { rows } = await database.admin.query('SELECT payload FROM queue ORDER BY payload');
    return rows.map((row) => row.payload);
  };
  const write = (queryable: Parameters<typeof callDbFunction>[0], what: string) =>
    callDbFunction(queryable, 'public.queue_write', ['mail', what, null, null]);
  const given = new Error('the business said no');

  test("of TypeORM's", async () => {
    const source = await database.source();
    const work = source.transaction(async (manager) => {
      await write(manager, 'rolled back');
      throw given;
    });
    assert.equal(await refusal(work), given);
    await source.transaction((manager) => write(manager, 'by the manager'));
    const runner = source.createQueryRunner();
    await runner.startTransaction();
    await write(runner, 'rolled back');
    await runner.rollbackTransaction();
    await runner.startTransaction();
    await write(runner.manager, 'by the runner');
    await runner.commitTransaction();
    await runner.release();
    assert.deepEqual(await written(), ['by the manager', 'by the runner']);
    await database.admin.query('DELETE FROM queue');
  });

  test("of node-postgres' client", async () => {
    const client = await database.client();
    await client.query('BEGIN');
    await write(client, 'rolled back');
    await client.query('ROLLBACK');
    await client.query('BEGIN');
    await write(client, 'by the client');
    await client.query('COMMIT');
    assert.deepEqual(await written(), ['by the client']);
    await database.admin.query('DELETE FROM queue');
  });

  test('which stays usable when a call answers no row', async () => {
    const id = unique('event');
    await (await database.source()).transaction(async (manager) => {
      only(await callDbFunction(manager, 'public.inbox_claim_event', ['bus', id]));
      assert.deepEqual(await callDbFunction(manager, 'public.inbox_claim_event', ['bus', id]), []);
      await write(manager, 'after it');
    });
    assert.deepEqual(await written(), ['after it']);
  });
});
