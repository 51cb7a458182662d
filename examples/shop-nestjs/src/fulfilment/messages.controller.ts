import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { callDbFunction } from 'hfs-lite';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { Shipment } from './shipment.entity.js';

const FulfilmentMessage = z.object({
  id: z.uuid(),
  queue: z.literal('fulfilment'),
  payload: z.object({ orderId: z.uuid(), totalCents: z.int().min(0) }),
});

/** Where the relay brings what is to be done. */
@Controller('messages')
export class MessagesController {
  constructor(private readonly dataSource: DataSource) {}

  /** Takes a message over, once: what has been answered is on the worker's list, and a repeat is answered alike. */
  @Post()
  @HttpCode(204)
  async take(@Body({ schema: FulfilmentMessage }) { id, payload }: z.infer<typeof FulfilmentMessage>): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      const [first] = await callDbFunction(manager, 'public.inbox_claim_event', ['outbox:fulfilment', id]);
      if (first) await manager.insert(Shipment, payload);
    });
  }
}
