import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { connect, eventually, ownShop } from './support.js';

const shop = await ownShop();
const { SERVER_CRASH, SERVER_START, SHOP_SERVER } = process.env;
const shell = (command: string) => promisify(execFile)('bash', ['-c', command]);

/**
 * Takes the database away and gives it back. Where the server is ours, it crashes and is started again; where it is
 * somebody else's, every connection to the database is ended, and none is let in: all that an application sees of it.
 */
const outage = SERVER_CRASH
  ? { begin: () => shell(SERVER_CRASH), end: () => shell(SERVER_START!) }
  : {
      begin: async () => {
        const server = await connect(SHOP_SERVER!);
        await server.query(`alter database ${shop.database} allow_connections false`);
        await server.query(`select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1`, [
          shop.database,
        ]);
        await server.end();
      },
      end: async () => {
        const server = await connect(SHOP_SERVER!);
        await server.query(`alter database ${shop.database} allow_connections true`);
        await server.end();
      },
    };

test('the database goes away in the middle, and comes back: nothing is lost, nothing is done twice', async () => {
  await shop.start('outside');
  const all = await shop.start('all');
  const interruption = await shop.interrupt('charge', 'after');
  const orders = [await shop.order(), await shop.order()];
  // A job is at its first step.
  await interruption.caught();

  await outage.begin();
  const refused = await shop.post(undefined, { 'Idempotency-Key': 'during' });
  assert.deepEqual([refused.status, refused.headers.get('Retry-After')], [503, '1']);
  const page = await fetch(shop.operatorUrl);
  assert.equal(page.status, 503);
  assert.match(await page.text(), /The database does not answer/);
  await interruption.release();
  await all.logged(
    'the worker has noticed',
    ({ context, level }) => context === 'FulfilmentWorker' && level === 'error',
  );
  await outage.end();
  await shop.reconnect();

  const answer = await eventually('the same request is taken', async () => {
    const answer = await shop.post(undefined, { 'Idempotency-Key': 'during' });
    return answer.status === 201 && answer;
  });
  orders.push(answer.body.orderId, await shop.order());
  for (const orderId of orders) {
    await shop.shipped(orderId);
    const effects = (await shop.journal(orderId))
      .filter(({ result }) => result === 'performed')
      .map(({ effect }) => effect);
    assert.deepEqual(effects, ['charge', 'ship']);
    await eventually(
      'a mail is written',
      async () => (await shop.sql('select from shop.mails where order_id = $1', [orderId]))[0],
    );
  }
  await eventually(
    'the statistics have counted each',
    async () =>
      (await shop.sql('select sum(orders)::integer as orders from shop.daily_sales'))[0].orders === orders.length,
  );
  assert.equal((await shop.sql('select from shop.orders')).length, orders.length);
  await eventually('the page is back', async () => (await fetch(shop.operatorUrl)).ok);
  assert.deepEqual(await all.kill('SIGTERM'), { code: 0, signal: null }, 'it is the process that was started at first');
});
