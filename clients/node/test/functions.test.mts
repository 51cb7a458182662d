// Every function, on everything that takes a call: what comes back has the columns and the types that are declared.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { callDbFunction, jsonNull, type DbFunctionArgs, type DbFunctionName, type DbFunctionRow } from 'hfs-lite';
import { nullable, values } from '../overlay.mjs';
import { catalog } from '../generate.mjs';
import { minutes, only, ownDatabase, unique } from './support.mjs';

const database = await ownDatabase();
const functions = await catalog(database.admin);

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** What each of PostgreSQL's types is in JavaScript. */
const types: Record<string, (value: unknown) => boolean> = {
  'bigint': (value) => typeof value === 'string' && /^[0-9]+$/.test(value),
  'boolean': (value) => typeof value === 'boolean',
  'character varying': (value) => typeof value === 'string',
  'double precision': (value) => typeof value === 'number',
  'integer': (value) => Number.isInteger(value),
  'jsonb': (value) => value !== undefined,
  'text': (value) => typeof value === 'string',
  'timestamp with time zone': (value) => value instanceof Date && !Number.isNaN(value.getTime()),
  'uuid': (value) => typeof value === 'string' && uuid.test(value),
  'void': (value) => value === '',
};

/** All that was called, as name/number of arguments, and all that was seen in a column: null, or the text. */
const called = new Set<string>();
const seen = new Map<string, Set<unknown>>();

function look(name: DbFunctionName, args: readonly unknown[], rows: object[]) {
  called.add(`${name}/${args.length}`);
  const f = functions.find((f) => `public.${f.name}` === name)!;
  for (const row of rows) {
    assert.deepEqual(Object.keys(row), f.columns.map((column) => column.name));
    for (const column of f.columns) {
      const at = `${f.name}.${column.name}`;
      const value: unknown = row[column.name as never];
      seen.set(at, (seen.get(at) ?? new Set()).add(typeof value === 'string' || value === null ? value : 'a value'));
      if (value === null && column.type !== 'jsonb') {
        assert(nullable[f.name]?.includes(column.name), `${at} is null, and overlay.mjs does not say so`);
      } else {
        assert(types[column.type]!(value), `${at} is ${JSON.stringify(value)}, and not what ${column.type} is`);
      }
    }
  }
}

