import pg from 'pg';
import { settings } from '../settings.js';

/**
 * What a superuser does once, before the first migration: the database, the extension, three roles that may log in,
 * with the passwords that the settings hold for them, and a schema for the owner's tables. What is there already stays,
 * but for the passwords.
 */
export async function setup(): Promise<void> {
  const { ADMIN_DATABASE_URL, DATABASE_URL, OPERATOR_DATABASE_URL, OWNER_DATABASE_URL } = settings;
  const maintenance = new URL(ADMIN_DATABASE_URL);
  const database = decodeURIComponent(maintenance.pathname.slice(1));
  maintenance.pathname = '/postgres';

  await connected(maintenance.href, async (client) => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [database]);
    if (rowCount === 0) await client.query(`create database ${client.escapeIdentifier(database)}`);
  });
  await connected(ADMIN_DATABASE_URL, async (client) => {
    await client.query('set client_min_messages = warning');
    await client.query('begin');
    for (const url of [DATABASE_URL, OPERATOR_DATABASE_URL, OWNER_DATABASE_URL]) await login(client, url);
    await client.query(`
      create extension if not exists hfs_lite cascade;
      -- With types, as a superuser calls: a function of the same name that fits a bare literal better is not ours.
      select public.hfs_lite_grant('app_be'::name, 'application'::text),
             public.hfs_lite_grant('operator'::name, 'operator'::text),
             -- The migrations subscribe.
             public.hfs_lite_grant('shop_owner'::name, 'operator'::text);
      create schema if not exists shop authorization shop_owner;
    `);
    await client.query('commit');
  });
}

async function connected(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url, application_name: 'shop setup' });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

/** The role of a connection string: made if it is not there, and let in with the password that stands in it. */
async function login(client: pg.Client, connectionString: string): Promise<void> {
  const { user = '', password } = new pg.Client({ connectionString });
  const role = client.escapeIdentifier(user);
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [user]);
  if (rowCount === 0) await client.query(`create role ${role}`);
  await client.query(`alter role ${role} login ${password ? `password ${client.escapeLiteral(password)}` : ''}`);
}
