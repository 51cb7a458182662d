// What README.md shows does what it says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpException } from '@nestjs/common';
import { callDbFunction } from 'hfs-lite';
import { serializable } from './readme/again.mjs';
import { claim } from './readme/claim.mjs';
import { OrderService } from './readme/order-service.mjs';
import { relay } from './readme/relay.mjs';
import { minutes, ownDatabase, refusal } from './support.mjs';

const database = await ownDatabase();
await database.admin.query('CREATE TABLE orders (id uuid PRIMARY KEY, customer text)');
await database.admin.query('GRANT INSERT ON orders TO operator');
const pool = database.pool();
const source = await database.source();
const statusOf = async (work: Promise<unknown>) => {
  const error = await refusal(work);
  assert(error instanceof HttpException);
  return error.getStatus();
};

test('a job is claimed by one', async () => {
  const job = await claim(source.manager, '2026-11', 'a', minutes(1));
  assert.deepEqual([job?.fencing_token, job?.payload], ['1', { month: '2026-11' }]);
  assert.equal(await claim(source.manager, '2026-11', 'b', minutes(1)), undefined);
});

test('an order is placed once, and carried on once', async () => {
  const orders = new OrderService(source);
  const placed = await orders.placeOrder('ann', 'key-1', { basket: ['tea'] });
  assert.deepEqual(await orders.placeOrder('ann', 'key-1', { basket: ['tea'] }), placed);
  assert.equal(await statusOf(orders.placeOrder('ann', 'key-1', { basket: ['coffee'] })), 409);
  await callDbFunction(pool, 'public.inbox_claim_request', ['ann', 'checkout', 'key-2', { basket: [] }]);
  assert.equal(await statusOf(orders.placeOrder('ann', 'key-2', { basket: [] })), 409);
  assert.equal((await database.admin.query('SELECT FROM orders')).rowCount, 1);

  const failing = relay(pool, async () => {
    throw new Error('no answer');
  });
  await assert.rejects(failing, /no answer/);
  const carried: unknown[] = [];
  assert.equal(await relay(pool, async (row) => void carried.push([row.queue, row.correlationId])), 1);
  assert.deepEqual(carried, [['fulfilment', 'key-1']]);
  assert.equal(await relay(pool, async () => assert.fail('it was carried twice')), 0);
});

test('a transaction that another one was in the way of runs again', async () => {
  let runs = 0;
  const rows = await serializable(source, async (manager) => {
    await manager.query('SELECT 1');
    if (++runs === 1) await callDbFunction(pool, 'public.inbox_claim_event', ['bus', 'event']);
    return callDbFunction(manager, 'public.inbox_claim_event', ['bus', 'event']);
  });
  assert.deepEqual([runs, rows], [2, []]);
  const given = new Error('the business said no');
  const failing = serializable(source, async () => {
    runs++;
    throw given;
  });
  assert.equal(await refusal(failing), given);
  assert.equal(runs, 3);
});