for (const [what, queryable] of Object.entries(await database.queryables())) {
  const callOn = (on: typeof queryable) =>
    async <Name extends DbFunctionName>(name: Name, args: Readonly<DbFunctionArgs<Name>>) => {
      const rows: DbFunctionRow<Name>[] = await callDbFunction(on, name, args);
      look(name, args, rows);
      return rows;
    };
  const call = callOn(queryable);
  const asAdmin = callOn(database.admin);

  describe(what, () => {
    test('a job', async () => {
      const key = unique('job');
      const claim = () => call('public.job_claim', ['report', key, 'worker', minutes(5), { month: 1 }, null]);
      const first = only(await claim());
      assert.deepEqual([first.kind, first.fencing_token, first.current_step], ['report', '1', null]);
      assert.deepEqual(first.payload, { month: 1 });
      assert.deepEqual(await claim(), []);
      const { id, fencing_token } = first;
      assert.deepEqual(await call('public.job_advance', [id, fencing_token, 'written', null]), [{ id }]);
      assert.deepEqual(await call('public.job_fail', [id, fencing_token, 'no answer', null]), [{ id }]);
      const again = only(await claim());
      assert.deepEqual([again.fencing_token, again.current_step], ['2', 'written']);
      assert.deepEqual(await call('public.job_complete', [id, fencing_token, null]), []);
      assert.deepEqual(await call('public.job_complete', [id, again.fencing_token, null]), [{ id }]);
      assert.deepEqual(await call('public.jobs_sweep', [minutes(1), 10_000]), [{ deleted_count: 1 }]);
    });

    test('many jobs', async () => {
      const keys = [unique('job'), unique('job')];
      const claim = () => call('public.job_claim_many', ['report', keys, 'worker', minutes(5), [{ n: 1 }, [2]], null]);
      const jobs = (await claim()).sort((a, b) => keys.indexOf(a.job_key) - keys.indexOf(b.job_key));
      assert.deepEqual(jobs.map((job) => [job.kind, job.job_key, job.fencing_token, job.current_step, job.payload]), [
        ['report', keys[0], '1', null, { n: 1 }],
        ['report', keys[1], '1', null, [2]],
      ]);
      assert.deepEqual(await claim(), []);
      const [a, b] = jobs.map((job) => job.id) as [string, string];
      const held = only(await call('public.job_heartbeat', [a, 1, minutes(9), null]));
      assert.equal(held.id, a);
      assert(held.lease_expires_at > minutes(8));
      assert.deepEqual(await call('public.job_heartbeat', [a, 2, minutes(9), minutes(0)]), []);
      await call('public.job_advance', [a, 1, 'written', null]);
      const unknown = '00000000-0000-4000-8000-000000000000';
      const reasons = ['no answer', null, ''];
      assert.deepEqual(await call('public.job_fail_many', [[a, b, unknown], [1n, '2', 1], reasons, null]), [
        { id: a, verdict: 'done' },
        { id: b, verdict: 'stale' },
        { id: unknown, verdict: 'unknown' },
      ]);
      const again = only(await claim());
      assert.deepEqual([again.id, again.fencing_token, again.current_step], [a, '2', 'written']);
      assert.deepEqual(await call('public.job_complete_many', [[b, unknown, a], [1, 1, 1], null]), [
        { id: b, verdict: 'done' },
        { id: unknown, verdict: 'unknown' },
        { id: a, verdict: 'stale' },
      ]);
      assert.deepEqual(await call('public.job_complete_many', [[a], [again.fencing_token], null]), [
        { id: a, verdict: 'done' },
      ]);
      assert.deepEqual(await call('public.jobs_sweep', [minutes(1), 10_000]), [{ deleted_count: 2 }]);
    });

    test('a tick', async () => {
      const name = unique('cron');
      const minute = new Date('2026-03-29T01:30:00Z');
      assert.deepEqual(await call('public.job_tick_claim', [name, minute]), [{ name, minute }]);
      assert.deepEqual(await call('public.job_tick_claim', [name, minute, minutes(0)]), []);
    });

    test('the outbox', async () => {
      assert.deepEqual(await call('public.queue_write', ['mail', { n: 1 }, null, 'request-1']), [{ queue_write: '' }]);
      await call('public.queue_write', ['mail', { n: 2 }, minutes(1), null]);
      const rows = await call('public.queue_waiting', [10]);
      assert.deepEqual(rows.map((row) => row.payload), [{ n: 1 }, { n: 2 }]);
      assert.deepEqual(rows.map((row) => row.correlationId), ['request-1', rows[1]!.id]);
      const ids = rows.map((row) => row.id);
      assert.deepEqual(await call('public.queue_mark_sent', [ids, null]), [{ queue_mark_sent: '' }]);
      assert.deepEqual(await call('public.queue_waiting', [10]), []);
      assert.deepEqual(await call('public.queue_sweep', [minutes(1), 10_000]), [{ deleted_count: 2 }]);
    });

    test('many rows of the outbox', async () => {
      const ids = (await call('public.queue_write_many', ['mail', ['a "text"', [1, null], jsonNull], null, 'r'])).map(
        (row) => row.id);
      const rows = await call('public.queue_waiting', [10]);
      assert.deepEqual(rows.map((row) => [row.id, row.payload, row.correlationId]), [
        [ids[0], 'a "text"', 'r'],
        [ids[1], [1, null], 'r'],
        [ids[2], null, 'r'],
      ]);
      await call('public.queue_mark_sent', [ids, null]);
      assert.deepEqual(await call('public.queue_sweep', [minutes(1), 10_000]), [{ deleted_count: 3 }]);
    });

    test('many deliveries', async () => {
      const events = ['a', 'it\'s "b", {c}', 'NULL'].map((name) => unique(name));
      const claim = () => call('public.inbox_claim_events', ['bus', events]);
      assert.deepEqual(await claim(), events.map((event_id) => ({ event_id })));
      assert.deepEqual(await claim(), []);
      assert.deepEqual(await call('public.inbox_sweep_events', [minutes(1), 10_000]), [{ deleted_count: 3 }]);
    });

    test('a delivery', async () => {
      const event_id = unique('event');
      assert.deepEqual(await call('public.inbox_claim_event', ['bus', event_id]), [{ event_id }]);
      assert.deepEqual(await call('public.inbox_claim_event', ['bus', event_id]), []);
      assert.deepEqual(
        await call('public.inbox_claim_client', ['bus', event_id, 'f']),
        [{ request_fingerprint: null, outcome: null, incomplete: true }],
      );
      assert.deepEqual(await call('public.inbox_forget', ['bus', event_id]), [{ event_id }]);
      await call('public.inbox_claim_event', ['bus', event_id]);
      assert.deepEqual(await call('public.inbox_sweep_events', [minutes(1), 10_000]), [{ deleted_count: 1 }]);
    });

    test("a client's request", async () => {
      const key = unique('key');
      const outcome = { status: 201 };
      const states = [];
      const first = only(await call('public.inbox_claim_request', ['ann', 'pay', key, { amount: '7' }]));
      states.push(first.state);
      states.push(only(await call('public.inbox_claim_request', ['ann', 'pay', key, { amount: '7' }, null])).state);
      const saved = await call('public.inbox_save_client_outcome', [first.source, key, outcome]);
      assert.deepEqual(saved, [{ outcome }]);
      const replay = only(await call('public.inbox_claim_request', ['ann', 'pay', key, { amount: '7' }, minutes(0)]));
      states.push(replay.state);
      assert.deepEqual(replay.outcome, outcome);
      assert.deepEqual(states, ['claimed', 'incomplete', 'replay']);
      const { request_fingerprint } = only(await call('public.request_fingerprint', [{ amount: '7' }]));
      assert.deepEqual(
        await call('public.inbox_claim_client', [first.source, key, request_fingerprint, null]),
        [{ request_fingerprint, outcome, incomplete: false }],
      );
      assert.deepEqual(await call('public.canonical_json', [{ b: 1, a: 2 }]), [{ canonical_json: '{"a":2,"b":1}' }]);
      assert.deepEqual(await call('public.inbox_sweep_clients', [minutes(1), 10_000]), [{ deleted_count: 1 }]);
    });

    test('an event', async () => {
      const topic = unique('placed');
      const queues = only(await call('public.event_bus_subscribe', [topic, 'mailer']));
      assert.deepEqual(queues, { queue: `${topic}__mailer`, dead_letter_queue: `${topic}__mailer__dead` });
      const { queue } = queues;
      const envelope = { eventId: 'e1', eventName: topic, payload: { dedupeKey: 'a' } };
      const sent = [{ queues: 1 }];
      assert.deepEqual(await call('public.event_bus_send', [topic, envelope]), sent);
      assert.deepEqual(await call('public.event_bus_send', ['e2', topic, { dedupeKey: 'b' }, 'request']), sent);
      await call('public.event_bus_send', ['e3', topic, { dedupeKey: 'c' }, null]);
      const [a, b, c] = await call('public.event_bus_read', [queue, 30, 10]);
      assert(a && b && c);
      assert.deepEqual(a.message, envelope);
      assert.equal(a.read_ct, 1);
      assert.deepEqual(await call('public.event_bus_archive', [queue, a.msg_id, 2]), []);
      assert.deepEqual(await call('public.event_bus_archive', [queue, a.msg_id, a.read_ct]), [{ msg_id: a.msg_id }]);
      assert.deepEqual(await call('public.event_bus_archive', [queue, a.msg_id]), []);
      const buried = [
        only(await call('public.event_bus_bury', [queue, b.msg_id, 'no answer', b.read_ct])),
        only(await call('public.event_bus_bury', [queue, c.msg_id])),
      ];
      assert.deepEqual(await call('public.event_bus_bury', [queue, c.msg_id, null]), []);
      const letters = await call('public.event_bus_dead_letters', [queue]);
      assert.deepEqual(letters.map((letter) => [letter.msg_id, letter.attempts, letter.reason]), [
        [buried[0]!.msg_id, 1, 'no answer'],
        [buried[1]!.msg_id, 1, null],
      ]);
      assert.deepEqual(await call('public.event_bus_dead_letters', [queue, 1]), letters.slice(0, 1));
      const all = (await call('public.event_bus_all_dead_letters', [])).filter((letter) => letter.queue === queue);
      assert.deepEqual(all, letters.map((letter) => ({ queue, ...letter })));
      await call('public.event_bus_all_dead_letters', [1]);
      only(await call('public.event_bus_requeue', [queue, buried[0]!.msg_id]));
      assert.deepEqual(await call('public.event_bus_requeue', [queue, buried[0]!.msg_id]), []);
      assert.deepEqual(await call('public.event_bus_sweep', [queue, minutes(1), 10]), [{ deleted_count: 1 }]);
    });

    test('many events', async () => {
      const topic = unique('placed');
      const { queue } = only(await call('public.event_bus_subscribe', [topic, 'mailer']));
      const envelopes = ['a', 'b'].map((dedupeKey) => ({ eventName: topic, payload: { dedupeKey } }));
      assert.deepEqual(await call('public.event_bus_send_many', [topic, envelopes]), [{ queues: 1 }]);
      assert.deepEqual(await call('public.event_bus_send_many', [topic, []]), []);
      const [a, b] = await call('public.event_bus_read', [queue, 30, 10]);
      assert(a && b);
      assert.deepEqual([a.message, b.message], envelopes);
      const held = only(await call('public.event_bus_extend', [queue, a.msg_id, a.read_ct, 600]));
      assert.equal(held.msg_id, a.msg_id);
      assert(held.vt > a.vt);
      assert.deepEqual(await call('public.event_bus_extend', [queue, a.msg_id, 2, 600]), []);
      const ids = [b.msg_id, a.msg_id, '999'];
      assert.deepEqual(await call('public.event_bus_archive_many', [queue, ids, [1, 2, 1]]), [
        { msg_id: b.msg_id, verdict: 'done' },
        { msg_id: a.msg_id, verdict: 'stale' },
        { msg_id: '999', verdict: 'unknown' },
      ]);
      assert.deepEqual(await call('public.event_bus_sweep', [queue, minutes(1), 10]), [{ deleted_count: 1 }]);
    });

    test('subscriptions', async () => {
      const topic = unique('placed');
      const { queue, dead_letter_queue } = only(await call('public.event_bus_subscribe', [topic, 'mailer']));
      await database.admin.query('DELETE FROM event_bus_subscriptions WHERE queue = $1', [queue]);
      assert.deepEqual(await call('public.event_bus_record', [queue]), [{ topic, queue }]);
      assert.deepEqual(await call('public.event_bus_record', []), []);
      await database.admin.query('DELETE FROM pgmq.topic_bindings WHERE queue_name = $1', [queue]);
      await database.admin.query('SELECT pgmq.drop_queue($1)', [dead_letter_queue]);
      const problems = await call('public.event_bus_check', []);
      assert.deepEqual(problems.map(({ problem, topic, queue, repairable }) => [problem, topic, queue, repairable]), [
        ['missing_dead_letter_queue', null, queue, true],
        ['missing_binding', topic, queue, true],
      ]);
      const mended = problems.map(({ repairable, ...problem }) => problem);
      assert.deepEqual(await call('public.event_bus_repair', []), mended);
      assert.deepEqual(await call('public.event_bus_unsubscribe', [topic, queue]), [{ topic, queue }]);
    });

    test('health and ages', async () => {
      const health = await call('public.hfs_lite_health', []);
      const waiting = health.find((row) => row.area === 'queue' && row.metric === 'waiting');
      assert.deepEqual(waiting, { area: 'queue', name: 'queue', metric: 'waiting', value: 0, unit: 'rows' });
      assert.deepEqual(await call('public.hfs_lite_age', [minutes(-180)]), [{ hfs_lite_age: '3 hours' }]);
      assert.deepEqual(
        await call('public.hfs_lite_age', ['2026-01-01T00:00:00Z', '2026-01-01T01:01:00+01:00']),
        [{ hfs_lite_age: '1 minute' }],
      );
      assert.deepEqual(await call('public.hfs_lite_age', [null, null]), [{ hfs_lite_age: null }]);
    });

    test('doors', async () => {
      const granted = [{ hfs_lite_grant: '' }];
      for (const kind of values.hfs_lite_grant!.p_as!) {
        assert.deepEqual(await asAdmin('public.hfs_lite_grant', ['app_be', kind as 'monitor']), granted);
      }
      assert.deepEqual(await asAdmin('public.hfs_lite_revoke', ['app_be']), [{ hfs_lite_revoke: '' }]);
      assert.deepEqual(await asAdmin('public.hfs_lite_grant', ['app_be']), granted);
    });
  });
}

