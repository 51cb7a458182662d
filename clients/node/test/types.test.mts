// What must compile and what must not. Nothing is called: the compiler is the test, and an expected error that does not
// come is an error.
import { test } from 'node:test';
import {
  callDbFunction, jsonNull, type DbFunctionArgs, type DbFunctionName, type DbFunctionRow, type Queryable,
} from 'hfs-lite';
import type pg from 'pg';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';

test('types', () => {});

/** Whether two types are the same, not only assignable. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
function isTrue<_ extends true>() {}

type Clients = EntityManager | DataSource | QueryRunner | pg.Client | pg.Pool | pg.PoolClient;

export async function types(manager: EntityManager, clients: Clients, now: Date, anything: unknown) {
  // What takes a call.
  clients satisfies Queryable;
  await callDbFunction(clients, 'public.event_bus_check', []);
  // @ts-expect-error a connection string takes none
  await callDbFunction('postgres://', 'public.event_bus_check', []);

  // Rows.
  const [job] = await callDbFunction(manager, 'public.job_claim', ['report', 'key', 'worker', now, { month: 1 }, null]);
  isTrue<Same<typeof job, DbFunctionRow<'public.job_claim'> | undefined>>();
  isTrue<Same<DbFunctionRow<'public.job_claim'>, {
    id: string; kind: string; fencing_token: string; current_step: string | null; payload: unknown;
  }>>();
  isTrue<Same<DbFunctionRow<'public.inbox_claim_request'>['state'], 'claimed' | 'replay' | 'incomplete'>>();
  isTrue<Same<DbFunctionRow<'public.queue_waiting'>['correlationId'], string>>();
  isTrue<Same<DbFunctionRow<'public.queue_write'>, { queue_write: '' }>>();
  isTrue<Same<DbFunctionRow<'public.canonical_json'>, { canonical_json: string }>>();
  isTrue<Same<DbFunctionRow<'public.event_bus_dead_letters'>['buried_at'], Date>>();
  isTrue<Same<DbFunctionRow<'public.hfs_lite_health'>['value'], number | null>>();
  isTrue<Same<DbFunctionArgs<'public.event_bus_check'>, []>>();
  const [message] = await callDbFunction(manager, 'public.event_bus_read', ['queue', 60, 1]);
  // @ts-expect-error a bigint is a string
  message satisfies { msg_id: number } | undefined;
  // @ts-expect-error what is in JSON is unknown until it was looked at
  message?.message.payload;
  // @ts-expect-error there is no such column
  message?.id;
  const [receipt] = await callDbFunction(manager, 'public.inbox_claim_request', ['ann', 'pay', 'key', {}]);
  // @ts-expect-error there is no such state
  if (receipt?.state === 'replayed') return;

  // Names.
  // @ts-expect-error misspelt
  await callDbFunction(manager, 'public.job_clame', []);
  // @ts-expect-error without its schema
  await callDbFunction(manager, 'event_bus_check', []);
  // @ts-expect-error any text
  await callDbFunction(manager, String(anything), []);

  // Numbers of arguments.
  await callDbFunction(manager, 'public.event_bus_archive', ['queue', '1']);
  await callDbFunction(manager, 'public.event_bus_archive', ['queue', '1', undefined]);
  await callDbFunction(manager, 'public.event_bus_send', ['placed', { payload: { dedupeKey: 'k' } }]);
  await callDbFunction(manager, 'public.event_bus_send', ['e', 'placed', { dedupeKey: 'k' }, null]);
  // @ts-expect-error too few
  await callDbFunction(manager, 'public.job_complete', ['id', '1']);
  // @ts-expect-error too many
  await callDbFunction(manager, 'public.event_bus_check', [1]);
  // @ts-expect-error neither of its two ways
  await callDbFunction(manager, 'public.event_bus_send', ['e', 'placed', { dedupeKey: 'k' }]);
  // @ts-expect-error none
  await callDbFunction(manager, 'public.event_bus_check');

  // Arguments.
  await callDbFunction(manager, 'public.job_advance', ['id', 1n, 'step', '2026-01-01T00:00:00Z']);
  await callDbFunction(manager, 'public.job_advance', ['id', 1, 'step', now]);
  await callDbFunction(manager, 'public.job_advance', ['id', '1', 'step', null] as const);
  await callDbFunction(manager, 'public.queue_mark_sent', [['id'] as readonly string[], null]);
  // @ts-expect-error no token
  await callDbFunction(manager, 'public.job_advance', ['id', null, 'step', null]);
  // @ts-expect-error a time as a number
  await callDbFunction(manager, 'public.job_advance', ['id', 1, 'step', Date.now()]);
  // @ts-expect-error one id
  await callDbFunction(manager, 'public.queue_mark_sent', ['id', null]);
  // @ts-expect-error a batch as text
  await callDbFunction(manager, 'public.queue_waiting', ['10']);
  // @ts-expect-error p_limit has a default, and may not be NULL
  await callDbFunction(manager, 'public.event_bus_dead_letters', ['queue', null]);
  // @ts-expect-error no such kind of role
  await callDbFunction(manager, 'public.hfs_lite_grant', ['role', 'admin']);

  // JSON.
  interface Order { id: string; lines: string[] }
  const order: Order = { id: 'o-1', lines: [] };
  for (const payload of [order, [order], 'text', 1, false, jsonNull, now]) {
    await callDbFunction(manager, 'public.queue_write', ['mail', payload, null, null]);
  }
  // @ts-expect-error SQL's NULL is no JSON
  await callDbFunction(manager, 'public.queue_write', ['mail', null, null, null]);
  // @ts-expect-error undefined is no JSON
  await callDbFunction(manager, 'public.queue_write', ['mail', undefined, null, null]);
  // @ts-expect-error JSON.stringify knows no BigInt
  await callDbFunction(manager, 'public.queue_write', ['mail', 1n, null, null]);
  // @ts-expect-error unknown may be any of those
  await callDbFunction(manager, 'public.queue_write', ['mail', anything, null, null]);

  // A helper of an application's own keeps the types.
  const first = async <Name extends DbFunctionName>(name: Name, args: DbFunctionArgs<Name>) =>
    (await callDbFunction(manager, name, args))[0];
  const tick = await first('public.job_tick_claim', ['cron', now]);
  isTrue<Same<typeof tick, DbFunctionRow<'public.job_tick_claim'> | undefined>>();
  return { job, message, receipt, tick };
}
