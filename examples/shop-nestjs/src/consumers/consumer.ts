import { callDbFunction } from 'hfs-lite';
import type { DataSource, EntityManager } from 'typeorm';
import { z } from 'zod';
import { Loop } from '../loop.js';
import { reasonOf } from '../reason.js';
import { settings } from '../settings.js';
import { ConsumerSwitch } from './entities.js';

/** An event `order.placed`, as orders.service.ts sends it. */
const OrderPlacedEvent = z.object({
  payload: z.object({ dedupeKey: z.string(), orderId: z.uuid(), customer: z.string(), totalCents: z.int() }),
});
export type OrderPlaced = z.infer<typeof OrderPlacedEvent>['payload'];

interface Delivery {
  msg_id: string;
  read_ct: number;
  message: unknown;
}

/**
 * Reads the queue of one subscription to `order.placed`. The read is committed before anything is handled, so that each
 * delivery counts, also one that ends with the process. Handling and archiving are one transaction.
 */
export abstract class Consumer extends Loop {
  private readonly queue: string;

  protected constructor(
    private readonly dataSource: DataSource,
    private readonly name: string,
  ) {
    super();
    this.queue = `order.placed__${name}`;
  }

  /** Does what the event asks for, with `manager` only: committed with the message's end, or not at all. */
  protected abstract handle(manager: EntityManager, event: OrderPlaced): Promise<void>;

  protected async turn(): Promise<boolean> {
    // One at a time. Each message that is read counts as delivered: one that ends its process would take those that were
    // read with it along, from attempt to attempt, to the dead letters.
    const [delivery] = await callDbFunction(this.dataSource, 'public.event_bus_read', [
      this.queue,
      settings.VISIBILITY_SECONDS,
      1,
    ]);
    if (!delivery) return false;
    await this.deliver(delivery);
    return true;
  }

  private async deliver({ msg_id, read_ct, message }: Delivery): Promise<void> {
    // The last delivery should have been buried: its process must have died, and this one may, too.
    if (read_ct > settings.MAX_ATTEMPTS) return this.bury(msg_id, read_ct, 'delivered too often');
    const log = { queue: this.queue, id: msg_id, attempt: read_ct };
    try {
      const { payload } = OrderPlacedEvent.parse(message);
      const handled = await this.dataSource.transaction(async (manager) => {
        // read_ct is the fencing token of this delivery. No row: a later one holds the message, or has handled it.
        const [held] = await callDbFunction(manager, 'public.event_bus_archive', [this.queue, msg_id, read_ct]);
        if (!held) return false;
        // An event may be sent twice. No row: this consumer has handled it before.
        const [first] = await callDbFunction(manager, 'public.inbox_claim_event', [this.queue, payload.dedupeKey]);
        if (!first) return false;
        await this.failIfTold(manager);
        await this.handle(manager, payload);
        return true;
      });
      if (handled) this.logger.log({ message: 'handled', ...log });
    } catch (error) {
      this.logger.error({ message: reasonOf(error), ...log });
      // Below the limit it comes back when its visibility timeout ends.
      if (read_ct >= settings.MAX_ATTEMPTS) await this.bury(msg_id, read_ct, reasonOf(error));
    }
  }

  private async bury(id: string, readCount: number, reason: string): Promise<void> {
    const [held] = await callDbFunction(this.dataSource, 'public.event_bus_bury', [this.queue, id, reason, readCount]);
    if (held) this.logger.warn({ message: 'buried', queue: this.queue, id, reason });
  }

  private async failIfTold(manager: EntityManager): Promise<void> {
    const failing = await manager.existsBy(ConsumerSwitch, { consumer: this.name, failing: true });
    if (failing) throw new Error(`${this.name} was told to fail`);
  }
}
