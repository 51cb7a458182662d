// What the tests stand on: a database for each file, the shop's processes, and ways to wait for what they do.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { after, afterEach, beforeEach } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';

const { SHOP_SERVER, SHOP_PASSWORD, SHOP_SCRATCH } = process.env;
assert(SHOP_SERVER && SHOP_PASSWORD && SHOP_SCRATCH, 'these tests are started by test/run');

/** How long a test waits for anything before it fails, in milliseconds. */
const PATIENCE = 30_000;

/** How the superuser reaches a database of the server. */
export function adminUrl(database: string): string {
  const url = new URL(SHOP_SERVER!);
  url.pathname = `/${database}`;
  return url.href;
}

/** How a role of the shop's reaches it. */
export function roleUrl(role: string, database: string): string {
  const url = new URL(adminUrl(database));
  url.username = role;
  url.password = SHOP_PASSWORD!;
  return url.href;
}

export const connections = (database: string): Record<string, string> => ({
  ADMIN_DATABASE_URL: adminUrl(database),
  OWNER_DATABASE_URL: roleUrl('shop_owner', database),
  DATABASE_URL: roleUrl('app_be', database),
  OPERATOR_DATABASE_URL: roleUrl('operator', database),
});

/** A client that listens to the loss of its connection, which would otherwise end the process. */
export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** A free port, for what must be known before it listens. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Polls until `look` answers something that is neither false nor undefined, and answers it. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | false | undefined> | T | false | undefined,
): Promise<T> {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found !== false && found !== undefined) return found;
    assert(Date.now() < end, `waited in vain: ${what}`);
    await pause(20);
  }
}

interface LogLine {
  level: string;
  context?: string;
  message: string | { message: string };
}
type Message = Record<string, unknown> & { message: string };

/** A process of the shop's. */
export class Process {
  readonly log: Message[] = [];
  private readonly ended: Promise<{ code: number | null; signal: string | null }>;
  private readonly watchers = new Set<() => void>();
  private errors = '';

  constructor(
    readonly name: string,
    private readonly child: ChildProcess,
  ) {
    this.ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
    // Errors are logged to stderr.
    for (const stream of [child.stdout!, child.stderr!]) createInterface(stream).on('line', (line) => this.read(line));
  }

  private read(line: string): void {
    // What Node.js itself says, of an error that nobody caught.
    if (!line.startsWith('{"level"')) {
      this.errors += `${line}\n`;
      return;
    }
    const { level, context, message } = JSON.parse(line) as LogLine;
    // What is logged is a text, or an object with one and more beside it.
    this.log.push({ ...(typeof message === 'object' ? message : { message }), level, context });
    for (const watcher of this.watchers) watcher();
  }

