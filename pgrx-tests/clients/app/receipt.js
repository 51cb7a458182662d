import { transaction } from './database.js';

/** The request was begun before, and what it came to is not known: an operator has to look. */
export class ReceiptIncomplete extends Error {}

/**
 * Does a client's request once, and answers what it came to: the first time by `perform(tx)`, every other time from its
 * receipt. The receipt and what `perform` writes with `tx` are committed together. The same key with another request is
 * refused by the database, with SQLSTATE LT001.
 */
export function performOnce(pool, { principal, operation, key, request }, perform) {
  return transaction(pool, async (tx) => {
    const claim = await tx.query('SELECT * FROM public.inbox_claim_request($1, $2, $3, $4, $5)', [
      principal, operation, key, JSON.stringify(request), null,
    ]);
    const receipt = claim.rows[0];
    if (receipt.state === 'replay') return receipt.outcome.value;
    if (receipt.state === 'incomplete') throw new ReceiptIncomplete(`${receipt.source} ${key}`);

    // Wrapped, since an outcome may be null. It is answered as it was stored, so that a replay answers the same.
    const outcome = JSON.stringify({ value: (await perform(tx)) ?? null });
    const saved = await tx.query('SELECT * FROM public.inbox_save_client_outcome($1, $2, $3)', [
      receipt.source, key, outcome,
    ]);
    return saved.rows[0].outcome.value;
  });
}
