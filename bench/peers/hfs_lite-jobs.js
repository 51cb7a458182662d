// hfs_lite, jobs: the outbox dispatches, and a fenced job keeps each from being done twice under its key.
//
// A job is an outbox row. A worker takes rows, claims the job of each by the row's id, works, completes them and marks
// the rows, in one transaction (docs/queue.md): if it dies, all of it waits again. It polls.
import { connect, pollers, senders, statement } from './connections.js';

export const left = 'select count(*)::int as left from public.queue where sent_at is null';

export async function install() {
  const client = await connect();
  await client.query('create extension hfs_lite cascade');
  await client.end();
}

export function producer({ workers, batch }) {
  return senders(workers, (jobs) => batch === 1 || jobs.length === 1
    ? statement(`select public.queue_write('bench', $1, null, null)`, [JSON.stringify(jobs[0])])
    : statement(`select * from public.queue_write_many('bench', $1, null, null)`,
      [jobs.map((job) => JSON.stringify(job))]));
}

const LEASE = `clock_timestamp() + interval '1 minute'`;

export function consumer({ workers, batch }, handle) {
  return pollers(workers, async (client) => {
    await client.query('begin');
    const { rows } = await client.query(statement('select id, payload from public.queue_waiting($1)', [batch]));
    if (rows.length === 0) {
      await client.query('commit');
      return 0;
    }
    const ids = rows.map((row) => row.id);
    const payloads = rows.map((row) => JSON.stringify(row.payload));
    if (batch === 1) {
      const claim = statement(
        `select id, fencing_token, payload from public.job_claim('bench', $1, 'worker', ${LEASE}, $2, null)`,
        [ids[0], payloads[0]]);
      for (const job of (await client.query(claim)).rows) {
        handle(job.payload);
        await client.query(statement('select id from public.job_complete($1, $2, null)', [job.id, job.fencing_token]));
      }
    } else {
      const claim = statement(
        `select id, fencing_token, payload from public.job_claim_many('bench', $1, 'worker', ${LEASE}, $2, null)`,
        [ids, payloads]);
      const jobs = (await client.query(claim)).rows;
      for (const job of jobs) handle(job.payload);
      const done = await client.query(statement('select verdict from public.job_complete_many($1, $2, null)',
        [jobs.map((job) => job.id), jobs.map((job) => job.fencing_token)]));
      if (done.rows.some((row) => row.verdict !== 'done')) throw new Error('a lease was lost');
    }
    await client.query(statement('select public.queue_mark_sent($1, null)', [ids]));
    await client.query('commit');
    return rows.length;
  });
}
