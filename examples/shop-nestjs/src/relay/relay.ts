import { Injectable } from '@nestjs/common';
import { callDbFunction } from 'hfs-lite';
import { DataSource } from 'typeorm';
import { Loop } from '../loop.js';
import { reasonOf } from '../reason.js';
import { Transport, Unreachable } from './transport.js';

/** Small enough to be carried within seconds: the transaction is open for that long. */
const BATCH = 20;

/**
 * Carries the outbox on. Taking, carrying and marking are one transaction: while it is open, its rows are locked, and
 * other relays pass them over. A relay that dies in the middle has marked nothing, so all of the batch is carried
 * again, and receivers know a repeat by the row's id.
 */
@Injectable()
export class Relay extends Loop {
  constructor(
    private readonly dataSource: DataSource,
    private readonly transport: Transport,
  ) {
    super();
  }

  protected async turn(): Promise<boolean> {
    return this.dataSource.transaction(async (manager) => {
      const rows = await callDbFunction(manager, 'public.queue_waiting', [BATCH]);
      const carried: string[] = [];
      for (const row of rows) {
        const log = { queue: row.queue, id: row.id, correlationId: row.correlationId };
        try {
          await this.transport.carry(row);
          carried.push(row.id);
          this.logger.log({ message: 'carried', ...log });
        } catch (error) {
          this.logger.error({ message: reasonOf(error), ...log });
          // What is refused must not hold up what stands behind it; where nobody answers, nobody will.
          if (error instanceof Unreachable) break;
        }
      }
      await callDbFunction(manager, 'public.queue_mark_sent', [carried, null]);
      return carried.length === BATCH;
    });
  }
}
