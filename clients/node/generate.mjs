// @ts-check
// Prints what src/functions.ts has to be: the names, arguments, rows and comments of all functions, from the catalog of
// a database with the extension. `./run` compares, `./run --write` writes it.
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { nullable, values } from './overlay.mjs';

/**
 * @typedef {{ name: string, type: string, optional: boolean, nullable: boolean }} Value
 * @typedef {{ name: string, comment: string, strict: boolean, arguments: Value[], columns: Value[] }} DbFunction
 */

const CATALOG = `
  select p.proname as name, obj_description(p.oid, 'pg_proc') as comment, p.proisstrict as strict,
         coalesce((
           select json_agg(json_build_object(
                    'name', p.proargnames[i], 'type', format_type(p.proargtypes[i - 1], null),
                    'optional', i > p.pronargs - p.pronargdefaults,
                    'nullable', coalesce(pg_get_function_arg_default(p.oid, i) like 'NULL::%', false)) order by i)
             from generate_series(1, p.pronargs) i), '[]') as arguments,
         coalesce((
           select json_agg(json_build_object('name', c.name, 'type', format_type(c.type, null)) order by c.i)
             from unnest(p.proallargtypes, p.proargmodes, p.proargnames) with ordinality c (type, mode, name, i)
            where c.mode = 't'),
           json_build_array(json_build_object('name', p.proname, 'type', format_type(p.prorettype, null)))) as columns
    from pg_depend d
    join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
    join pg_proc p on p.oid = d.objid
   where d.classid = 'pg_proc'::regclass and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
     and p.pronamespace = 'public'::regnamespace
   order by p.proname collate "C", p.pronargs`;

/** What a caller may pass. Times, integers and JSON have names of their own: src/index.ts. */
const ARGUMENTS = {
  'bigint': 'BigInteger',
  'bigint[]': 'readonly BigInteger[]',
  'character varying': 'string',
  'character varying[]': 'readonly string[]',
  'integer': 'number',
  'integer[]': 'readonly number[]',
  'jsonb': 'Json',
  'jsonb[]': 'readonly Json[]',
  'name': 'string',
  'text': 'string',
  'text[]': 'readonly string[]',
  'timestamp with time zone': 'Instant',
  'uuid': 'string',
  'uuid[]': 'readonly string[]',
};

/** What node-postgres makes of a value, unless its parsers are replaced. */
const COLUMNS = {
  'bigint': 'string',
  'boolean': 'boolean',
  'character varying': 'string',
  'double precision': 'number',
  'integer': 'number',
  'jsonb': 'unknown',
  'text': 'string',
  'timestamp with time zone': 'Date',
  'uuid': 'string',
  'void': "''",
};

/**
 * The functions, by their names.
 * @param {pg.Client} client
 * @returns {Promise<DbFunction[]>}
 */
export const catalog = async (client) => (await client.query(CATALOG)).rows;

/** The text of src/functions.ts. @param {pg.Client} client */
async function generate(client) {
  const rows = await catalog(client);
  /** @type {Map<string, DbFunction[]>} */
  const functions = new Map();
  for (const row of rows) functions.set(row.name, [...(functions.get(row.name) ?? []), row]);
  checkNames(rows);
  return `// Generated from the catalog by generate.mjs; not to be edited. ./run --write makes it anew.
import type { BigInteger, Instant, Json } from './index';

/** All functions of hfs_lite: what each takes, and the rows that it answers. */
export interface DbFunctions {
${[...functions].map(([name, overloads]) => member(name, overloads)).join('\n')}
}

/** The signatures of each: more than one where it is overloaded. */
export const signatures: Record<keyof DbFunctions, readonly Signature[]> = {
${[...functions].map(([name, overloads]) => `  'public.${name}': [${overloads.map(signature).join(', ')}],`).join('\n')}
};

export interface Signature {
  /** How many arguments must be given, and how many may be. */
  required: number;
  accepted: number;
  /** The places of those that are jsonb, and of those that are jsonb[]. */
  json: readonly number[];
  jsons: readonly number[];
}
`;
}

/** @param {string} name @param {DbFunction[]} overloads */
function member(name, overloads) {
  const [rows, ...others] = new Set(overloads.map(row));
  if (others.length > 0) throw new Error(`the functions named ${name} answer different rows`);
  const args = overloads.map(tuple);
  return `${doc(overloads.map((overload) => overload.comment))}
  'public.${name}': {
    args: ${args.length === 1 ? args[0] : args.map((one) => `\n      | ${one.replaceAll('\n', '\n  ')}`).join('')};
    row: ${rows};
  };`;
}

