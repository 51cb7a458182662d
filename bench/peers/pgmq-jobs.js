// pgmq's own functions, on one queue: send or send_batch, read, archive
// (https://pgmq.github.io/pgmq/api/sql/functions/). It has no fence: what was archived may have been read again by
// others meanwhile. Workers poll.
import { connect, pollers, senders, statement } from './connections.js';

export const left = 'select count(*)::int as left from pgmq.q_bench';

export async function install() {
  const client = await connect();
  await client.query('create extension pgmq');
  await client.query(`select pgmq.create('bench')`);
  await client.end();
}

export function producer({ workers, batch }) {
  return senders(workers, (jobs) => batch === 1 || jobs.length === 1
    ? statement(`select * from pgmq.send('bench', $1::jsonb)`, [JSON.stringify(jobs[0])])
    : statement(`select * from pgmq.send_batch('bench', $1::jsonb[])`, [jobs.map((job) => JSON.stringify(job))]));
}

export function consumer({ workers, batch }, handle) {
  return archiving('bench', workers, batch, handle);
}

export function archiving(queue, workers, batch, handle) {
  return pollers(workers, async (client) => {
    const { rows } = await client.query(
      statement(`select msg_id, message from pgmq.read('${queue}', 60, $1)`, [batch]));
    if (rows.length === 0) return 0;
    for (const { message } of rows) handle(message.payload ?? message);
    await client.query(batch === 1
      ? statement(`select pgmq.archive('${queue}', $1::bigint)`, [rows[0].msg_id])
      : statement(`select * from pgmq.archive('${queue}', $1::bigint[])`, [rows.map((row) => row.msg_id)]));
    return rows.length;
  });
}
