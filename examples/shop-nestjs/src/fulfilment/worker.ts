import { Injectable } from '@nestjs/common';
import { callDbFunction } from 'hfs-lite';
import { DataSource, type EntityManager } from 'typeorm';
import { Loop } from '../loop.js';
import { reasonOf } from '../reason.js';
import { instance, settings } from '../settings.js';
import { Outside, Overtaken } from './outside.client.js';
import { Shipment } from './shipment.entity.js';

interface Due {
  orderId: string;
  totalCents: number;
  leaseEnd: Date;
}

interface Job {
  id: string;
  fencing_token: string;
  current_step: string | null;
}

/** Somebody else has claimed the job since our lease ended: stop, and write nothing. */
class LeaseLost extends Error {}

/**
 * Charges and ships orders. Each is a fenced job of two steps, `charge` and `ship`: what a step brought is written in
 * one transaction with the note that it is done, and the fence comes first in it, so a worker that is late leaves
 * nothing behind. Who takes over goes on after the last step that was noted.
 */
@Injectable()
export class FulfilmentWorker extends Loop {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outside: Outside,
  ) {
    super();
  }

  protected async turn(): Promise<boolean> {
    // The lease is reckoned by the database's clock, which also judges it.
    const [due]: Due[] = await this.dataSource.query(
      `select order_id as "orderId", total_cents as "totalCents",
              clock_timestamp() + make_interval(secs => $1) as "leaseEnd"
         from shop.shipments where due_at <= clock_timestamp() order by due_at limit 1`,
      [settings.LEASE_SECONDS],
    );
    if (!due) return false;
    const job = await this.claim(due);
    if (job) await this.fulfil(due, job);
    return true;
  }

  /** Commits the claim before the work begins, so that other workers see it and look for something else. */
  private async claim({ orderId, leaseEnd }: Due): Promise<Job | undefined> {
    return this.dataSource.transaction(async (manager) => {
      const [job] = await callDbFunction(manager, 'public.job_claim', [
        'fulfilment',
        `fulfilment:${orderId}`,
        instance,
        leaseEnd,
        { orderId },
        null,
      ]);
      if (job) await manager.update(Shipment, orderId, { dueAt: leaseEnd });
      else await this.passOver(manager, orderId);
      return job;
    });
  }

  /**
   * Somebody has it. Another worker has said until when; where it still is due, it was claimed by hand, and must not
   * stand before all others until it is given back.
   */
  private async passOver(manager: EntityManager, orderId: string): Promise<void> {
    await manager.query(
      `update shop.shipments set due_at = clock_timestamp() + make_interval(secs => $2)
        where order_id = $1 and due_at <= clock_timestamp()`,
      [orderId, settings.RETRY_SECONDS],
    );
  }

  private async fulfil({ orderId, totalCents }: Due, job: Job): Promise<void> {
    const log = { orderId, job: job.id, token: job.fencing_token };
    this.logger.log({ message: 'claimed', ...log, after: job.current_step });
    try {
      if (job.current_step === null) {
        const { paymentId } = await this.outside.charge(runKey(job, 'charge'), { orderId, totalCents });
        await this.dataSource.transaction(async (manager) => {
          await held(callDbFunction(manager, 'public.job_advance', [job.id, job.fencing_token, 'charge', null]));
          await manager.update(Shipment, orderId, { paymentId });
        });
      }
      const { trackingNumber } = await this.outside.ship(runKey(job, 'ship'), { orderId });
      await this.dataSource.transaction(async (manager) => {
        await held(callDbFunction(manager, 'public.job_complete', [job.id, job.fencing_token, null]));
        await manager.update(Shipment, orderId, { trackingNumber, dueAt: null });
      });
      this.logger.log({ message: 'done', ...log });
    } catch (error) {
      if (error instanceof LeaseLost || error instanceof Overtaken) {
        this.logger.warn({ message: 'overtaken', ...log });
        return;
      }
      this.logger.error({ message: reasonOf(error), ...log });
      await this.dataSource.transaction((manager) => this.giveBack(manager, orderId, job, error));
    }
  }

  /** Ends this attempt, and lets the next one wait, longer each time. */
  private async giveBack(manager: EntityManager, orderId: string, job: Job, error: unknown): Promise<void> {
    const [ours] = await callDbFunction(manager, 'public.job_fail', [job.id, job.fencing_token, reasonOf(error), null]);
    if (!ours) return;
    // The token counts the attempts.
    const wait = Math.min(settings.RETRY_SECONDS * 2 ** (Number(job.fencing_token) - 1), 300);
    await manager.query(
      `update shop.shipments set due_at = clock_timestamp() + make_interval(secs => $2) where order_id = $1`,
      [orderId, wait],
    );
  }
}

/** Names one run of one step to the outside: what is done, and by whose token, in case two workers ask. */
const runKey = (job: Job, step: string): string => `${job.id}:${step}:${job.fencing_token}`;

/** No row from a guarded write: the token is no longer the job's. Throwing rolls back what stands beside it. */
async function held(write: Promise<unknown[]>): Promise<void> {
  if ((await write).length === 0) throw new LeaseLost();
}
