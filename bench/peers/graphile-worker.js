// graphile-worker. Single: as it comes. Batched: local queue and batched completion, with the figures of its own
// performance page (https://worker.graphile.org/docs/performance); jobs are added by addJobs. Woken by NOTIFY. Done
// jobs are deleted. A late worker's completion is not fenced.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { url } from './connections.js';

const logger = new Logger(() => () => {});
const worker = (more = {}) => ({ logger, preset: { worker: { connectionString: url(), ...more } } });
export const left = 'select count(*)::int as left from graphile_worker._private_jobs';

export async function install() {
  const utils = await makeWorkerUtils(worker());
  await utils.migrate();
  await utils.release();
}

export async function producer({ workers, batch }) {
  const utils = await makeWorkerUtils(worker({ maxPoolSize: workers }));
  return {
    send: (jobs) => batch === 1 || jobs.length === 1
      ? utils.addJob('bench', jobs[0])
      : utils.addJobs(jobs.map((payload) => ({ identifier: 'bench', payload }))),
    end: () => utils.release(),
  };
}

export async function consumer({ workers, batch }, handle) {
  const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const runner = await run({
    ...worker({ concurrentJobs: workers, maxPoolSize: workers + 1, ...(batch === 1 ? {} : batching) }),
    noHandleSignals: true,
    taskList: { bench: async (job) => handle(job) },
  });
  return { end: () => runner.stop() };
}
