import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { DataSourceOptions } from 'typeorm';
import { ConsumerSwitch, DailySales, Mail } from '../consumers/entities.js';
import { Shipment } from '../fulfilment/shipment.entity.js';
import { Order } from '../orders/order.entity.js';
import { settings } from '../settings.js';
import { MinuteReport } from '../tick/minute-report.entity.js';

/** A pool of connections. */
export const connection = (url: string) =>
  ({
    type: 'postgres',
    url,
    schema: 'shop',
    entities: [Order, Shipment, Mail, DailySales, ConsumerSwitch, MinuteReport],
    // What pg_stat_activity shows: 'shop relay'.
    applicationName: ['shop', ...process.argv.slice(2)].join(' '),
    poolSize: 5,
    extra: {
      connectionTimeoutMillis: 5_000,
      // A request that repeats waits for the one that it repeats, but not for ever.
      lock_timeout: 5_000,
      statement_timeout: 10_000,
      // A process that hangs in a transaction lets go of its rows. The relay's is open while it carries a batch.
      idle_in_transaction_session_timeout: 120_000,
    },
  }) satisfies DataSourceOptions;

/** A database that is still starting is waited for. */
const patience = { retryAttempts: 30, retryDelay: 1_000 };

/** The database, as the application may use it. */
@Module({ imports: [TypeOrmModule.forRoot({ ...connection(settings.DATABASE_URL), ...patience })] })
export class DatabaseModule {}

/** The database, as an operator may use it: `@InjectDataSource(OPERATOR)`. */
export const OPERATOR = 'operator';
@Module({
  imports: [TypeOrmModule.forRoot({ ...connection(settings.OPERATOR_DATABASE_URL), ...patience, name: OPERATOR })],
})
export class OperatorDatabaseModule {}
