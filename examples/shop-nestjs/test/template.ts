// Makes the database that those of the tests are copies of, as one makes a shop: setup, then migrations. Both can be
// run again.
import assert from 'node:assert/strict';
import { connect, connections, spawnMain } from './support.js';

const server = await connect(process.env['SHOP_SERVER']!);
await server.query('drop database if exists shop_template with (force)');
for (const command of ['setup', 'migrate', 'setup', 'migrate']) {
  const { code } = await spawnMain([command], connections('shop_template')).end();
  assert.equal(code, 0, `${command} failed`);
}
await server.end();
