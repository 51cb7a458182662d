import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, ownShop } from './support.js';

const shop = await ownShop();

test('of several instances that wake in one minute, one reports it', async () => {
  const instances = await Promise.all([shop.start('tick'), shop.start('tick'), shop.start('tick')]);
  const ticks = () => instances.flatMap(({ log }) => log).filter(({ context }) => context === 'Tick');
  // They tick when they start. If the minute changes just then, they tick again at the next.
  await eventually('each has ticked', () =>
    instances.every(({ log }) => log.some(({ context }) => context === 'Tick')),
  );
  const minutes = new Set(ticks().map(({ minute }) => minute));
  for (const minute of minutes) {
    const winners = ticks().filter((tick) => tick.minute === minute && tick.message === 'reporting');
    assert.equal(winners.length, 1, `minute ${minute}`);
  }
  assert.equal((await shop.sql('select from shop.minute_reports')).length, minutes.size);
  assert(ticks().some(({ message }) => message === 'somebody else reports'));
  for (const instance of instances) assert.deepEqual(await instance.kill('SIGTERM'), { code: 0, signal: null });
});

test('a tick whose work fails is free again, and is done by the next one', async () => {
  await shop.sql('delete from job_ticks');
  await shop.sql('truncate shop.minute_reports');
  await shop.sql('revoke insert on shop.minute_reports from app_be');
  const instance = await shop.start('tick');
  await instance.logged('the failure', ({ message }) => message.includes('permission denied'));
  assert.deepEqual(await shop.sql('select * from job_ticks'), []);
  await shop.sql('grant insert on shop.minute_reports to app_be');
  await eventually('it is reported', async () => (await shop.sql('select from shop.minute_reports'))[0]);
});

test('a report counts the orders of its minute, and old receipts are swept', async () => {
  await shop.sql('delete from job_ticks');
  await shop.sql('truncate shop.minute_reports');
  // One in each minute around the one that is ticked, whichever that will be.
  await shop.sql(`insert into shop.orders (id, customer, items, total_cents, placed_at)
    select gen_random_uuid(), 'ann', '[]', 500 + n, date_trunc('minute', now()) + n * interval '1 minute'
      from generate_series(-4, 4) n`);
  await shop.sql(`select * from inbox_claim_client('client:ann:place-order', 'old', 'f', now() - interval '8 days')`);
  await shop.sql(`select * from inbox_claim_client('client:ann:place-order', 'new', 'f', now() - interval '6 days')`);
  for (const key of ['old', 'new'])
    await shop.sql(`select * from inbox_save_client_outcome('client:ann:place-order', $1, '{}')`, [key]);
  await shop.start('tick');
  const [report] = await eventually('it is reported', async () => {
    const rows = await shop.sql(`select r.orders, r.total_cents = o.total_cents as "its own",
                                        t.minute - r.minute = interval '2 minutes' as "whose orders are committed"
                                   from shop.minute_reports r join shop.orders o on o.placed_at = r.minute
                                  cross join (select max(minute) as minute from job_ticks) t`);
    return rows.length > 0 && rows;
  });
  assert.deepEqual(report, { orders: 1, 'its own': true, 'whose orders are committed': true });
  assert.deepEqual(await shop.sql('select event_id from inbox'), [{ event_id: 'new' }]);
});
