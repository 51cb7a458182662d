import { Injectable } from '@nestjs/common';
import { callDbFunction } from 'hfs-lite';
import { DataSource } from 'typeorm';
import { Loop } from '../loop.js';
import { reasonOf } from '../reason.js';
import { settings } from '../settings.js';
import { Transport, Unanswered, Unreachable } from './transport.js';

/** Small enough to be carried within seconds: the transaction is open for that long. */
const BATCH = 20;

/** How long a row that could not be carried waits at most for its next attempt, in seconds. */
const LONGEST_PAUSE = 60;

/** The most that queue_waiting answers. */
const MOST = 10_000;

/**
 * Carries the outbox on. Taking, carrying and marking are one transaction: while it is open, its rows are locked, and
 * other relays pass them over. A relay that dies in the middle has marked nothing, so all of the batch is carried
 * again, and receivers know a repeat by the row's id.
 *
 * The outbox hands out the oldest rows first, and knows of no row that cannot be carried. So the relay remembers those,
 * takes as many more as they are, and tries them again after the others, later each time: however many they are, what
 * stands behind them is carried.
 */
@Injectable()
export class Relay extends Loop {
  /** By the ids of such rows: how often they were tried, and when they are again. */
  private readonly postponed = new Map<string, { attempts: number; until: number }>();

  constructor(
    private readonly dataSource: DataSource,
    private readonly transport: Transport,
  ) {
    super();
  }

  protected async turn(): Promise<boolean> {
    return this.dataSource.transaction(async (manager) => {
      const rows = await callDbFunction(manager, 'public.queue_waiting', [Math.min(BATCH + this.postponed.size, MOST)]);
      const carried: string[] = [];
      for (const row of this.batchOf(rows)) {
        const log = { queue: row.queue, id: row.id, correlationId: row.correlationId };
        try {
          await this.transport.carry(row);
          carried.push(row.id);
          this.logger.log({ message: 'carried', ...log });
        } catch (error) {
          this.logger.error({ message: reasonOf(error), ...log });
          // It is not for this row that nobody is there, and nobody will be for the next one.
          if (error instanceof Unreachable) break;
          this.postpone(row.id);
          // So much time again, and the transaction would be open for too long.
          if (error instanceof Unanswered) break;
        }
      }
      await callDbFunction(manager, 'public.queue_mark_sent', [carried, null]);
      return carried.length === BATCH;
    });
  }

  /** What is to be carried now: what was not tried yet comes first. */
  private batchOf<Row extends { id: string }>(rows: Row[]): Row[] {
    // What is not there any more was carried, or is in the hands of another relay.
    const there = new Set(rows.map(({ id }) => id));
    for (const id of this.postponed.keys()) if (!there.has(id)) this.postponed.delete(id);
    const attempts = ({ id }: Row) => this.postponed.get(id)?.attempts ?? 0;
    return rows
      .filter(({ id }) => (this.postponed.get(id)?.until ?? 0) <= Date.now())
      .sort((a, b) => attempts(a) - attempts(b))
      .slice(0, BATCH);
  }

  private postpone(id: string): void {
    const attempts = (this.postponed.get(id)?.attempts ?? 0) + 1;
    const pause = Math.min(settings.RETRY_SECONDS * 2 ** (attempts - 1), LONGEST_PAUSE);
    this.postponed.set(id, { attempts, until: Date.now() + pause * 1000 });
  }
}
