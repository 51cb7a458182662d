import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adminUrl, connect, ownShop, roleUrl } from './support.js';

const shop = await ownShop();
await shop.start('api');
const counts = async () =>
  (
    await shop.sql(`select (select count(*) from shop.orders)::integer as orders,
                           (select count(*) from queue)::integer as rows,
                           (select count(*) from inbox)::integer as receipts,
                           (select count(*) from pgmq."q_order.placed__mailer")::integer as events`)
  )[0];

test('an order writes receipt, order, outbox row and an event for each consumer', async () => {
  const before = await counts();
  const { status, headers, body } = await shop.post({
    items: [
      { article: 'tea', quantity: 2 },
      { article: 'pot', quantity: 1 },
    ],
  });
  assert.equal(status, 201);
  assert.equal(headers.get('Idempotency-Replayed'), 'false');
  assert.equal(body.totalCents, 3800);
  const after = await counts();
  for (const what of ['orders', 'rows', 'receipts', 'events']) assert.equal(after[what], before[what] + 1, what);
});

test('the same key twice gives the same answer, and one order', async () => {
  const first = await shop.post(undefined, { 'Idempotency-Key': 'twice' });
  const before = await counts();
  const second = await shop.post(undefined, { 'Idempotency-Key': 'twice' });
  assert.deepEqual([second.status, second.text], [first.status, first.text]);
  assert.equal(second.headers.get('Idempotency-Replayed'), 'true');
  assert.deepEqual(await counts(), before);
});

test('a body whose keys stand in another order is the same body', async () => {
  const first = await shop.post('{"items": [{"article": "tea", "quantity": 1}]}', { 'Idempotency-Key': 'order' });
  const second = await shop.post('{"items":[{"quantity":1,"article":"tea"}]}', { 'Idempotency-Key': 'order' });
  assert.equal(second.text, first.text);
});

test('the same key with another body is a conflict', async () => {
  await shop.post(undefined, { 'Idempotency-Key': 'other' });
  const before = await counts();
  const { status, body } = await shop.post(
    { items: [{ article: 'pot', quantity: 1 }] },
    { 'Idempotency-Key': 'other' },
  );
  assert.equal(status, 409);
  assert.equal(body.message, 'this Idempotency-Key was used with another request');
  assert.deepEqual(await counts(), before);
});

test("another customer's request under the same key is another request", async () => {
  const ann = await shop.post(undefined, { 'Idempotency-Key': 'shared' });
  const bob = await shop.post(undefined, { 'Idempotency-Key': 'shared', 'X-Customer': 'bob' });
  assert.equal(bob.status, 201);
  assert.notEqual(bob.body.orderId, ann.body.orderId);
});

test('ten at once under one key make one order, and are all answered alike', async () => {
  const before = await counts();
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => shop.post(undefined, { 'Idempotency-Key': 'at-once' })),
  );
  assert.equal(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1);
  assert.equal(answers[0]!.status, 201);
  assert.equal(answers.filter(({ headers }) => headers.get('Idempotency-Replayed') === 'false').length, 1);
  assert.equal((await counts()).orders, before.orders + 1);
});

test('what is not a request is refused, and writes nothing', async () => {
  const before = await counts();
  const good = { items: [{ article: 'tea', quantity: 1 }] };
  const refused: [unknown, Record<string, string | undefined>, number][] = [
    [good, { 'Idempotency-Key': undefined }, 400],
    [good, { 'Idempotency-Key': '' }, 400],
    [good, { 'Idempotency-Key': 'k'.repeat(201) }, 400],
    [good, { 'X-Request-Id': 'r'.repeat(201) }, 400],
    [good, { 'X-Customer': undefined }, 401],
    [good, { 'X-Customer': 'ann:admin' }, 401],
    ['{"items": [', {}, 400],
    ['', {}, 400],
    [{}, {}, 400],
    [{ items: [] }, {}, 400],
    [{ items: [{ article: 'tea', quantity: 0 }] }, {}, 400],
    [{ items: [{ article: 'tea', quantity: '2' }] }, {}, 400],
    [{ items: [{ article: 'tea', quantity: 1 }], discount: 100 }, {}, 400],
  ];
  for (const [body, headers, expected] of refused) {
    const { status } = await shop.post(body, headers);
    assert.equal(status, expected, JSON.stringify([body, headers]).slice(0, 100));
  }
  assert.deepEqual(await counts(), before);
});

test('a refusal that is final is kept and answered again', async () => {
  const unknown = { items: [{ article: 'moon', quantity: 1 }] };
  const before = await counts();
  const first = await shop.post(unknown, { 'Idempotency-Key': 'moon' });
  const second = await shop.post(unknown, { 'Idempotency-Key': 'moon' });
  assert.deepEqual([first.status, second.status, second.text], [422, 422, first.text]);
  assert.deepEqual(await counts(), { ...before, receipts: before.receipts + 1 });
});

test('what fails in the middle leaves nothing, and may be sent again', async () => {
  const before = await counts();
  await shop.sql('revoke execute on function public.event_bus_send(text, text, jsonb, varchar) from app_be');
  const failed = await shop.post(undefined, { 'Idempotency-Key': 'broken' });
  await shop.sql('grant execute on function public.event_bus_send(text, text, jsonb, varchar) to app_be');
  assert.equal(failed.status, 500);
  assert.doesNotMatch(failed.text, /permission|event_bus/, 'what went wrong inside is nobody else’s business');
  assert.deepEqual(await counts(), before);
  assert.equal((await shop.post(undefined, { 'Idempotency-Key': 'broken' })).status, 201);
});

test('a repeat that would wait too long for the first one is told to come again', async () => {
  const first = await connect(roleUrl('app_be', shop.database));
  await first.query('begin');
  await first.query('select * from public.inbox_claim_request($1, $2, $3, $4)', ['ann', 'place-order', 'slow', '{}']);
  const { status, headers } = await shop.post(undefined, { 'Idempotency-Key': 'slow' });
  assert.deepEqual([status, headers.get('Retry-After')], [503, '1']);
  await first.query('rollback');
  await first.end();
  assert.equal((await shop.post(undefined, { 'Idempotency-Key': 'slow' })).status, 201);
});

test('more requests than connections are told to come again, too', async () => {
  const lock = await connect(adminUrl(shop.database));
  await lock.query('begin');
  await lock.query('lock table inbox');
  const answers = await Promise.all(Array.from({ length: 15 }, () => shop.post()));
  await lock.query('rollback');
  await lock.end();
  for (const { status, headers } of answers) assert.deepEqual([status, headers.get('Retry-After')], [503, '1']);
  assert.equal((await shop.post()).status, 201);
});

test('a receipt without an outcome is a conflict, and no second order', async () => {
  await shop.sql(
    `select * from inbox_claim_request('ann', 'place-order', 'begun',
                                       '{"items": [{"article": "tea", "quantity": 2}]}')`,
  );
  const { status, body } = await shop.post(undefined, { 'Idempotency-Key': 'begun' });
  assert.deepEqual([status, body.message], [409, 'this request was begun, and has not ended']);
});

test('an order is shown to the customer who placed it, and to nobody else', async () => {
  const id = await shop.order();
  const { status, body } = await shop.get(id);
  assert.equal(status, 200);
  assert.deepEqual([body.state, body.totalCents, body.items], ['placed', 900, [{ article: 'tea', quantity: 2 }]]);
  assert.equal((await shop.get(id, 'bob')).status, 404);
  assert.equal((await shop.get('no-uuid')).status, 400);
});
