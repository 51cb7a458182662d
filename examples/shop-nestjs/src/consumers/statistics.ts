import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Consumer, type OrderPlaced } from './consumer.js';

/** Counts what was sold each day. Adding up is not idempotent: it is right because each event is handled once. */
@Injectable()
export class Statistics extends Consumer {
  constructor(dataSource: DataSource) {
    super(dataSource, 'statistics');
  }

  protected async handle(manager: EntityManager, { totalCents }: OrderPlaced): Promise<void> {
    await manager.query(
      `insert into shop.daily_sales as s (day, orders, total_cents) values (current_date, 1, $1)
       on conflict (day) do update set orders = s.orders + 1, total_cents = s.total_cents + excluded.total_cents`,
      [totalCents],
    );
  }
}
