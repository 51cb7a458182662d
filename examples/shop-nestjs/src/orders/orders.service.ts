import { ConflictException, Injectable } from '@nestjs/common';
import { callDbFunction } from 'hfs-lite';
import { randomUUID } from 'node:crypto';
import { DataSource, type EntityManager } from 'typeorm';
import { one } from '../database/rows.js';
import { totalOf } from './articles.js';
import { Order } from './order.entity.js';
import type { OrderRequest } from './order-request.js';

/** What a request came to: what its client was answered, and is answered whenever it asks again. */
export interface Outcome {
  status: number;
  body: Record<string, unknown>;
}

export interface PlaceOrder {
  customer: string;
  idempotencyKey: string;
  correlationId: string;
  request: OrderRequest;
}

@Injectable()
export class OrdersService {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Places an order once, however often it is asked for. Receipt, order, outbox row, event and outcome are one
   * transaction: all of them happen, or none. Whoever repeats the request while the first one is under way waits for
   * its end here, and is then answered what that one was. The same key with another request is SQLSTATE LT001.
   */
  async place(command: PlaceOrder): Promise<{ outcome: Outcome; replayed: boolean }> {
    return this.dataSource.transaction(async (manager) => {
      const { customer, idempotencyKey, request } = command;
      const receipt = await one(
        callDbFunction(manager, 'public.inbox_claim_request', [customer, 'place-order', idempotencyKey, request]),
      );
      if (receipt.state === 'replay') return { outcome: receipt.outcome as Outcome, replayed: true };
      // Claimed by a transaction that was committed without an outcome, and none here is: an operator has to look.
      if (receipt.state === 'incomplete') throw new ConflictException('this request was begun, and has not ended');

      const outcome = await this.perform(manager, command);
      const saved = await one(
        callDbFunction(manager, 'public.inbox_save_client_outcome', [receipt.source, idempotencyKey, outcome]),
      );
      // As it was stored, so that a replay is the same to the letter.
      return { outcome: saved.outcome as Outcome, replayed: false };
    });
  }

  private async perform(manager: EntityManager, command: PlaceOrder): Promise<Outcome> {
    const { customer, correlationId, request } = command;
    const total = totalOf(request.items);
    // A refusal that is final is an outcome too, and is kept like any other.
    if ('unknown' in total) return { status: 422, body: { message: `there is no article ${total.unknown}` } };

    const order = { id: randomUUID(), customer, items: request.items, totalCents: total.cents };
    await manager.insert(Order, order);
    await callDbFunction(manager, 'public.queue_write', [
      'fulfilment',
      { orderId: order.id, totalCents: order.totalCents },
      null,
      correlationId,
    ]);
    await callDbFunction(manager, 'public.event_bus_send', [
      randomUUID(),
      'order.placed',
      { dedupeKey: order.id, orderId: order.id, customer, totalCents: order.totalCents },
      correlationId,
    ]);
    return { status: 201, body: { orderId: order.id, totalCents: order.totalCents } };
  }

  /** An order of this customer, and how far it has come; null where there is none. */
  async find(customer: string, id: string): Promise<Record<string, unknown> | null> {
    const [order] = await this.dataSource.query(
      `select o.id as "orderId", o.items, o.total_cents as "totalCents", o.placed_at as "placedAt",
              case when s.tracking_number is not null then 'shipped' when s.payment_id is not null then 'charged'
                   else 'placed' end as state,
              s.payment_id as "paymentId", s.tracking_number as "trackingNumber"
         from shop.orders o left join shop.shipments s on s.order_id = o.id
        where o.id = $1 and o.customer = $2`,
      [id, customer],
    );
    return order ?? null;
  }
}
