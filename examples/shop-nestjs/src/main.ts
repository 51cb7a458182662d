import 'reflect-metadata';
import { ConsoleLogger, StandardSchemaValidationPipe, type INestApplicationContext, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { ConsumersModule } from './consumers/consumers.module.js';
import { migrate } from './database/migrate.js';
import { setup } from './database/setup.js';
import { FulfilmentModule } from './fulfilment/fulfilment.module.js';
import { OperatorModule } from './operator/operator.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { OutsideModule } from './outside/outside.module.js';
import { RelayModule } from './relay/relay.module.js';
import { sample } from './sample.js';
import { settings } from './settings.js';
import { TickModule } from './tick/tick.module.js';

interface Part {
  module: Type;
  /** Where it listens, if it does. */
  port?: number;
}

/** The parts of the application: one process each, any number of each, or all in one. */
const parts: Record<string, Part> = {
  api: { module: OrdersModule, port: settings.API_PORT },
  relay: { module: RelayModule },
  worker: { module: FulfilmentModule, port: settings.WORKER_PORT },
  consumers: { module: ConsumersModule },
  tick: { module: TickModule },
  operator: { module: OperatorModule, port: settings.OPERATOR_PORT },
};

/** What is no part of it: the world that it calls, played; what is done to a database first; a few orders. */
const outside: Part = { module: OutsideModule, port: settings.OUTSIDE_PORT };
const commands: Record<string, () => Promise<void>> = { setup, migrate, sample };

const usage = `usage: node dist/src/main.js PART... | all | outside | setup | migrate | sample
parts: ${Object.keys(parts).join(', ')}`;

const logger = new ConsoleLogger({ json: true });

async function start(name: string, { module, port }: Part): Promise<INestApplicationContext> {
  if (port === undefined) {
    const context = await NestFactory.createApplicationContext(module, { logger });
    logger.log({ message: 'started', part: name }, 'Shop');
    return context;
  }
  const application = await NestFactory.create<NestExpressApplication>(module, { logger });
  application.disable('x-powered-by');
  application.useGlobalPipes(new StandardSchemaValidationPipe());
  // Nothing here is behind a host name of its own; the operator's page must never be anywhere but on this machine.
  await application.listen(port, name === 'operator' ? '127.0.0.1' : settings.HOST);
  logger.log({ message: 'started', part: name, url: await application.getUrl() }, 'Shop');
  return application;
}

async function run(names: string[]): Promise<void> {
  const chosen = names.map((name) => [name, name === 'outside' ? outside : parts[name]] as const);
  const running: INestApplicationContext[] = [];
  const stop = async (signal: string): Promise<void> => {
    logger.log({ message: 'stopping', signal }, 'Shop');
    // Each closes its door, finishes what it is at, and gives its connections back.
    await Promise.all(running.map((application) => application.close()));
    logger.log({ message: 'stopped' }, 'Shop');
    process.exit(0);
  };
  for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => void stop(signal));
  for (const [name, part] of chosen) running.push(await start(name, part!));
}

const names = process.argv.slice(2);
const [only = ''] = names;
const command = Object.hasOwn(commands, only) ? commands[only] : undefined;
if (names.length === 1 && command) await command();
else if (names.length === 1 && only === 'all') await run(Object.keys(parts));
else if (names.length > 0 && names.every((name) => Object.hasOwn(parts, name) || name === 'outside')) await run(names);
else {
  console.error(usage);
  process.exitCode = 2;
}
