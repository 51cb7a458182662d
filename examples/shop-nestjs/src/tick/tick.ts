import { Injectable } from '@nestjs/common';
import { callDbFunction } from 'hfs-lite';
import { DataSource } from 'typeorm';
import { Loop } from '../loop.js';
import { instance } from '../settings.js';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/**
 * Every instance of the application wakes at the full minute, and one of them does what is to be done: it reports what
 * was sold in the last minute but one, and sweeps receipts that no client repeats any more. The tick is claimed in the
 * transaction that does the work: if that fails, the minute is free again.
 *
 * The minute that has just ended is too young: an order that was placed in it is not to be seen until its transaction
 * is committed, and would be in no report at all. A minute later it is there, or was given up.
 */
@Injectable()
export class Tick extends Loop {
  constructor(private readonly dataSource: DataSource) {
    super();
  }

  protected override pause(): number {
    return MINUTE - (Date.now() % MINUTE);
  }

  protected async turn(): Promise<boolean> {
    await this.dataSource.transaction(async (manager) => {
      const now = new Date();
      const [tick] = await callDbFunction(manager, 'public.job_tick_claim', ['minute-report', now]);
      const minute = now.toISOString().slice(0, 16);
      this.logger.log({ message: tick ? 'reporting' : 'somebody else reports', minute });
      if (!tick) return;
      await manager.query(
        `insert into shop.minute_reports (minute, orders, total_cents, reported_by)
         select $1::timestamptz, count(*), coalesce(sum(total_cents), 0), $2
           from shop.orders where placed_at >= $1::timestamptz and placed_at < $1::timestamptz + interval '1 minute'`,
        [new Date(tick.minute.getTime() - 2 * MINUTE), instance],
      );
      await callDbFunction(manager, 'public.inbox_sweep_clients', [new Date(Date.now() - 7 * DAY), 1_000]);
    });
    return false;
  }
}
