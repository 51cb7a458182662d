import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { callDbFunction, type DbFunctionRow } from 'hfs-lite';
import { DataSource } from 'typeorm';
import { ConsumerSwitch } from '../consumers/entities.js';
import { OPERATOR } from '../database/database.module.js';
import { one } from '../database/rows.js';

export interface Metric {
  area: string;
  name: string;
  metric: string;
  value: number | null;
  /** Of an age. */
  words: string | null;
}

export interface Job {
  key: string;
  state: 'waiting' | 'running' | 'lease ended' | 'failed' | 'done';
  step: string | null;
  token: string | null;
  worker: string | null;
  due: string | null;
  lastWrite: string | null;
  error: string | null;
}

export interface OutboxRow {
  id: string;
  queue: string;
  state: 'waiting' | 'sent';
  age: string;
  correlationId: string | null;
  payload: unknown;
}

export interface DeadLetter {
  queue: string;
  id: string;
  reason: string | null;
  attempts: number;
  age: string;
  buried: string;
  message: unknown;
}

export interface Report {
  minute: Date;
  orders: number;
  totalCents: string;
  reportedBy: string;
}

/** What the operator's page shows: all of it as one moment's view. */
export interface State {
  database: string;
  metrics: Metric[];
  problems: DbFunctionRow<'public.event_bus_check'>[];
  jobs: Job[];
  outbox: OutboxRow[];
  switches: ConsumerSwitch[];
  deadLetters: DeadLetter[];
  reports: Report[];
}

/** What an operator sees and does, with a role of kind `operator`. */
@Injectable()
export class OperatorService {
  constructor(@InjectDataSource(OPERATOR) private readonly dataSource: DataSource) {}

  async state(): Promise<State> {
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      await manager.query('set transaction read only');
      const { database } = await one<{ database: string }>(manager.query('select current_database() as database'));
      return {
        database,
        metrics: await manager.query(
          `select area, name, metric, value,
                  case unit when 'seconds'
                            then public.hfs_lite_age(clock_timestamp() - make_interval(secs => value)) end as words
             from public.hfs_lite_health()`,
        ),
        problems: await callDbFunction(manager, 'public.event_bus_check', []),
        jobs: await manager.query(JOBS),
        outbox: await manager.query(
          // Newest first: ids begin with the time.
          `select id, queue, state, age, correlation_id as "correlationId", payload
             from public.hfs_lite_outbox order by id desc limit 10`,
        ),
        switches: await manager.find(ConsumerSwitch, { order: { consumer: 'asc' } }),
        deadLetters: await manager.query(
          `select queue, msg_id as id, reason, attempts, public.hfs_lite_age(enqueued_at) as age,
                  public.hfs_lite_age(buried_at) as buried, message
             from public.event_bus_all_dead_letters(25)`,
        ),
        reports: await manager.query(
          `select minute, orders, total_cents as "totalCents", reported_by as "reportedBy"
             from shop.minute_reports order by minute desc limit 5`,
        ),
      };
    });
  }

  /** Gives a dead letter back to its consumer; false where somebody else has done so. */
  async requeue(queue: string, id: string): Promise<boolean> {
    return (await callDbFunction(this.dataSource, 'public.event_bus_requeue', [queue, id])).length > 0;
  }

  async tell(consumer: string, failing: boolean): Promise<void> {
    await this.dataSource.manager.update(ConsumerSwitch, consumer, { failing });
  }
}

/** What is not shipped yet, the longest due first, with its job if it was claimed; then what was done last. */
const JOBS = `
  (select 'fulfilment:' || s.order_id as key, coalesce(j.state, 'waiting') as state, j.current_step as step,
          j.fencing_token as token, j.claimed_by as worker, public.hfs_lite_age(s.due_at) as due,
          j.last_write as "lastWrite", j.error
     from shop.shipments s left join public.hfs_lite_jobs j on j.job_key = 'fulfilment:' || s.order_id
    where s.due_at is not null order by s.due_at limit 20)
  union all
  (select job_key, state, current_step, fencing_token, claimed_by, null, last_write, error
     from public.hfs_lite_jobs where state = 'done' order by id desc limit 8)`;
