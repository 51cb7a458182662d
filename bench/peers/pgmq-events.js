// pgmq's own functions, by topic: send_topic or send_batch_topic to the one queue that is bound, read, archive
// (https://pgmq.github.io/pgmq/api/sql/functions/). It has no fence. Workers poll.
import { connect, senders, statement } from './connections.js';
import { TOPIC, envelope } from './envelope.js';
import { archiving } from './pgmq-jobs.js';

const QUEUE = 'bench_mail';
export const left = `select count(*)::int as left from pgmq.q_${QUEUE}`;

export async function install() {
  const client = await connect();
  await client.query('create extension pgmq');
  await client.query(`select pgmq.create('${QUEUE}')`);
  await client.query(`select pgmq.bind_topic('${TOPIC}', '${QUEUE}')`);
  await client.end();
}

export function producer({ workers, batch }) {
  return senders(workers, (jobs) => batch === 1 || jobs.length === 1
    ? statement(`select pgmq.send_topic('${TOPIC}', $1::jsonb)`, [envelope(jobs[0])])
    : statement(`select * from pgmq.send_batch_topic('${TOPIC}', $1::jsonb[])`, [jobs.map(envelope)]));
}

export function consumer({ workers, batch }, handle) {
  return archiving(QUEUE, workers, batch, handle);
}
