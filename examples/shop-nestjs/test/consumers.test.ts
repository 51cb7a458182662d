import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adminUrl, connect, eventually, ownShop, type Process } from './support.js';

const shop = await ownShop();
await shop.start('api');
const mails = (orderId: string) => shop.sql('select * from shop.mails where order_id = $1', [orderId]);
const sales = async () =>
  (
    await shop.sql(
      `select coalesce(sum(orders), 0)::integer as orders, coalesce(sum(total_cents), 0)::integer as cents
         from shop.daily_sales`,
    )
  )[0];
const messages = async (queue: string) => (await shop.sql(`select count(*)::integer from pgmq."q_${queue}"`))[0].count;

/** Resolves once the mailer, in the middle of its transaction, waits for a lock on its table. */
const mailerWaits = () =>
  eventually('the mailer waits', async () => {
    const [waiting] = await shop.sql(`select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%mails%'`);
    return waiting;
  });

/** Kills it while the mailer is at a message and the statistics, in the same process, are at none. */
const killAtMail = async (consumers: Process) => {
  await mailerWaits();
  await eventually('the statistics are through', async () => (await messages('order.placed__statistics')) === 0);
  await consumers.kill();
};

test('each consumer hears of each order, once', async () => {
  await shop.start('consumers');
  const before = await sales();
  const orders = [await shop.order(), await shop.order()];
  for (const orderId of orders) await eventually('a mail is written', async () => (await mails(orderId))[0]);
  await eventually('the statistics have counted both', async () => (await sales()).orders === before.orders + 2);
  assert.equal((await sales()).cents, before.cents + 2 * 900);
  assert.deepEqual(
    (await mails(orders[0]!)).map(({ recipient, subject }) => [recipient, subject]),
    [['ann', 'Your order over 9.00 EUR']],
  );
});

test('an event that is sent twice is handled once by each consumer', async () => {
  const orderId = await shop.order();
  const before = await sales();
  const payload = { dedupeKey: orderId, orderId, customer: 'ann', totalCents: 900 };
  await shop.sql(`select * from event_bus_send('again', 'order.placed', $1, null)`, [JSON.stringify(payload)]);
  await shop.start('consumers');
  await eventually(
    'both queues are empty',
    async () => (await messages('order.placed__mailer')) + (await messages('order.placed__statistics')) === 0,
  );
  assert.equal((await mails(orderId)).length, 1);
  assert.equal((await sales()).orders, before.orders + 1);
});

test('kill -9 of a consumer in the middle: the message comes back, and is handled once', async () => {
  // Its write waits for this lock: it has archived the message, and not committed it.
  const blocker = await connect(adminUrl(shop.database));
  await blocker.query('begin; lock table shop.mails');
  const first = await shop.start('consumers');
  const orderId = await shop.order();
  await killAtMail(first);
  await blocker.query('rollback');
  await blocker.end();
  await shop.start('consumers');
  await eventually('a mail is written', async () => (await mails(orderId))[0]);
  assert.equal(await messages('order.placed__mailer'), 0);
});

test('a message that ends its consumer each time takes no other one along to the dead letters', async () => {
  const blocker = await connect(adminUrl(shop.database));
  await blocker.query('begin; lock table shop.mails');
  const deadly = await shop.order();
  const others = [await shop.order(), await shop.order()];
  for (let attempt = 1; attempt <= 2; attempt++) {
    await killAtMail(await shop.start('consumers'));
    // Its session waits for the lock, and has not noticed.
    await shop.sql(`select pg_terminate_backend(pid, 10000) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`);
    await eventually('what it had read comes back', async () => {
      const hidden = await shop.sql('select from pgmq."q_order.placed__mailer" where vt > clock_timestamp()');
      return hidden.length === 0;
    });
  }
  const consumers = await shop.start('consumers');
  await consumers.logged('buried', ({ message, queue }) => message === 'buried' && queue === 'order.placed__mailer');
  await blocker.query('rollback');
  await blocker.end();
  for (const orderId of others) await eventually('a mail is written', async () => (await mails(orderId))[0]);
  const letters = await shop.sql(`select message from event_bus_dead_letters('order.placed__mailer')`);
  assert.deepEqual(
    letters.map(({ message }) => message.payload.orderId),
    [deadly],
  );
  await shop.sql(`truncate pgmq."q_order.placed__mailer__dead"`);
});

test('what always fails ends as a dead letter, after its last attempt; the other one does not notice', async () => {
  const before = await sales();
  await shop.sql(`update shop.consumer_switches set failing = true where consumer = 'mailer'`);
  await shop.start('consumers');
  const orderId = await shop.order();
  const letter = await eventually(
    'it is buried',
    async () => (await shop.sql(`select * from event_bus_dead_letters('order.placed__mailer')`))[0],
  );
  assert.deepEqual(
    [letter.attempts, letter.reason, letter.message.payload.orderId],
    [2, 'mailer was told to fail', orderId],
  );
  assert.equal((await mails(orderId)).length, 0);
  await eventually('the statistics have counted it', async () => (await sales()).orders === before.orders + 1);

  await shop.sql(`update shop.consumer_switches set failing = false where consumer = 'mailer'`);
  await shop.sql(`select * from event_bus_requeue('order.placed__mailer', $1)`, [letter.msg_id]);
  await eventually('a mail is written', async () => (await mails(orderId))[0]);
});

test('a message that the consumer cannot read ends as a dead letter, too', async () => {
  await shop.start('consumers');
  await shop.sql(`select * from pgmq.send('order.placed__statistics', '{"no": "envelope"}')`);
  const letter = await eventually(
    'it is buried',
    async () => (await shop.sql(`select * from event_bus_dead_letters('order.placed__statistics')`))[0],
  );
  assert.equal(letter.attempts, 2);
  const orderId = await shop.order();
  await eventually('the next one is handled', async () => (await mails(orderId))[0]);
});

test('SIGTERM: a consumer finishes what it handles, and exits with 0', async () => {
  const blocker = await connect(adminUrl(shop.database));
  await blocker.query('begin; lock table shop.mails');
  const consumers = await shop.start('consumers');
  const orderId = await shop.order();
  await mailerWaits();
  consumers.signal('SIGTERM');
  await consumers.logged('stopping');
  await blocker.query('rollback');
  await blocker.end();
  assert.deepEqual(await consumers.end(), { code: 0, signal: null });
  assert.equal((await mails(orderId)).length, 1);
});
