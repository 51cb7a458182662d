// Connections by node-postgres, and workers that poll, for the peers that are SQL functions.
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';

// Milliseconds that a worker waits before it asks again, when nothing was there.
export const POLL = 20;

export const url = () => {
  const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env;
  return `postgres://${PGUSER}@/${PGDATABASE}?host=${PGHOST}&port=${PGPORT}`;
};
export const settings = () => {
  const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
  return { host, port: Number(port), user, database };
};

export async function connect() {
  const client = new pg.Client();
  await client.connect();
  return client;
}

// Statements are prepared once a connection, under a name, as the libraries among the peers do it.
const names = new Map();
export const statement = (text, values = []) => {
  if (!names.has(text)) names.set(text, `s${names.size}`);
  return { name: names.get(text), text, values };
};

// Producers, each with a connection of its own: `query` makes a statement of some jobs.
export function senders(workers, query) {
  const pool = new pg.Pool({ max: workers });
  return { send: (jobs) => pool.query(query(jobs)), end: () => pool.end() };
}

// Workers, each with a connection of its own: `turn` does one round, and answers how many jobs there were.
export async function pollers(workers, turn) {
  const clients = await Promise.all(Array.from({ length: workers }, connect));
  let ending = false;
  const loops = clients.map(async (client) => {
    while (!ending) {
      if ((await turn(client)) === 0) await pause(POLL);
    }
    await client.end();
  });
  // A worker that fails ends the run: nobody waits for the others.
  for (const loop of loops) loop.catch((error) => { console.error(error); process.exit(1); });
  return { end: () => { ending = true; return Promise.all(loops); } };
}