  /** Resolves to the first line of the log that fits, also one that was logged before. */
  async logged(what: string, fits: (line: Message) => boolean = ({ message }) => message === what): Promise<Message> {
    const found = () => this.log.find(fits);
    if (found()) return found()!;
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        clearTimeout(timer);
        this.watchers.delete(watcher);
        settle();
      };
      const watcher = () => found() && end(() => resolve(found()!));
      const fail = (reason: string) =>
        end(() => reject(new Error(`${this.name} ${reason} before it logged: ${what}\n${this.errors}`)));
      const timer = setTimeout(() => fail('took too long'), PATIENCE);
      this.watchers.add(watcher);
      void this.ended.then(() => setImmediate(() => fail('ended')));
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Resolves when it has ended. */
  async end(): Promise<{ code: number | null; signal: string | null }> {
    return this.ended;
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<{ code: number | null; signal: string | null }> {
    this.signal(signal);
    return this.ended;
  }
}

export const main = fileURLToPath(new URL('../src/main.js', import.meta.url));

export function spawnMain(args: string[], env: Record<string, string>): Process {
  const child = spawn(process.execPath, [main, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return new Process(args.join(' '), child);
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  body: any;
}

/** A shop of the calling file's own: a database, ports, and what is started of it. All of it ends with the tests. */
export async function ownShop() {
  const database = `shop_test_${process.pid}`;
  const maintenance = await connect(SHOP_SERVER!);
  await maintenance.query(`create database ${database} template shop_template strategy wal_log`);
  let admin = await connect(adminUrl(database));
  const [api, worker, operator, outside] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const processes: Process[] = [];
  const environment = {
    ...connections(database),
    API_PORT: String(api),
    WORKER_PORT: String(worker),
    OPERATOR_PORT: String(operator),
    OUTSIDE_PORT: String(outside),
    WORKER_URL: `http://127.0.0.1:${worker}`,
    OUTSIDE_URL: `http://127.0.0.1:${outside}`,
    OUTSIDE_JOURNAL: `${SHOP_SCRATCH}/${database}.jsonl`,
    POLL_SECONDS: '0.05',
    // Calls are held by the tests, and must not be given up before they are released.
    CARRY_SECONDS: '60',
    CALL_SECONDS: '60',
    LEASE_SECONDS: '1',
    RETRY_SECONDS: '0.1',
    VISIBILITY_SECONDS: '1',
    MAX_ATTEMPTS: '2',
  };
  // What a test has started ends with it; what was started before the first one, with the last.
  let standing: number | undefined;
  beforeEach(() => void (standing ??= processes.length));
  afterEach(() => Promise.all(processes.splice(standing!).map((process) => process.kill())));
  after(async () => {
    await Promise.all(processes.map((process) => process.kill()));
    await admin.end();
    const maintenance = await connect(SHOP_SERVER!);
    await maintenance.query(`drop database ${database} with (force)`);
    await maintenance.end();
  });
  await maintenance.end();

  const call = async (url: string, init?: RequestInit): Promise<Answer> => {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(PATIENCE) });
    const text = await response.text();
    const json = response.headers.get('content-type')?.startsWith('application/json');
    return { status: response.status, headers: response.headers, text, body: json ? JSON.parse(text) : undefined };
  };

  let keys = 0;
  const shop = {
    database,
    operatorUrl: `http://127.0.0.1:${operator}/`,
    environment,
    call,

    /** Starts parts of the shop, in one process, and waits until they have started. */
    async start(parts: string, env: Record<string, string> = {}): Promise<Process> {
      const process = spawnMain(parts.split(' '), { ...environment, ...env });
      processes.push(process);
      const names = parts === 'all' ? ['api', 'relay', 'worker', 'consumers', 'tick', 'operator'] : parts.split(' ');
      for (const name of names) await process.logged(`started ${name}`, ({ part }) => part === name);
      return process;
    },

    /** Rows, as the superuser sees them. */
    async sql<Row = any>(statement: string, parameters: unknown[] = []): Promise<Row[]> {
      return (await admin.query(statement, parameters)).rows;
    },
    async reconnect(): Promise<void> {
      admin = await connect(adminUrl(database));
    },

    /** Posts an order. Unless a test says otherwise, it is a good one of Ann's, under a new key. */
    post(
      body: unknown = { items: [{ article: 'tea', quantity: 2 }] },
      headers: Record<string, string | undefined> = {},
    ): Promise<Answer> {
      const all = {
        'Content-Type': 'application/json',
        'X-Customer': 'ann',
        'Idempotency-Key': `key-${++keys}`,
        ...headers,
      };
      return call(`http://127.0.0.1:${api}/orders`, {
        method: 'POST',
        headers: Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined),
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
    },
    async order(): Promise<string> {
      const { status, body } = await shop.post();
      assert.equal(status, 201);
      return body.orderId;
    },
    get(id: string, customer = 'ann'): Promise<Answer> {
      return call(`http://127.0.0.1:${api}/orders/${id}`, { headers: { 'X-Customer': customer } });
    },

    async shipped(orderId: string): Promise<void> {
      await eventually(`order ${orderId} is shipped`, async () => {
        const [row] = await shop.sql('select from shop.shipments where order_id = $1 and tracking_number is not null', [
          orderId,
        ]);
        return row;
      });
    },

    /** What the outside world did for an order. */
    async journal(orderId: string): Promise<{ runKey: string; effect: string; result: string; reference?: string }[]> {
      return (await call(`http://127.0.0.1:${outside}/journal/${orderId}`)).body;
    },

    /** Catches the next call of an effect, at a moment; see the outside world's Interruptions. */
    async interrupt(effect: 'charge' | 'ship', moment: 'before' | 'after' | 'instead') {
      const at = `http://127.0.0.1:${outside}/interruptions`;
      const { body } = await call(at, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ effect, moment }),
      });
      return {
        /** The run key of the call, once it was caught. */
        caught: async (): Promise<string> => (await call(`${at}/${body.id}`)).body.runKey,
        release: async (): Promise<void> => void (await call(`${at}/${body.id}/release`, { method: 'POST' })),
      };
    },
  };
  return shop;
}
export type Shop = Awaited<ReturnType<typeof ownShop>>;
