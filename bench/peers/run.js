// One measurement of one peer: `node run.js PEER install`, or `node run.js PEER MEASURE {options as JSON}`.
//
// drain      so many jobs are enqueued, then workers start: from the first job that is taken to the last commit
// sustained  producers send for so many seconds, as fast as workers keep up: from the first send to the last commit
// latency    producers send so many a second, one by one: from the answer to the enqueue's commit to the begin of the
//            handler; what was sent in the first second warms up, and does not count
//
// Producers are a thread of their own, with an event loop and connections of its own, as those of an application would
// be. Every job must be handled once, or the run is an error. PGHOST, PGPORT, PGUSER and PGDATABASE say where.
import { Worker } from 'node:worker_threads';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from './connections.js';

const [name, measure, text] = process.argv.slice(2);
const peer = await import(`./${name}.js`);
// Milliseconds of the machine's one monotonic clock, the same in all threads.
const now = () => Number(process.hrtime.bigint()) / 1e6;
// Seconds that anything may take beyond what was asked for.
const PATIENCE = 60;
// Seconds of a measurement of latency that do not count.
const WARM_UP = 1;

if (measure === 'install') {
  await peer.install();
} else {
  console.log(JSON.stringify(await run(measure, JSON.parse(text))));
}
// Peers may keep timers that nobody can stop.
process.exit();

async function run(measure, { workers, batch, jobs = 0, seconds = 0, rate = 0 }) {
  // Producers that are ahead by so many wait.
  const window = peer.window ?? Math.max(100, 3 * workers * batch);
  const warm = measure === 'latency' ? rate * WARM_UP : 0;
  const most = measure === 'latency' ? rate * seconds + warm : 2_000_000;
  const shared = (type, length) => new type(new SharedArrayBuffer(type.BYTES_PER_ELEMENT * length));
  const times = shared(Uint8Array, most);
  const handled = shared(Int32Array, 1);
  const committed = shared(Float64Array, measure === 'latency' ? most : 0);
  const begun = new Float64Array(committed.length);
  let first = 0;
  // A peer says by itself when it takes a job, where that is long before the handler begins.
  const taking = (at = now()) => { first ||= at; };
  const handle = (job) => {
    taking();
    times[job.n] += 1;
    if (begun.length) begun[job.n] = now();
    Atomics.add(handled, 0, 1);
  };

  const options = { workers, batch };
  const beside = await peer.beside?.(options);
  const watcher = await connect();
  const produce = async () => {
    const thread = new Worker(new URL('./producer.js', import.meta.url), {
      workerData: {
        name, measure, ...options, jobs: measure === 'latency' ? most : jobs, seconds, rate, window, handled, committed,
      },
    });
    const [answer] = await once(thread, 'message');
    return answer;
  };
  // Until all are handled and what the workers wrote is committed.
  const settled = async (sent) => {
    const until = now() + (seconds + PATIENCE) * 1000;
    for (;;) {
      if (Atomics.load(handled, 0) >= sent && (await watcher.query(peer.left)).rows[0].left === 0) return now();
      if (now() > until) throw new Error(`${name}: ${Atomics.load(handled, 0)} of ${sent} jobs were handled in time`);
      await pause(2);
    }
  };

  let consumer, produced;
  if (measure === 'drain') {
    produced = await produce();
    await peer.enqueued?.(watcher);
    consumer = await peer.consumer(options, handle, taking);
  } else {
    consumer = await peer.consumer(options, handle, taking);
    produced = await produce();
  }
  const ended = await settled(produced.sent);
  await consumer.end();
  await beside?.end();
  await watcher.end();
  const wrong = times.subarray(0, produced.sent).findIndex((n) => n !== 1);
  if (wrong >= 0 || handled[0] !== produced.sent) {
    throw new Error(`${name}: ${handled[0]} of ${produced.sent} were handled, job ${wrong} ${times[wrong]} times`);
  }
  const answer = { jobs: produced.sent };
  if (measure === 'latency') {
    // A worker may hold the job before its producer has read the answer to its commit.
    const took = Array.from(begun, (at, n) => Math.max(0, at - committed[n])).slice(warm).sort((a, b) => a - b);
    const percentile = (part) => round(took[Math.min(took.length - 1, Math.floor(part * took.length))]);
    return { ...answer, p50: percentile(0.5), p90: percentile(0.9), p99: percentile(0.99), max: round(took.at(-1)) };
  }
  const since = measure === 'drain' ? first : produced.begun;
  return { ...answer, rate: round((produced.sent / (ended - since)) * 1000),
    enqueued: round((produced.sent / produced.took) * 1000) };
}

function round(number) {
  return Math.round(number * 100) / 100;
}
