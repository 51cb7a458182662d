import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { after, test } from 'node:test';
import { text } from 'node:stream/consumers';
import { connect, eventually, freePort, ownShop, roleUrl } from './support.js';

const shop = await ownShop();
await shop.start('api outside');
const outbox = () =>
  shop.sql<{ id: string; sent: boolean }>('select id, sent_at is not null as sent from queue order by created_at, id');
const waiting = async () => (await outbox()).filter(({ sent }) => !sent).length;

/** Stands between relay and worker: keeps what comes, hands it on, and holds back the answer to the chosen one. */
async function postman(target?: string) {
  const received: { id: string; requestId: string | undefined }[] = [];
  let heldAt = 0;
  let caught!: () => void;
  let release!: () => void;
  let held = Promise.resolve();
  let caughtOne = Promise.resolve();
  const server = createServer(async (request: IncomingMessage, response) => {
    const body = await text(request);
    received.push({ id: JSON.parse(body).id, requestId: request.headers['x-request-id'] as string | undefined });
    const status = target
      ? (await shop.call(target, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })).status
      : 204;
    if (received.length === heldAt) {
      caught();
      await held;
    }
    response.writeHead(status).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    received,
    /** Holds the answer to the nth that is to come; resolves once it came. */
    hold(nth: number): void {
      heldAt = received.length + nth;
      held = new Promise((resolve) => (release = resolve));
      caughtOne = new Promise((resolve) => (caught = resolve));
    },
    caught: () => caughtOne,
    release: () => release(),
  };
}

test('kill -9 of the relay in mid-batch: nothing is marked, nothing is lost, nothing is done twice', async () => {
  await shop.start('worker');
  const post = await postman(`${shop.environment.WORKER_URL}/messages`);
  const orders = [await shop.order(), await shop.order(), await shop.order()];
  const rows = (await outbox()).map(({ id }) => id);

  // The worker has taken over the first two when the relay dies.
  post.hold(2);
  const relay = await shop.start('relay', { WORKER_URL: post.url });
  await post.caught();
  assert.deepEqual(await relay.kill(), { code: null, signal: 'SIGKILL' });
  assert.equal(await waiting(), 3, 'nothing is marked as sent');
  post.release();

  await shop.start('relay', { WORKER_URL: post.url });
  await eventually('the outbox is empty', async () => (await waiting()) === 0);
  assert.deepEqual(
    post.received.map(({ id }) => id),
    [rows[0], rows[1], ...rows],
    'the batch was carried again, in its order',
  );
  for (const orderId of orders) {
    await shop.shipped(orderId);
    assert.deepEqual(
      (await shop.journal(orderId)).map(({ effect, result }) => `${effect} ${result}`),
      ['charge performed', 'ship performed'],
    );
  }
});

test('the correlation id of a request goes with its message', async () => {
  const post = await postman();
  await shop.post(undefined, { 'X-Request-Id': 'request-7' });
  await shop.start('relay', { WORKER_URL: post.url });
  await eventually('it was carried', async () => (await waiting()) === 0);
  assert.equal(post.received.at(-1)!.requestId, 'request-7');
});

test('two relays carry each row once', async () => {
  const post = await postman();
  const before = (await outbox()).length;
  for (let i = 0; i < 2; i++) await shop.start('relay', { WORKER_URL: post.url });
  // One of them is held with its first row, so that the other one has to carry the rest.
  post.hold(1);
  await shop.order();
  await post.caught();
  for (let i = 0; i < 5; i++) await shop.order();
  await eventually('the other one has carried the rest', async () => (await waiting()) === 1);
  post.release();
  await eventually('the first one has, too', async () => (await waiting()) === 0);
  const rows = (await outbox()).slice(before).map(({ id }) => id);
  assert.deepEqual(post.received.map(({ id }) => id).sort(), rows.sort());
});

test('what nobody receives stays, and does not hold up what stands behind it', async () => {
  const post = await postman();
  const client = await connect(roleUrl('app_be', shop.database));
  await client.query(`select public.queue_write('nowhere', '{}', null, null)`);
  await client.end();
  await shop.order();
  const relay = await shop.start('relay', { WORKER_URL: post.url });
  await relay.logged('the refusal', ({ message }) => message === 'nobody receives nowhere');
  await eventually('the order behind it was carried', async () => (await waiting()) === 1);
  assert.equal(post.received.length, 1);
  await shop.sql(`update queue set sent_at = now() where queue = 'nowhere'`);
});

test('more than a batch that cannot be carried does not hold up what stands behind it', async () => {
  const hung = createServer((request, response) => {
    void text(request).then((body) => body.includes('"hang"') || response.writeHead(204).end());
  }).listen(0, '127.0.0.1');
  await once(hung, 'listening');
  after(() => hung.close());
  const client = await connect(roleUrl('app_be', shop.database));
  // Nobody receives these; no header can hold that; and two are never answered.
  await client.query(`select public.queue_write('nowhere', '{}', null, null) from generate_series(1, 30)`);
  await client.query(`select public.queue_write('fulfilment', '{}', null, 'café, 5 €')`);
  await client.query(`select public.queue_write('fulfilment', '{"hang": 1}', null, null) from generate_series(1, 2)`);
  await client.end();
  const behind = await shop.order();
  await shop.start('relay', {
    WORKER_URL: `http://127.0.0.1:${(hung.address() as { port: number }).port}`,
    CARRY_SECONDS: '0.2',
  });
  await eventually('the order behind them was carried', async () => {
    const sent = `select from queue where payload ->> 'orderId' = $1 and sent_at is not null`;
    return (await shop.sql(sent, [behind]))[0];
  });
  assert.equal(await waiting(), 33, 'the others wait');
  await shop.sql(`update queue set sent_at = now() where sent_at is null`);
  hung.closeAllConnections();
});

test('where nobody answers, all stays, until somebody does', async () => {
  const port = await freePort();
  const first = await shop.order();
  const relay = await shop.start('relay', { WORKER_URL: `http://127.0.0.1:${port}` });
  await relay.logged('nobody answers', ({ message }) => message.includes('does not answer'));
  assert.equal(await waiting(), 1);
  await shop.start('worker', { WORKER_PORT: String(port) });
  await shop.shipped(first);
  assert.equal(await waiting(), 0);
});

test('SIGTERM: a relay carries its batch to the end, marks it, and exits with 0', async () => {
  const post = await postman();
  await shop.order();
  await shop.order();
  post.hold(1);
  const relay = await shop.start('relay', { WORKER_URL: post.url });
  await post.caught();
  relay.signal('SIGTERM');
  await relay.logged('stopping');
  post.release();
  assert.deepEqual(await relay.end(), { code: 0, signal: null });
  assert.deepEqual([post.received.length, await waiting()], [2, 0]);
});
