import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Consumer, type OrderPlaced } from './consumer.js';
import { Mail } from './entities.js';

/** Writes a confirmation for each order. */
@Injectable()
export class Mailer extends Consumer {
  constructor(dataSource: DataSource) {
    super(dataSource, 'mailer');
  }

  protected async handle(manager: EntityManager, { orderId, customer, totalCents }: OrderPlaced): Promise<void> {
    await manager.insert(Mail, {
      orderId,
      recipient: customer,
      subject: `Your order over ${(totalCents / 100).toFixed(2)} EUR`,
    });
  }
}
