import { z } from 'zod';

/** What stands in the body of a request that places an order. */
export const OrderRequest = z.strictObject({
  items: z
    .array(z.strictObject({ article: z.string().min(1).max(100), quantity: z.int().min(1).max(100) }))
    .min(1)
    .max(50),
});
export type OrderRequest = z.infer<typeof OrderRequest>;

/** What the database takes as a name, a key or a correlation id: no control characters. */
const text = z
  .string()
  .min(1)
  .max(200)
  .regex(/^\P{Cc}*$/u, 'holds a control character');

/** Who asks. The gateway in front has seen to it that this is true; no ':', which joins principal and operation. */
export const Customer = text.max(100).regex(/^[^:]*$/, "holds a ':'");

/** The client's name for its request: the same key is the same request, however often it is sent. */
export const IdempotencyKey = text;

/** What ties log lines together from the request to the parcel. */
export const CorrelationId = text;
