// The thread of the producers: sends jobs as run.js asks, and answers how many, since when, and how long it took.
import { parentPort, workerData } from 'node:worker_threads';
import { setTimeout as pause } from 'node:timers/promises';

const { name, measure, workers, batch, jobs, seconds, rate, window, handled, committed } = workerData;
const peer = await import(`./${name}.js`);
const producer = await peer.producer({ workers, batch });
const now = () => Number(process.hrtime.bigint()) / 1e6;

// About 150 bytes of JSON, the same to every peer.
function job(n) {
  return { n, dedupeKey: `order-${n}`, orderId: `o-${n}`, customer: 'c-4711', total: 129.9, currency: 'EUR',
    note: 'ring twice, and leave it at the door' };
}

let sent = 0;
const begun = now();
if (measure === 'latency') {
  const sends = [];
  for (; sent < jobs; sent += 1) {
    const n = sent;
    await pause(begun + (n * 1000) / rate - now());
    sends.push(producer.send([job(n)]).then(() => { committed[n] = now(); }));
  }
  await Promise.all(sends);
} else {
  const more = measure === 'drain' ? () => sent < jobs : () => now() < begun + seconds * 1000;
  await Promise.all(Array.from({ length: workers }, async () => {
    while (more()) {
      if (measure === 'sustained' && sent - Atomics.load(handled, 0) >= window) {
        await pause(1);
        continue;
      }
      const size = measure === 'drain' ? Math.min(batch, jobs - sent) : batch;
      const some = Array.from({ length: size }, (_, i) => job(sent + i));
      sent += size;
      await producer.send(some);
    }
  }));
}
const took = now() - begun;
await producer.end();
parentPort.postMessage({ sent, begun, took });
