import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect, ownShop, roleUrl } from './support.js';

const shop = await ownShop();
await shop.sql(`insert into shop.orders (id, customer, items, total_cents) values (gen_random_uuid(), 'ann', '[]', 1)`);

/** What stands here is refused with 42501; what else the role does, the other tests show. */
const refused: Record<string, string[]> = {
  app_be: [
    'select * from public.jobs',
    'select * from public.queue',
    'select * from public.hfs_lite_jobs',
    'select * from pgmq.meta',
    'select * from public.hfs_lite_health()',
    `select * from public.event_bus_subscribe('order.placed', 'spy')`,
    `select * from public.inbox_forget('client:ann:place-order', 'key')`,
    'update shop.orders set total_cents = 0',
    'delete from shop.orders',
    'delete from shop.shipments',
    'update shop.mails set recipient = null',
    'update shop.consumer_switches set failing = true',
    'create table shop.mine ()',
    'create table public.mine ()',
    'truncate shop.orders',
  ],
  operator: [
    'select * from public.jobs',
    'select * from pgmq.meta',
    'select * from shop.orders',
    'select * from shop.mails',
    'update shop.shipments set due_at = null',
    `insert into shop.consumer_switches values ('spy', true)`,
    `update shop.consumer_switches set consumer = 'spy'`,
    `select public.hfs_lite_grant('operator')`,
    'create table shop.mine ()',
  ],
  shop_owner: ['select * from public.jobs', 'select * from pgmq.meta', `select public.hfs_lite_grant('shop_owner')`],
};
for (const [role, statements] of Object.entries(refused)) {
  test(`${role} can do no more than it should`, async () => {
    const client = await connect(roleUrl(role, shop.database));
    try {
      for (const statement of statements) {
        await assert.rejects(client.query(statement), { code: '42501' }, statement);
      }
    } finally {
      await client.end();
    }
  });
}

test('none of the roles is more than a role that may log in', async () => {
  const rows = await shop.sql(`select rolname from pg_roles
    where rolname in ('app_be', 'operator', 'shop_owner')
      and rolcanlogin and not (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls)
      and not exists (select from pg_auth_members where member = pg_roles.oid)`);
  assert.equal(rows.length, 3);
});
