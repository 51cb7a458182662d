import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { callDbFunction } from 'hfs-lite';
import { DataSource } from 'typeorm';
import { ConsumerSwitch } from './consumers/entities.js';
import { connection } from './database/database.module.js';
import { settings } from './settings.js';

/**
 * Places a few orders with a shop that runs, so that there is something to see: some that go well, then, with the
 * mailer told to fail, two whose confirmations end as dead letters.
 */
export async function sample(): Promise<void> {
  const operator = new DataSource(connection(settings.OPERATOR_DATABASE_URL));
  await operator.initialize();
  try {
    for (const [article, quantity] of [
      ['tea', 2],
      ['pot', 1],
      ['honey', 3],
    ] as const)
      await place(article, quantity);
    await until('the mailer has written', async () => (await waiting(operator)) === 0);
    await operator.manager.update(ConsumerSwitch, 'mailer', { failing: true });
    for (const [article, quantity] of [
      ['cup', 4],
      ['tea', 1],
    ] as const)
      await place(article, quantity);
    await until(
      'two dead letters',
      async () => (await callDbFunction(operator, 'public.event_bus_all_dead_letters', [])).length >= 2,
    );
  } finally {
    await operator.destroy();
  }
}

async function place(article: string, quantity: number): Promise<void> {
  const response = await fetch(`http://${settings.HOST}:${settings.API_PORT}/orders`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Customer': 'ann', 'Idempotency-Key': randomUUID() },
    body: JSON.stringify({ items: [{ article, quantity }] }),
  });
  if (response.status !== 201) throw new Error(`an order was answered ${response.status}: ${await response.text()}`);
}

/** How many events the consumers have before them. */
async function waiting(operator: DataSource): Promise<number> {
  return (await callDbFunction(operator, 'public.hfs_lite_health', []))
    .filter(({ area, metric }) => area === 'event_bus' && ['visible', 'in_flight'].includes(metric))
    .reduce((sum, { value }) => sum + (value ?? 0), 0);
}

async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await look())) {
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await pause(100);
  }
}