/** @param {DbFunction} f */
function tuple(f) {
  if (f.arguments.length === 0) return '[]';
  const members = f.arguments.map((argument) => {
    // A strict function answers NULL for NULL: nobody means to ask for that.
    const orNull = !f.strict && (argument.nullable || isNullable(f, argument)) ? ' | null' : '';
    return `      ${argument.name}${argument.optional ? '?' : ''}: ${type(f, argument, ARGUMENTS)}${orNull},`;
  });
  return `[\n${members.join('\n')}\n    ]`;
}

/** @param {DbFunction} f */
function row(f) {
  const members = f.columns.map(
    (column) => `      ${column.name}: ${type(f, column, COLUMNS)}${isNullable(f, column) ? ' | null' : ''};`,
  );
  return `{\n${members.join('\n')}\n    }`;
}

/** @param {DbFunction} f @param {Value} value @param {Record<string, string>} types */
function type(f, value, types) {
  const only = values[f.name]?.[value.name];
  if (only) return only.map((text) => `'${text}'`).join(' | ');
  const type = types[value.type];
  if (!type) throw new Error(`${f.name}: no TypeScript type is known for ${value.name} ${value.type}`);
  return hasNulls(f, value) ? type.replace(/^readonly (\w+)\[]$/, 'readonly ($1 | null)[]') : type;
}

/** @param {DbFunction} f @param {Value} value */
const isNullable = (f, value) => nullable[f.name]?.includes(value.name) ?? false;

/** Whether there may be NULLs in it. @param {DbFunction} f @param {Value} value */
const hasNulls = (f, value) => nullable[f.name]?.includes(`${value.name}[]`) ?? false;

/** @param {DbFunction} f */
function signature(f) {
  const required = f.arguments.filter((argument) => !argument.optional).length;
  /** @param {string} type */
  const places = (type) => f.arguments.flatMap((argument, i) => (argument.type === type ? [i] : [])).join(', ');
  const json = `json: [${places('jsonb')}], jsons: [${places('jsonb[]')}]`;
  return `{ required: ${required}, accepted: ${f.arguments.length}, ${json} }`;
}

/** @param {string[]} comments */
function doc(comments) {
  const paragraphs = comments.map((comment) => comment.split('\n').map(markdown).join('\n\n'));
  const lines = paragraphs.join('\n\nOr, with other arguments:\n\n').replaceAll('*/', '*\\/').split('\n').flatMap(wrap);
  return `  /**\n${lines.map((line) => `   * ${line}`.trimEnd()).join('\n')}\n   */`;
}

/** A line of a COMMENT as editors show it: arguments as a list, no <name> taken for a tag. @param {string} line */
function markdown(line) {
  const text = line.replaceAll(/`[^`]*`|[^\s,;]*<[^\s,;]*/g, (word) => (word.startsWith('`') ? word : `\`${word}\``));
  if (!text.startsWith('p_')) return text;
  return text.split(/(?<=[.;]) (?=p_\w+: )/).map((argument) => `- ${argument}`).join('\n');
}

/** Breaks a line where it would pass 120 characters. @param {string} line @returns {string[]} */
function wrap(line) {
  const width = 115;
  if (line.length <= width) return [line];
  const at = line.lastIndexOf(' ', width);
  const indent = line.match(/^(- | +)/) ? '  ' : '';
  return [line.slice(0, at), ...wrap(indent + line.slice(at + 1))];
}

/** What overlay.mjs names must be there. @param {DbFunction[]} functions */
function checkNames(functions) {
  const known = new Set();
  for (const f of functions) for (const { name, type } of [...f.arguments, ...f.columns]) {
    known.add(`${f.name}.${name}`);
    if (type.endsWith('[]')) known.add(`${f.name}.${name}[]`);
  }
  const named = [
    ...Object.entries(nullable).flatMap(([f, names]) => names.map((name) => `${f}.${name}`)),
    ...Object.entries(values).flatMap(([f, texts]) => Object.keys(texts).map((name) => `${f}.${name}`)),
  ];
  const unknown = named.filter((name) => !known.has(name));
  if (unknown.length > 0) throw new Error(`overlay.mjs names what is not there: ${unknown.join(', ')}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const client = new pg.Client({
    host: process.env.SERVER_HOST, port: Number(process.env.SERVER_PORT), user: 'postgres', database: 'app',
  });
  await client.connect();
  process.stdout.write(await generate(client));
  await client.end();
}
