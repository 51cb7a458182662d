import type { OrderItem } from './order.entity.js';

/** What the shop sells, and for how many cents. */
const prices: ReadonlyMap<string, number> = new Map([
  ['tea', 450],
  ['pot', 2_900],
  ['cup', 890],
  ['honey', 620],
]);

export function totalOf(items: OrderItem[]): { cents: number } | { unknown: string } {
  let cents = 0;
  for (const { article, quantity } of items) {
    const price = prices.get(article);
    if (price === undefined) return { unknown: article };
    cents += price * quantity;
  }
  return { cents };
}