test("a pgmq that is another owner's, or too old, is a problem of no queue", async () => {
  const { admin } = database;
  for (const change of [`extowner = 'app_be'::regrole`, `extversion = '1.11.0'`]) {
    await admin.query('BEGIN; SET LOCAL allow_system_table_mods = on');
    await admin.query(`UPDATE pg_extension SET ${change} WHERE extname = 'pgmq'`);
    const problems = await callDbFunction(admin, 'public.event_bus_check', []);
    await admin.query('ROLLBACK');
    look('public.event_bus_check', [], problems);
    const { topic, queue } = only(problems);
    assert.deepEqual([topic, queue], [null, null]);
  }
});

test('messages and dead letters that something else wrote have the declared columns too', async () => {
  const { admin } = database;
  const { queue, dead_letter_queue } = only(
    await callDbFunction(admin, 'public.event_bus_subscribe', [unique('placed'), 'mailer']));
  const note = '{"hfs_lite": {"attempts": "x", "buried_at": "soon", "reason": null}}';
  for (const name of [queue, dead_letter_queue]) {
    await admin.query(`SELECT pgmq.send($1, NULL::jsonb, NULL::jsonb)`, [name]);
    for (const headers of ['null', '[]', '{"hfs_lite": 1}', note]) {
      await admin.query(`SELECT pgmq.send($1, 'null'::jsonb, $2::jsonb)`, [name, headers]);
    }
  }
  const messages = await callDbFunction(admin, 'public.event_bus_read', [queue, 0, 10]);
  look('public.event_bus_read', [queue, 0, 10], messages);
  const letters = await callDbFunction(admin, 'public.event_bus_dead_letters', [queue]);
  look('public.event_bus_dead_letters', [queue], letters);
  assert.deepEqual([messages.length, letters.length], [5, 5]);
  look('public.event_bus_all_dead_letters', [], await callDbFunction(admin, 'public.event_bus_all_dead_letters', []));
});

