import { transaction } from './database.js';

/**
 * Carries one batch out of the outbox, oldest first, and answers how many rows it carried: call it until that is 0,
 * then wait a while. Any number of relays may run at once, since each skips the rows that another one holds.
 *
 * `send(row, tx)` carries a row. If it fails, nothing is marked and the batch comes again: a receiver tells a repeat by
 * `row.id`. What it writes with `tx` is committed together with the mark, so a row sent that way is sent exactly once.
 */
export function relayBatch(pool, send, batch = 100) {
  // One transaction for all of it: the rows are locked until it ends.
  return transaction(pool, async (tx) => {
    const { rows } = await tx.query('SELECT * FROM public.queue_waiting($1)', [batch]);
    for (const row of rows) await send(row, tx);
    await tx.query('SELECT * FROM public.queue_mark_sent($1, $2)', [rows.map((row) => row.id), null]);
    return rows.length;
  });
}
