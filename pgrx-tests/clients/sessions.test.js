// Nothing of a call is left in the session: whoever gets the connection next gets it as it was.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callerOn, doors, ownDatabase, unique } from './support.js';

const database = await ownDatabase();
const minute = () => new Date(Date.now() + 60_000);

/** One call of each function that the back end has, in an order in which each finds something to do. */
async function callEverything(call) {
  const key = unique('key');
  const [job] = await call('job_claim', 'mail', key, 'worker', minute(), '{}', null);
  await call('job_advance', job.id, job.fencing_token, 'sent', null);
  await call('job_fail', job.id, job.fencing_token, 'no answer', null);
  const [again] = await call('job_claim', 'mail', key, 'worker', minute(), '{}', null);
  await call('job_complete', again.id, again.fencing_token, null);
  await call('job_tick_claim', key, new Date());
  await call('queue_write', 'mail', '{}', null, null);
  const rows = await call('queue_waiting', 1);
  await call('queue_mark_sent', rows.map((row) => row.id), null);
  await call('inbox_claim_event', 'bus', key);
  await call('inbox_claim_client', 'client:1', key, 'f');
  await call('inbox_save_client_outcome', 'client:1', key, '{}');
  await call('inbox_claim_request', '1', 'pay', key, '{}');
  await call('inbox_sweep_clients', minute(), 1);
  await call('canonical_json', '{}');
  await call('request_fingerprint', '{}');
  await call('event_bus_send', 'placed', { payload: { dedupeKey: '1' } });
  await call('event_bus_send', 'e', 'placed', { dedupeKey: '2' }, null);
  const [first, second] = await call('event_bus_read', 'placed__mailer', 30, 2);
  await call('event_bus_archive', 'placed__mailer', first.msg_id, first.read_ct);
  const [letter] = await call('event_bus_bury', 'placed__mailer', second.msg_id, null, second.read_ct);
  await call('event_bus_dead_letters', 'placed__mailer');
  await call('event_bus_requeue', 'placed__mailer', letter.msg_id);
}

/** All that a session can carry from one transaction to the next. */
async function stateOf(client) {
  const { rows } = await client.query(`
    SELECT current_user, session_user, current_schemas(true)::text AS path, pg_my_temp_schema() AS temporary_tables,
           pg_backend_pid() AS pid,
           (SELECT jsonb_object_agg(name, setting) FROM pg_settings WHERE source = 'session') AS settings,
           (SELECT count(*) FROM pg_prepared_statements) AS prepared,
           (SELECT count(*) FROM pg_cursors WHERE name <> '') AS cursors,
           (SELECT count(*) FROM pg_listening_channels()) AS channels,
           (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid'
                                            AND relation IS NULL) AS locks`);
  return rows[0];
}

/** The locks of the application's sessions, none of which is in a transaction. */
async function locksLeft() {
  const { rows } = await database.admin.query(`
    SELECT l.locktype, l.relation::regclass::text, l.mode
      FROM pg_locks l JOIN pg_stat_activity a USING (pid)
     WHERE a.datname = current_database() AND a.usename = 'app_be'`);
  return rows;
}

await database.admin.query("SELECT public.event_bus_subscribe('placed', 'mailer')");

for (const door of Object.keys(doors)) {
  test(`the session is after all calls what it was before, through ${door}`, async (t) => {
    const client = await database.client(t, door);
    const before = await stateOf(client);
    await client.query('BEGIN');
    await callEverything(callerOn(client));
    // Not ROLLBACK: it would also take back a setting that was changed.
    await client.query('COMMIT');
    assert.deepEqual(await stateOf(client), before);
    assert.deepEqual(await locksLeft(), []);
  });

  test(`a refused call leaves nothing either, through ${door}`, async (t) => {
    const client = await database.client(t, door);
    const before = await stateOf(client);
    await assert.rejects(callerOn(client)('queue_waiting', 0), { code: '22023' });
    assert.deepEqual(await stateOf(client), before);
    assert.deepEqual(await locksLeft(), []);
  });
}

test('a session that was reset with DISCARD ALL goes on', async (t) => {
  const client = await database.client(t, 'server');
  for (const reset of ['DISCARD ALL', 'DISCARD PLANS', 'RESET ALL']) {
    await client.query('BEGIN');
    await callEverything(callerOn(client));
    await client.query('ROLLBACK');
    await client.query(reset);
  }
});