test('problems of every other kind have the declared columns too', async () => {
  const { admin } = database;
  await admin.query('BEGIN');
  await admin.query(`
    SELECT pgmq.create('bound_only'), pgmq.create('orphan__dead'), pgmq.create('${'long'.repeat(11)}');
    SELECT pgmq.bind_topic('a.*', 'bound_only'), pgmq.bind_topic('b', '${'long'.repeat(11)}');
    ALTER TABLE pgmq.q_bound_only OWNER TO app_be;
    INSERT INTO event_bus_subscriptions (topic, queue) VALUES ('not a topic', 'nowhere')`);
  await admin.query('DROP TABLE pgmq.a_bound_only');
  const problems = await callDbFunction(admin, 'public.event_bus_check', []);
  await admin.query('ROLLBACK');
  look('public.event_bus_check', [], problems);
  assert.deepEqual([...new Set(problems.map((row) => row.problem))], [
    'missing_queue', 'missing_table', 'missing_dead_letter_queue', 'missing_binding', 'unrecorded_subscription',
    'orphaned_dead_letter_queue', 'other_owner',
  ]);
});

// What follows looks at all that came before.

test('every function was called, with every number of arguments that it takes', () => {
  const all = functions.flatMap((f) => {
    const required = f.arguments.filter((argument) => !argument.optional).length;
    const counts = f.arguments.map((_, i) => i + 1).concat(0).filter((count) => count >= required);
    return counts.map((count) => `public.${f.name}/${count}`);
  });
  assert.deepEqual([...called].sort(), all.sort());
});

test('each column that may be NULL was NULL once, and once was not', () => {
  for (const [name, names] of Object.entries(nullable)) {
    for (const column of names.filter((name) => !name.startsWith('p_'))) {
      const came = seen.get(`${name}.${column}`)!;
      assert(came.has(null), `${name}.${column} was never NULL`);
      assert(came.size > 1, `${name}.${column} was always NULL`);
    }
  }
});

test('texts of which there are only some were each of them, and no other', () => {
  for (const [name, columns] of Object.entries(values)) {
    for (const [column, texts] of Object.entries(columns).filter(([column]) => !column.startsWith('p_'))) {
      assert.deepEqual([...seen.get(`${name}.${column}`)!].sort(), texts.toSorted());
    }
  }
});
