// hfs_lite, events: sent to the one queue that is bound to the topic, read in autocommit, and archived in the handler's
// transaction, fenced by the delivery's number (docs/event_bus.md). Workers poll.
import { connect, pollers, senders, statement } from './connections.js';
import { TOPIC, envelope } from './envelope.js';

const QUEUE = `${TOPIC}__mail`;
export const left = `select count(*)::int as left from pgmq."q_${QUEUE}"`;

export async function install() {
  const client = await connect();
  await client.query('create extension hfs_lite cascade');
  await client.query(`select public.event_bus_subscribe('${TOPIC}', 'mail')`);
  await client.end();
}

export function producer({ workers, batch }) {
  return senders(workers, (jobs) => batch === 1 || jobs.length === 1
    ? statement(`select * from public.event_bus_send('${TOPIC}', $1)`, [envelope(jobs[0])])
    : statement(`select * from public.event_bus_send_many('${TOPIC}', $1)`, [jobs.map(envelope)]));
}

export function consumer({ workers, batch }, handle) {
  return pollers(workers, async (client) => {
    const { rows } = await client.query(
      statement(`select msg_id, read_ct, message from public.event_bus_read('${QUEUE}', 60, $1)`, [batch]));
    if (rows.length === 0) return 0;
    await client.query('begin');
    if (batch === 1) {
      const [{ msg_id, read_ct, message }] = rows;
      const mine = await client.query(
        statement(`select * from public.event_bus_archive('${QUEUE}', $1, $2)`, [msg_id, read_ct]));
      if (mine.rows.length > 0) handle(message.payload);
    } else {
      const verdicts = await client.query(
        statement(`select msg_id, verdict from public.event_bus_archive_many('${QUEUE}', $1, $2)`,
          [rows.map((row) => row.msg_id), rows.map((row) => row.read_ct)]));
      rows.forEach((row, i) => { if (verdicts.rows[i].verdict === 'done') handle(row.message.payload); });
    }
    await client.query('commit');
    return rows.length;
  });
}
