// Each kind of value goes in and comes back as what it was.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { callDbFunction, jsonNull, sqlState, type Json } from 'hfs-lite';
import { minutes, only, ownDatabase, refusal, unique } from './support.mjs';

const database = await ownDatabase();

for (const [what, queryable] of Object.entries(await database.queryables())) {
  describe(what, () => {
    const claim = async (payload: Json) => {
      const rows = await callDbFunction(
        queryable, 'public.job_claim', ['kind', unique('job'), 'worker', minutes(5), payload, null]);
      return only(rows);
    };

    const deep = { a: [{ b: [[], {}, [null, [1.5, -0.25, 'x']]] }], '': { 'ключ "q" \\': true, '1': false } };
    const jsons: [string, Json, unknown?][] = [
      ['an object', { month: 1, nothing: null }],
      ['an array', [1, 'two', [3], { four: 4 }, null]],
      ['an empty array', []],
      ['a deep value', deep],
      ['a string', 'x'],
      ['a string that looks like JSON', '{"a": [1]}'],
      ['a string that looks like null', 'null'],
      ['a string with quotes, backslashes and line ends', `'"\\n\\\n\r\t{}$1`],
      ['an empty string', ''],
      ['Unicode beyond 16 bits', { '😀': '𝄞 – ñ שלום \u2028' }],
      ['zero', 0],
      ['a number', -1.5e-7],
      ['false', false],
      ["JSON's null", jsonNull, null],
      ["JSON's null inside", { inside: jsonNull }, { inside: null }],
      ['a Date, as JSON.stringify writes it', new Date(0), '1970-01-01T00:00:00.000Z'],
      ['undefined inside, which JSON.stringify leaves out', { a: undefined, b: [undefined] }, { b: [null] }],
    ];
    for (const [what, given, expected = given] of jsons) {
      test(`as jsonb, ${what}`, async () => assert.deepEqual((await claim(given)).payload, expected));
    }

    test('as jsonb, null and undefined are NULL', async () => {
      assert.equal(sqlState(await refusal(claim(null as never))), '22004');
      assert.equal(sqlState(await refusal(claim(undefined as never))), '22004');
    });

    test('instants, to the millisecond', async () => {
      const name = unique('tick');
      const now = minutes(0);
      const age = async (instant: Date | string) =>
        only(await callDbFunction(queryable, 'public.hfs_lite_age', [instant, now])).hfs_lite_age;
      assert.equal(await age(new Date(now.getTime() + 59_000)), 'in 59 seconds');
      assert.equal(await age(new Date(now.getTime() - 59_999)), '59 seconds');
      assert.equal(await age(new Date(now.getTime() - 60_000)), '1 minute');
      const given: [Date | string, string][] = [
        [new Date('1969-12-31T23:59:00Z'), '1969-12-31T23:59:00.000Z'],
        ['2026-03-29T03:30:00+02:00', '2026-03-29T01:30:00.000Z'],
        ['2026-03-29 01:31:59.999999Z', '2026-03-29T01:31:00.000Z'],
        [new Date('+012026-01-01T00:00:00Z'), '+012026-01-01T00:00:00.000Z'],
      ];
      for (const [minute, expected] of given) {
        const row = only(await callDbFunction(queryable, 'public.job_tick_claim', [unique(name), minute, null]));
        assert.equal(row.minute.toISOString(), expected);
      }
    });

    test('an infinite instant is refused', async () => {
      const claim = callDbFunction(queryable, 'public.job_tick_claim', [unique('tick'), 'infinity']);
      assert.equal(sqlState(await refusal(claim)), '22023');
    });

    test('integers beyond 2^53', async () => {
      const topic = unique('placed');
      const { queue } = only(await callDbFunction(queryable, 'public.event_bus_subscribe', [topic, 'mailer']));
      const first = 9_007_199_254_740_993n;
      const ids = `pg_get_serial_sequence('pgmq."q_${queue}"', 'msg_id')`;
      await database.admin.query(`SELECT setval(${ids}, ${first}, false)`);
      const archive = async (msg_id: string | bigint) => {
        await callDbFunction(queryable, 'public.event_bus_send', [topic, { payload: { dedupeKey: 'k' } }]);
        const message = only(await callDbFunction(queryable, 'public.event_bus_read', [queue, 60, 1]));
        assert.equal(message.msg_id, String(msg_id));
        assert.deepEqual(
          await callDbFunction(queryable, 'public.event_bus_archive', [queue, msg_id, message.read_ct]),
          [{ msg_id: String(msg_id) }],
        );
      };
      await archive(first);
      await archive(String(first + 1n));
      const none = Number.MAX_SAFE_INTEGER;
      assert.deepEqual(await callDbFunction(queryable, 'public.event_bus_archive', [queue, none]), []);
    });

    test('texts with whatever may be in them', async () => {
      for (const text of [`'; DROP TABLE jobs; --`, '\\', '"', '{a,b}', '$1', '😀𝄞', 'שלום', ' a\n\tb ', 'NULL']) {
        const event_id = `${unique('event')}${text}`;
        const rows = await callDbFunction(queryable, 'public.inbox_claim_event', ['bus', event_id]);
        assert.deepEqual(rows, [{ event_id }]);
      }
    });

    test('arrays of ids: none, one, many', async () => {
      for (const n of [1, 2, 3]) await callDbFunction(queryable, 'public.queue_write', ['mail', n, null, null]);
      const rows = await callDbFunction(queryable, 'public.queue_waiting', [10]);
      assert.deepEqual(rows.map((row) => row.payload), [1, 2, 3]);
      const waiting = async () => {
        const rows = await callDbFunction(queryable, 'public.queue_waiting', [10]);
        return rows.map((row) => row.payload);
      };
      const mark = (ids: readonly string[]) => callDbFunction(queryable, 'public.queue_mark_sent', [ids, null]);
      await mark([]);
      assert.deepEqual(await waiting(), [1, 2, 3]);
      await mark([rows[1]!.id]);
      assert.deepEqual(await waiting(), [1, 3]);
      await mark(rows.map((row) => row.id));
      assert.deepEqual(await waiting(), []);
      assert.equal(sqlState(await refusal(mark([null as never]))), '22004');
    });
  });
}
