import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, ownShop } from './support.js';

const shop = await ownShop();
await shop.start('api relay outside');
const job = async (orderId: string) =>
  (await shop.sql('select * from jobs where job_key = $1', [`fulfilment:${orderId}`]))[0];

/** What must hold of every order once it is shipped, whatever happened on the way. */
async function doneOnce(orderId: string): Promise<void> {
  const journal = await shop.journal(orderId);
  const { id, status } = await job(orderId);
  assert.equal(status, 'done');
  const performed = journal.filter(({ result }) => result === 'performed');
  assert.deepEqual(performed.map(({ effect }) => effect).sort(), ['charge', 'ship'], 'each effect was done once');
  assert.equal(new Set(performed.map(({ runKey }) => runKey)).size, performed.length, 'no run key did two things');
  assert.equal(new Set(journal.map(({ runKey }) => runKey)).size, journal.length, 'no run key was sent twice');
  for (const { runKey, effect } of journal) assert.match(runKey, new RegExp(`^${id}:${effect}:[1-9][0-9]*$`));
  const [shipment] = await shop.sql('select * from shop.shipments where order_id = $1', [orderId]);
  const reference = (wanted: string) => performed.find(({ effect }) => effect === wanted)!.reference;
  assert.equal(shipment.payment_id, reference('charge'), 'the shop knows of the payment that was made');
  assert.equal(shipment.tracking_number, reference('ship'), 'and of the parcel that left');
}

const runs = async (orderId: string, effect: string) =>
  (await shop.journal(orderId))
    .filter((entry) => entry.effect === effect)
    .map(({ runKey, result }) => `${runKey.split(':').at(-1)} ${result}`);

test('an order is charged and shipped, in two steps of one job', async () => {
  await shop.start('worker');
  const orderId = await shop.order();
  await shop.shipped(orderId);
  await doneOnce(orderId);
  assert.deepEqual([await runs(orderId, 'charge'), await runs(orderId, 'ship')], [['1 performed'], ['1 performed']]);
  const { body } = await shop.get(orderId);
  assert.equal(body.state, 'shipped');
});

// What a worker that takes over asks the outside, after the first one was killed while the outside held its call.
const killed: [effect: 'charge' | 'ship', moment: 'before' | 'after', charges: string[], ships: string[]][] = [
  ['charge', 'before', ['2 performed', '1 overtaken'], ['2 performed']],
  ['charge', 'after', ['1 performed', '2 repeated'], ['2 performed']],
  ['ship', 'before', ['1 performed'], ['2 performed', '1 overtaken']],
  ['ship', 'after', ['1 performed'], ['1 performed', '2 repeated']],
];
for (const [effect, moment, charges, ships] of killed) {
  test(`kill -9 of a worker ${moment} its ${effect}: the next one goes on, and nothing is done twice`, async () => {
    const first = await shop.start('worker');
    const interruption = await shop.interrupt(effect, moment);
    const orderId = await shop.order();
    const runKey = await interruption.caught();
    assert.deepEqual(await first.kill(), { code: null, signal: 'SIGKILL' });
    const left = await job(orderId);
    assert.deepEqual([left.status, left.current_step], ['running', effect === 'charge' ? null : 'charge']);
    assert.equal(runKey, `${left.id}:${effect}:1`);

    await shop.start('worker');
    await shop.shipped(orderId);
    // Only now the call of the dead worker goes on: the outside refuses it, if it has not done it before.
    await interruption.release();
    const expected = { charge: charges, ship: ships };
    await eventually('the outside is done with both calls', async () => (await runs(orderId, effect)).length === 2);
    for (const effect of ['charge', 'ship'] as const) assert.deepEqual(await runs(orderId, effect), expected[effect]);
    await doneOnce(orderId);
  });
}

// At its charge, the outside stops it at the next step; at its last one, only the fence in the database can.
for (const effect of ['charge', 'ship'] as const) {
  test(`a worker that was overtaken at its ${effect} writes nothing, and goes on with other work`, async () => {
    const late = await shop.start('worker');
    const interruption = await shop.interrupt(effect, 'after');
    const orderId = await shop.order();
    await interruption.caught();
    // It hangs for longer than its lease, and another one takes over.
    const other = await shop.start('worker', { WORKER_PORT: '0' });
    await shop.shipped(orderId);
    const shipment = () => shop.sql('select *, xmin from shop.shipments where order_id = $1', [orderId]);
    const [before, done] = [await shipment(), await job(orderId)];
    await other.kill();
    await interruption.release();
    await late.logged('overtaken');
    assert.deepEqual([await shipment(), await job(orderId)], [before, done]);
    await doneOnce(orderId);
    const next = await shop.order();
    await shop.shipped(next);
    await doneOnce(next);
  });
}

test('an effect that fails is tried again after a pause, under a new token', async () => {
  const worker = await shop.start('worker');
  await shop.interrupt('ship', 'instead');
  const orderId = await shop.order();
  const { token } = await worker.logged('the failure', ({ message }) => message === 'parcels: answered 503');
  assert.equal(token, '1');
  await shop.shipped(orderId);
  assert.equal((await job(orderId)).fencing_token, '2');
  assert.deepEqual([await runs(orderId, 'charge'), await runs(orderId, 'ship')], [['1 performed'], ['2 performed']]);
  await doneOnce(orderId);
});

test('a job that somebody holds does not hold up the others', async () => {
  const held = await shop.order();
  const [{ id, fencing_token }] = await shop.sql(
    `select * from job_claim('fulfilment', $1, 'by hand', now() + interval '1 hour', '{}', null)`,
    [`fulfilment:${held}`],
  );
  await shop.start('worker');
  await eventually(
    'it is on the list',
    async () => (await shop.sql('select from shop.shipments where order_id = $1', [held]))[0],
  );
  const next = await shop.order();
  await shop.shipped(next);
  assert.deepEqual(await runs(held, 'charge'), []);
  await shop.sql('select * from job_fail($1, $2, $3, null)', [id, fencing_token, 'given back']);
  await shop.shipped(held);
  await doneOnce(held);
});

test('SIGTERM: a worker finishes its job, takes no other, and exits with 0', async () => {
  const worker = await shop.start('worker', { LEASE_SECONDS: '60' });
  const interruption = await shop.interrupt('charge', 'before');
  const first = await shop.order();
  await interruption.caught();
  const second = await shop.order();
  await eventually(
    'the second order is on the list',
    async () => (await shop.sql('select from shop.shipments where order_id = $1', [second]))[0],
  );
  worker.signal('SIGTERM');
  await worker.logged('stopping');
  await interruption.release();
  assert.deepEqual(await worker.end(), { code: 0, signal: null });
  await doneOnce(first);
  assert.equal(await job(second), undefined);
  await shop.start('worker');
  await shop.shipped(second);
  await doneOnce(second);
});

test('two workers share the work, and do each thing once', async () => {
  for (const port of [shop.environment.WORKER_PORT, '0']) await shop.start('worker', { WORKER_PORT: port });
  // The first to charge is held, so that the other one has to do the rest.
  const interruption = await shop.interrupt('charge', 'before');
  const held = await shop.order();
  await interruption.caught();
  const others = await Promise.all(Array.from({ length: 6 }, () => shop.order()));
  for (const orderId of others) await shop.shipped(orderId);
  await interruption.release();
  await shop.shipped(held);
  for (const orderId of [held, ...others]) await doneOnce(orderId);
});
