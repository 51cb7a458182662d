// pg-boss (https://pgboss.io/api/workers, https://pgboss.io/api/constructor): a worker of `localConcurrency`, woken by
// NOTIFY. With batchSize 1 it fetches once a polling interval, which is the least that it allows here (0.5 s), or at
// once while the backlog in its statistics exceeds `burstWhenReadyExceeds`, refreshed every second. Batched: batchSize,
// and at once after each full batch (`burstWhenBatchFull`); jobs are added by insert. Done jobs stay.
import { PgBoss } from 'pg-boss';
import { settings } from './connections.js';

const QUEUE = 'bench';
export const left = `select count(*)::int as left from pgboss.job where name = '${QUEUE}' and state < 'completed'`;

async function start(options) {
  const boss = new PgBoss({ ...settings(), ...options });
  boss.on('error', (error) => { console.error(error); process.exit(1); });
  return boss.start();
}
const stop = (boss) => boss.stop({ graceful: true, timeout: 10_000 });

export async function install() {
  const boss = await start({ supervise: false, schedule: false });
  await boss.createQueue(QUEUE, { notify: true });
  await stop(boss);
}

export async function producer({ workers, batch }) {
  const boss = await start({ max: workers, supervise: false, schedule: false });
  return {
    send: (jobs) => batch === 1 || jobs.length === 1
      ? boss.send(QUEUE, jobs[0])
      : boss.insert(QUEUE, jobs.map((data) => ({ data }))),
    end: () => stop(boss),
  };
}

export async function consumer({ workers, batch }, handle) {
  const boss = await start({
    max: workers + 2, useListenNotify: true,
    superviseIntervalSeconds: 1, monitorIntervalSeconds: 1, queueCacheIntervalSeconds: 1,
  });
  const burst = batch === 1 ? { burstWhenReadyExceeds: 1 } : { burstWhenBatchFull: true };
  await boss.work(
    QUEUE,
    {
      batchSize: batch, localConcurrency: workers, pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5,
      ...burst,
    },
    async (jobs) => { for (const job of jobs) handle(job.data); });
  return { end: () => stop(boss) };
}
