// BullMQ on its PostgreSQL backend (https://docs.bullmq.io/guide/postgresql): one Worker of that concurrency, pools as
// large, done jobs removed, as its tuning tips say. Woken by NOTIFY. Batched: jobs are added by addBulk; a worker has
// no batches (those are in BullMQ Pro).
import { createRequire } from 'node:module';
import { connect, settings } from './connections.js';

// Its ES modules can't load node-postgres by themselves.
const { Queue, Worker, createPostgresBackend, runMigrations } = createRequire(import.meta.url)('bullmq');

const QUEUE = 'bench';
export const left = `select count(*)::int as left from bullmq.job where state <> 'completed'`;

export async function install() {
  const client = await connect();
  await runMigrations(client);
  await client.end();
}

export async function producer({ workers, batch }) {
  const queue = new Queue(QUEUE, {
    connection: { ...settings(), max: workers },
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
  }, createPostgresBackend);
  await queue.waitUntilReady();
  return {
    send: (jobs) => batch === 1 || jobs.length === 1
      ? queue.add('bench', jobs[0])
      : queue.addBulk(jobs.map((data) => ({ name: 'bench', data }))),
    end: () => queue.close(),
  };
}

export async function consumer({ workers }, handle) {
  const worker = new Worker(QUEUE, async (job) => { handle(job.data); },
    { connection: { ...settings(), max: workers + 1 }, concurrency: workers }, createPostgresBackend);
  worker.on('error', (error) => { console.error(error); process.exit(1); });
  await worker.waitUntilReady();
  return { end: () => worker.close() };
}
