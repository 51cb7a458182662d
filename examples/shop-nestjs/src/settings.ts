import { hostname } from 'node:os';
import { z } from 'zod';

const port = (standard: number) => z.coerce.number().int().min(0).max(65535).default(standard);
const seconds = (standard: number) => z.coerce.number().min(0).default(standard);

/** What the environment may set. An empty environment is a shop on this machine, with PostgreSQL at its usual place. */
const Environment = z.object({
  /** As the back end: EXECUTE on what applications call, and its own tables. */
  DATABASE_URL: z.string().default('postgresql://app_be@localhost/shop'),
  /** As a role of kind `operator`, for the operator's page. */
  OPERATOR_DATABASE_URL: z.string().default('postgresql://operator@localhost/shop'),
  /** As the owner of schema shop, for migrations. */
  OWNER_DATABASE_URL: z.string().default('postgresql://shop_owner@localhost/shop'),
  /** As a superuser, for `setup` only. */
  ADMIN_DATABASE_URL: z.string().default('postgresql://postgres@localhost/shop'),

  HOST: z.string().default('127.0.0.1'),
  API_PORT: port(3000),
  WORKER_PORT: port(3001),
  OPERATOR_PORT: port(3002),
  OUTSIDE_PORT: port(3003),
  /** Where the relay finds the workers. */
  WORKER_URL: z.url().default('http://127.0.0.1:3001'),
  /** Where the worker finds the payment provider and the carrier. */
  OUTSIDE_URL: z.url().default('http://127.0.0.1:3003'),

  /** How long a loop waits after it found nothing to do, in seconds. */
  POLL_SECONDS: seconds(0.25),
  /** How long a receiver may take for a message that the relay brings, in seconds. */
  CARRY_SECONDS: seconds(5),
  /** How long a worker may take for a job, in seconds. There is no renewal: longer than the longest run. */
  LEASE_SECONDS: seconds(60),
  /** How long a call to the outside may take, in seconds: the two of a job have to fit into its lease. */
  CALL_SECONDS: seconds(20),
  /**
   * How long a job that failed, or a message that could not be carried, waits for its next attempt, in seconds; twice
   * as long each time, to five minutes, or one.
   */
  RETRY_SECONDS: seconds(1),
  /** How long a message that was read is hidden from other consumers, in whole seconds. */
  VISIBILITY_SECONDS: z.coerce.number().int().min(0).default(5),
  /** How often a message is delivered before it is buried. */
  MAX_ATTEMPTS: z.coerce.number().int().min(1).default(3),

  /** Where the outside world keeps what it did. */
  OUTSIDE_JOURNAL: z.string().default('outside.jsonl'),
  /** How long the outside world thinks about each call, in seconds. */
  OUTSIDE_SECONDS: seconds(0),
});

export const settings = Environment.parse(process.env);

/** Who this process is, in leases and reports. */
export const instance = `${hostname()}:${process.pid}`;
