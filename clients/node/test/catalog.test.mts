// What overlay.mjs adds to the catalog is so. (./run compares src/functions.ts with the catalog.)
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { callDbFunction, sqlState, type DbFunctionName } from 'hfs-lite';
import { nullable } from '../overlay.mjs';
import { catalog } from '../generate.mjs';
import { minutes, ownDatabase, refusal } from './support.mjs';

const database = await ownDatabase();

test('the version is that of the extension', async () => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8'));
  const { rows } = await database.admin.query(`SELECT extversion FROM pg_extension WHERE extname = 'hfs_lite'`);
  assert.equal(version, rows[0].extversion);
});

const id = '00000000-0000-4000-8000-000000000000';
await callDbFunction(database.admin, 'public.event_bus_subscribe', ['placed', 'mailer']);
/** A call of each function in which nothing is NULL, and that is not refused. */
const calls: [DbFunctionName, unknown[]][] = [
  ['public.canonical_json', [{}]],
  ['public.event_bus_all_dead_letters', [1]],
  ['public.event_bus_archive', ['placed__mailer', 1, 1]],
  ['public.event_bus_archive_many', ['placed__mailer', [1], [1]]],
  ['public.event_bus_bury', ['placed__mailer', 1, 'why', 1]],
  ['public.event_bus_check', []],
  ['public.event_bus_dead_letters', ['placed__mailer', 1]],
  ['public.event_bus_extend', ['placed__mailer', 1, 1, 1]],
  ['public.event_bus_read', ['placed__mailer', 1, 1]],
  ['public.event_bus_record', ['placed__mailer']],
  ['public.event_bus_repair', []],
  ['public.event_bus_requeue', ['placed__mailer', 1]],
  ['public.event_bus_send', ['placed', { payload: { dedupeKey: 'k' } }]],
  ['public.event_bus_send', ['e', 'placed', { dedupeKey: 'k' }, 'request']],
  ['public.event_bus_send_many', ['placed', [{ payload: { dedupeKey: 'k' } }]]],
  ['public.event_bus_subscribe', ['placed', 'mailer']],
  ['public.event_bus_sweep', ['placed__mailer', minutes(0), 1]],
  ['public.event_bus_unsubscribe', ['other', 'other']],
  ['public.hfs_lite_age', [minutes(0), minutes(1)]],
  ['public.hfs_lite_grant', ['operator', 'operator']],
  ['public.hfs_lite_health', []],
  ['public.hfs_lite_revoke', ['app_be']],
  ['public.inbox_claim_client', ['door', 'key', 'f', minutes(0)]],
  ['public.inbox_claim_event', ['door', 'event']],
  ['public.inbox_claim_events', ['door', ['event']]],
  ['public.inbox_claim_request', ['1', 'pay', 'key', {}, minutes(0)]],
  ['public.inbox_forget', ['door', 'event']],
  ['public.inbox_save_client_outcome', ['door', 'key', {}]],
  ['public.inbox_sweep_clients', [minutes(0), 1]],
  ['public.inbox_sweep_events', [minutes(0), 1]],
  ['public.job_advance', [id, 1, 'step', minutes(0)]],
  ['public.job_claim', ['mail', 'key', 'worker', minutes(2), {}, minutes(0)]],
  ['public.job_claim_many', ['mail', ['key'], 'worker', minutes(2), [{}], minutes(0)]],
  ['public.job_complete', [id, 1, minutes(0)]],
  ['public.job_complete_many', [[id], [1], minutes(0)]],
  ['public.job_fail', [id, 1, 'why', minutes(0)]],
  ['public.job_fail_many', [[id], [1], ['why'], minutes(0)]],
  ['public.job_heartbeat', [id, 1, minutes(2), minutes(0)]],
  ['public.job_tick_claim', ['cron', minutes(0), minutes(0)]],
  ['public.jobs_sweep', [minutes(0), 1]],
  ['public.queue_mark_sent', [[id], minutes(0)]],
  ['public.queue_sweep', [minutes(0), 1]],
  ['public.queue_waiting', [1]],
  ['public.queue_write', ['mail', {}, minutes(0), 'request']],
  ['public.queue_write_many', ['mail', [{}], minutes(0), 'request']],
  ['public.request_fingerprint', [{}]],
];

describe('which arguments may be NULL', async () => {
  const functions = await catalog(database.admin);
  test('each function stands here with all its arguments', () => {
    assert.deepEqual(
      calls.map(([name, args]) => `${name}/${args.length}`),
      functions.map((f) => `public.${f.name}/${f.arguments.length}`),
    );
  });

  /** Calls it in a transaction that is rolled back. */
  const call = async (name: DbFunctionName, args: unknown[]) => {
    await database.admin.query('BEGIN');
    try {
      return await callDbFunction(database.admin, name, args as never);
    } finally {
      await database.admin.query('ROLLBACK');
    }
  };
  for (const [name, args] of calls) {
    const f = functions.find((f) => `public.${f.name}` === name && f.arguments.length === args.length)!;
    test(`${name} with ${args.length} arguments`, async () => {
      await call(name, args);
      for (const [i, argument] of f.arguments.entries()) {
        const withNull = call(name, args.with(i, null));
        if (f.strict) {
          assert.deepEqual(await withNull, [{ [f.name]: null }]);
        } else if (argument.nullable || nullable[f.name]?.includes(argument.name)) {
          await withNull;
        } else {
          assert.equal(sqlState(await refusal(withNull)), '22004', argument.name);
        }
        if (!argument.type.endsWith('[]') || f.name === 'queue_mark_sent') continue;
        const withNullInside = call(name, args.with(i, [null]));
        if (nullable[f.name]?.includes(`${argument.name}[]`)) await withNullInside;
        else assert.equal(sqlState(await refusal(withNullInside)), '22004', `${argument.name}[]`);
      }
    });
  }
});
