// PgQ, with its daemon pgqd as it comes: it looks every second whether to end a batch, which it does at 500 events or
// after 3 seconds (https://github.com/pgq/pgqd, queue_ticker_max_count and queue_ticker_max_lag of
// https://github.com/pgq/pgq). One consumer takes batch after batch; sharing one among consumers would take another
// extension (pgq_coop). Workers poll.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, pollers, senders, statement } from './connections.js';

// Batches are ended by the clock, so producers must be let further ahead.
export const window = 50_000;
export const left = 'select count(*)::int as left from pgq.subscription where sub_batch is not null';

export async function install() {
  const client = await connect();
  await client.query('create extension pgq');
  await client.query(`select pgq.create_queue('bench')`);
  await client.query(`select pgq.register_consumer('bench', 'worker')`);
  await client.end();
}

export async function beside() {
  const { PGHOST, PGPORT, PGUSER, PGDATABASE, PGQD } = process.env;
  const room = mkdtempSync(join(tmpdir(), 'pgqd-'));
  const file = join(room, 'pgqd.ini');
  writeFileSync(file, `[pgqd]
base_connstr = host=${PGHOST} port=${PGPORT} user=${PGUSER}
initial_database = ${PGDATABASE}
database_list = ${PGDATABASE}
syslog = 0
`);
  const daemon = spawn(PGQD, ['-q', file], { stdio: ['ignore', 'ignore', 'inherit'] });
  return {
    end: async () => {
      daemon.kill();
      await once(daemon, 'exit');
      rmSync(room, { recursive: true });
    },
  };
}

// A backlog is one that ticks have ended, so that workers need not wait for the clock.
export async function enqueued(client) {
  await client.query(`select pgq.force_tick('bench')`);
  await client.query(`select pgq.ticker('bench')`);
}

export function producer({ workers, batch }) {
  return senders(workers, (jobs) => batch === 1 || jobs.length === 1
    ? statement(`select pgq.insert_event('bench', 'job', $1)`, [JSON.stringify(jobs[0])])
    : statement(`select pgq.insert_event('bench', 'job', job) from unnest($1::text[]) job`,
      [jobs.map((job) => JSON.stringify(job))]));
}

export function consumer(_, handle, taking) {
  return pollers(1, async (client) => {
    const { rows: [{ id }] } = await client.query(statement(`select pgq.next_batch('bench', 'worker') as id`));
    if (id === null) return 0;
    const at = Number(process.hrtime.bigint()) / 1e6;
    await client.query('begin');
    const { rows } = await client.query(statement('select ev_data from pgq.get_batch_events($1)', [id]));
    // Batches may be empty.
    if (rows.length > 0) taking(at);
    for (const event of rows) handle(JSON.parse(event.ev_data));
    await client.query(statement('select pgq.finish_batch($1)', [id]));
    await client.query('commit');
    return 1;
  });
}
