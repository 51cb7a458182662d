// What the tests stand on: a database for each file, two doors to it, and three drivers that go through them.
import 'reflect-metadata';
import assert from 'node:assert/strict';
import { after } from 'node:test';
import pg from 'pg';
import { DataSource } from 'typeorm';

const { SERVER_HOST, SERVER_PORT, POOLER_HOST, POOLER_PORT } = process.env;
assert(SERVER_HOST && POOLER_HOST, 'these tests are started by pgrx-tests/clients/run');

/** How an application reaches its database. */
export const doors = {
  server: { host: SERVER_HOST, port: Number(SERVER_PORT) },
  PgBouncer: { host: POOLER_HOST, port: Number(POOLER_PORT) },
};

/** A database for the file that calls, with the extension in it; it is dropped when the file's tests are over. */
export async function ownDatabase() {
  const name = `app_${process.pid}`;
  const maintenance = new pg.Client({ ...doors.server, user: 'postgres', database: 'postgres' });
  await maintenance.connect();
  await maintenance.query(`CREATE DATABASE ${name} TEMPLATE app STRATEGY wal_log`);
  const admin = new pg.Client({ ...doors.server, user: 'postgres', database: name });
  await admin.connect();
  after(async () => {
    await admin.end();
    await maintenance.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await maintenance.end();
  });
  const connection = (door, user = 'app_be') => ({ ...doors[door], user, database: name });
  return {
    /** The superuser, for what an application's migrations do, and to look at what no application can see. */
    admin,
    connection,
    /** A client of node-postgres for one test. */
    client: async (t, door, user) => {
      const client = new pg.Client(connection(door, user));
      await client.connect();
      t.after(() => client.end());
      return client;
    },
  };
}

/**
 * `call(function, ...arguments)`, which answers rows: a statement as applications send it, qualified, its parameters
 * without types. `query` is a driver's.
 */
export const caller = (query) => (name, ...args) => {
  const parameters = args.map((_, i) => `$${i + 1}`).join(', ');
  return query(`SELECT * FROM public.${name}(${parameters})`, args);
};

/** The same on a client or pool of node-postgres. */
export const callerOn = (client) => caller(rowsOf(client));

const rowsOf = (client) => async (sql, args) => (await client.query(sql, args)).rows;

/**
 * The drivers. Each opens a connection and gives `query` in autocommit, `transaction` with a query of its own, and
 * `close`. A query answers rows.
 */
export const drivers = {
  'node-postgres Client': async (connection) => {
    const client = new pg.Client(connection);
    await client.connect();
    return { query: rowsOf(client), transaction: (work) => between(client, work), close: () => client.end() };
  },
  'node-postgres Pool': async (connection) => {
    const pool = new pg.Pool({ ...connection, max: 4 });
    return {
      query: rowsOf(pool),
      transaction: async (work) => {
        const client = await pool.connect();
        try {
          return await between(client, work);
        } finally {
          client.release();
        }
      },
      close: () => pool.end(),
    };
  },
  'TypeORM DataSource': async ({ user, ...connection }) => {
    const source = new DataSource({ type: 'postgres', ...connection, username: user, extra: { max: 4 } });
    await source.initialize();
    return {
      query: (sql, args) => source.query(sql, args),
      transaction: (work) => source.transaction((manager) => work((sql, args) => manager.query(sql, args))),
      close: () => source.destroy(),
    };
  },
};

async function between(client, work) {
  await client.query('BEGIN');
  try {
    const result = await work(rowsOf(client));
    await client.query('COMMIT');
    return result;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

let count = 0;
/** A name that no other test of this file uses. */
export const unique = (what) => `${what}-${++count}`;

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** What each of PostgreSQL's types is in JavaScript. */
const types = {
  uuid: (value) => typeof value === 'string' && uuid.test(value),
  text: (value) => typeof value === 'string',
  bigint: (value) => typeof value === 'string' && /^[0-9]+$/.test(value),
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  'double precision': (value) => typeof value === 'number',
  timestamptz: (value) => value instanceof Date && !Number.isNaN(value.getTime()),
  jsonb: (value) => typeof value === 'object' && value !== null,
  void: (value) => value === '',
  null: (value) => value === null,
};

/** The one row of an answer, after a look at its columns' names, their order, and the types of their values. */
export function onlyRow(rows, columns) {
  assert.equal(rows.length, 1);
  const [row] = rows;
  assert.deepEqual(Object.keys(row), Object.keys(columns));
  for (const [name, type] of Object.entries(columns)) {
    assert(types[type](row[name]), `${name} is ${JSON.stringify(row[name])}, not a JavaScript value for ${type}`);
  }
  return row;
}
