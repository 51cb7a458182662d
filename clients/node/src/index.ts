import { type DbFunctions, signatures } from './functions';

export type { DbFunctions };

/** The name of a function of hfs_lite, with its schema. */
export type DbFunctionName = keyof DbFunctions;
/** What a function takes, in its order. */
export type DbFunctionArgs<Name extends DbFunctionName> = DbFunctions[Name]['args'];
/** A row that a function answers. */
export type DbFunctionRow<Name extends DbFunctionName> = DbFunctions[Name]['row'];

/** A point in time: a Date, or text with an offset, such as `2026-01-31T09:00:00+02:00`. */
export type Instant = Date | string;
/** A 64-bit integer. Answers are strings; a number is exact up to 2^53 only. */
export type BigInteger = string | number | bigint;
/** What JSON.stringify makes JSON of. For JSON's null there is `jsonNull`; `null` is SQL's NULL. */
export type Json = string | number | boolean | object;

/** JSON's null, where `null` would be SQL's NULL. */
export const jsonNull: Json = { toJSON: () => null };

/**
 * Whatever can query: TypeORM's EntityManager, DataSource and QueryRunner, node-postgres' Client, Pool and PoolClient.
 * The first three answer rows, the others a result that has them.
 */
export interface Queryable {
  query(sql: string, parameters?: any[]): Promise<unknown>;
}

/**
 * Calls a function of hfs_lite and answers its rows. No row means refused: no error, and nothing was changed.
 *
 * @param queryable where to call it; inside a transaction, the manager or client of that transaction
 * @param name the function, with its schema
 * @param args its arguments in their order; those with a default may be left out at the end
 * @throws TypeError before anything is sent, for a name or a number of arguments that is not the extension's, and for
 *   a value that is no JSON; otherwise the driver's error
 */
export async function callDbFunction<Name extends DbFunctionName>(
  queryable: Queryable,
  name: Name,
  args: Readonly<DbFunctionArgs<Name>>,
): Promise<DbFunctionRow<Name>[]> {
  const parameters = parametersOf(name, args);
  const places = parameters.map((_, i) => `$${i + 1}`).join(', ');
  const answer = await queryable.query(`SELECT * FROM ${name}(${places})`, parameters);
  return Array.isArray(answer) ? answer : (answer as { rows: DbFunctionRow<Name>[] }).rows;
}

/** The parameters to send. From JavaScript anything may come: no text of a caller's gets into the statement. */
function parametersOf(name: string, args: readonly unknown[]): unknown[] {
  if (typeof name !== 'string' || !Object.hasOwn(signatures, name)) {
    throw new TypeError(`hfs_lite has no function ${String(name)}`);
  }
  if (!Array.isArray(args)) throw new TypeError(`${name} takes its arguments as an array`);
  const overloads = signatures[name as DbFunctionName];
  const signature = overloads.find(({ required, accepted }) => required <= args.length && args.length <= accepted);
  if (!signature) {
    const counts = overloads.map((one) => (one.required < one.accepted ? `${one.required} to ` : '') + one.accepted);
    throw new TypeError(`${name} takes ${counts.join(' or ')} arguments, and ${args.length} came`);
  }
  let given = args.length;
  // As everywhere in JavaScript, undefined at the end is an argument that was left out: its default counts.
  while (given > signature.required && args[given - 1] === undefined) given--;
  return args.slice(0, given).map((value, i) => {
    if (signature.json.includes(i)) return jsonOf(name, i, value);
    if (signature.jsons.includes(i) && Array.isArray(value)) return value.map((element) => jsonOf(name, i, element));
    return value ?? null;
  });
}

/** JSON as text: node-postgres would make '{…}' of an array, which is no JSON, and send a string as it is. */
function jsonOf(name: string, i: number, value: unknown): string | null {
  if (value === undefined || value === null) return null;
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`${name}: argument ${i + 1} is a ${typeof value}, which is no JSON`);
  return text;
}

/** The SQLSTATEs that an application acts upon. */
export const SqlState = {
  /** An idempotency key was used with another request: answer 409. */
  idempotencyKeyReused: 'LT001',
  /** Above READ COMMITTED, a newer snapshot was needed: run the transaction again. */
  serializationFailure: '40001',
  /** Run the transaction again. */
  deadlockDetected: '40P01',
  /** lock_timeout ran out: try later. */
  lockNotAvailable: '55P03',
} as const;

/**
 * The SQLSTATE of an error that PostgreSQL reported, also where TypeORM or another library has wrapped it (driverError,
 * cause); undefined for any other error, such as that of a lost connection.
 */
export function sqlState(error: unknown): string | undefined {
  const seen = new Set<unknown>();
  for (let at = error; typeof at === 'object' && at !== null && !seen.has(at); at = inner(at)) {
    // Errors of the system have a code too (EPIPE); only the server's have a severity.
    if ('severity' in at && 'code' in at && typeof at.code === 'string') return at.code;
    seen.add(at);
  }
  return undefined;
}

function inner(error: object): unknown {
  if ('driverError' in error) return error.driverError;
  return 'cause' in error ? error.cause : undefined;
}
