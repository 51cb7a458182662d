import { reasonOf, transaction } from './database.js';

/**
 * Reads one batch of a consumer's queue, handles each message, and answers how many it read: call it until that is 0,
 * then wait a while. `handle(message, tx)` writes with `tx`: its writes and the message's end are committed together.
 */
export async function consumeBatch(pool, queue, handle, { hideSeconds = 60, batch = 10, deliveries = 5 } = {}) {
  // A transaction of its own, committed before anything is handled: a delivery that is rolled back is not counted, and
  // a message that always fails would come back for ever.
  const { rows } = await pool.query('SELECT * FROM public.event_bus_read($1, $2, $3)', [queue, hideSeconds, batch]);
  for (const delivery of rows) await deliver(pool, queue, delivery, handle, deliveries);
  return rows.length;
}

async function deliver(pool, queue, { msg_id, read_ct, message }, handle, deliveries) {
  const bury = (reason) =>
    pool.query('SELECT * FROM public.event_bus_bury($1, $2, $3, $4)', [queue, msg_id, reason, read_ct]);

  // The last delivery should have been buried: its process must have died, and handling it once more may kill this one.
  if (read_ct > deliveries) return bury('delivered too often');
  try {
    await transaction(pool, async (tx) => {
      // read_ct is the fencing token of this delivery. No row: a later delivery holds the message, or has handled it.
      const held = await tx.query('SELECT * FROM public.event_bus_archive($1, $2, $3)', [queue, msg_id, read_ct]);
      if (held.rowCount === 0) return;
      // An event may be sent twice. No row: it was handled before.
      const { dedupeKey } = message.payload;
      const first = await tx.query('SELECT * FROM public.inbox_claim_event($1, $2)', [queue, dedupeKey]);
      if (first.rowCount === 1) await handle(message, tx);
    });
  } catch (error) {
    // It comes again when its time is up, until it has been delivered often enough.
    if (read_ct === deliveries) await bury(reasonOf(error));
  }
}
