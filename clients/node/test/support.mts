// What the tests stand on: a database for each file, and everything that an application may call a function on.
import 'reflect-metadata';
import assert from 'node:assert/strict';
import { after } from 'node:test';
import type { Queryable } from 'hfs-lite';
import pg from 'pg';
import { DataSource } from 'typeorm';

const { SERVER_HOST, SERVER_PORT } = process.env;
assert(SERVER_HOST, 'these tests are started by clients/node/run');
const server = { host: SERVER_HOST, port: Number(SERVER_PORT) };

/** A database for the file that calls, with the extension in it; it is dropped when the file's tests are over. */
export async function ownDatabase() {
  const database = `app_${process.pid}`;
  const maintenance = new pg.Client({ ...server, user: 'postgres', database: 'postgres' });
  await maintenance.connect();
  await maintenance.query(`CREATE DATABASE ${database} TEMPLATE app STRATEGY wal_log`);
  const closing: (() => unknown)[] = [];
  after(async () => {
    for (const close of closing.reverse()) await close();
    await maintenance.query(`DROP DATABASE ${database}`);
    await maintenance.end();
  });
  const connection = (user: string) => ({ ...server, user, database });
  const client = async (user = 'operator') => {
    const client = new pg.Client(connection(user));
    await client.connect();
    closing.push(() => client.end());
    return client;
  };
  const pool = () => {
    const pool = new pg.Pool({ ...connection('operator'), max: 4 });
    closing.push(() => pool.end());
    return pool;
  };
  const source = async () => {
    const source = new DataSource({ type: 'postgres', ...server, username: 'operator', database });
    await source.initialize();
    closing.push(() => source.destroy());
    return source;
  };
  /** All that takes a call, of both drivers. */
  const queryables = async (): Promise<Record<string, Queryable>> => {
    const pooled = await pool().connect();
    closing.push(() => pooled.release());
    const runner = (await source()).createQueryRunner();
    closing.push(() => runner.release());
    return {
      'node-postgres Client': await client(),
      'node-postgres Pool': pool(),
      'node-postgres PoolClient': pooled,
      'TypeORM DataSource': await source(),
      'TypeORM EntityManager': (await source()).manager,
      'TypeORM QueryRunner': runner,
    };
  };
  /** The superuser. */
  const admin = await client('postgres');
  await admin.query(`SELECT public.hfs_lite_grant('operator', 'operator')`);
  return { admin, client, pool, source, queryables };
}

let count = 0;
/** A name that no other test of this file uses. */
export const unique = (what: string) => `${what}-${++count}`;

export const minutes = (n: number) => new Date(Date.now() + n * 60_000);

/** The one row of an answer. */
export function only<Row>(rows: Row[]): Row {
  assert.equal(rows.length, 1);
  return rows[0]!;
}

/** The error of a call that must fail. */
export const refusal = (work: Promise<unknown>): Promise<unknown> =>
  work.then(() => assert.fail('it was not refused'), (error: unknown) => error);
