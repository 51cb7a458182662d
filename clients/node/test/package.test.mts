// What npm would publish, unpacked into an application's node_modules: used from CommonJS and from ECMAScript modules,
// and compiled against as applications are.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';

const app = mkdtempSync(join(tmpdir(), 'hfs-lite-'));
after(() => rmSync(app, { recursive: true }));
const installed = join(app, 'node_modules/hfs-lite');
const run = (program: string, ...args: string[]) =>
  execFileSync(program, args, { cwd: app, encoding: 'utf8', stdio: 'pipe' });

// ./run has packed it.
const tarball = resolve('build/package.tgz');
mkdirSync(installed, { recursive: true });
run('tar', '-xzf', tarball, '-C', installed, '--strip-components=1');

test('it holds the build, the README and the licence, and nothing else', () => {
  assert.deepEqual(run('tar', '-tzf', tarball).trim().split('\n').sort(), [
    'package/LICENSE', 'package/README.md',
    'package/dist/functions.d.ts', 'package/dist/functions.js', 'package/dist/index.d.ts', 'package/dist/index.js',
    'package/package.json',
  ]);
});

const use = `
  const sent = [];
  const queryable = { query: async (...call) => (sent.push(call), [{ queues: 1 }]) };
  callDbFunction(queryable, 'public.event_bus_send', ['placed', {}]).then((rows) => {
    console.log(JSON.stringify([rows, sent, SqlState.idempotencyKeyReused, sqlState(null), jsonNull]));
  });`;
const names = 'callDbFunction, jsonNull, SqlState, sqlState';
const sent = [['SELECT * FROM public.event_bus_send($1, $2)', ['placed', '{}']]];
const used = [[{ queues: 1 }], sent, 'LT001', null, null];

test('CommonJS requires it', () => {
  writeFileSync(join(app, 'use.cjs'), `const { ${names} } = require('hfs-lite');${use}`);
  assert.deepEqual(JSON.parse(run('node', 'use.cjs')), used);
});

test('an ECMAScript module imports it by its names', () => {
  writeFileSync(join(app, 'use.mjs'), `import { ${names} } from 'hfs-lite';${use}`);
  assert.deepEqual(JSON.parse(run('node', 'use.mjs')), used);
});

test('what is not exported is not reached', () => {
  assert.throws(() => run('node', '-e', `require('hfs-lite/dist/functions')`), /ERR_PACKAGE_PATH_NOT_EXPORTED/);
});

const typed = `
  import { ${names}, type DbFunctionRow, type Queryable } from 'hfs-lite';
  export async function claim(manager: Queryable): Promise<DbFunctionRow<'public.job_claim'> | undefined> {
    const [job] = await callDbFunction(manager, 'public.job_claim', ['k', 'j', 'w', new Date(), jsonNull, null]);
    // @ts-expect-error a token is a string
    job satisfies { fencing_token: number } | undefined;
    return sqlState(job) === SqlState.idempotencyKeyReused ? undefined : job;
  }`;
const compilations: [string, string, string[], string[]][] = [
  ['typescript', 'modules of both kinds', ['typed.cts', 'typed.mts'], ['--module', 'nodenext']],
  ['typescript', "a bundler's module", ['typed.ts'], ['--module', 'esnext', '--moduleResolution', 'bundler']],
  ['typescript-5', 'modules of both kinds', ['typed.cts', 'typed.mts'], ['--module', 'nodenext']],
  // What most applications still have.
  ['typescript-5', 'CommonJS', ['typed.ts'], ['--module', 'commonjs', '--moduleResolution', 'node10']],
];
for (const [compiler, what, files, options] of compilations) {
  test(`${compiler} compiles ${what} against it`, () => {
    for (const file of files) writeFileSync(join(app, file), typed);
    const tsc = resolve('node_modules', compiler, 'bin/tsc');
    run('node', tsc, '--strict', '--noEmit', '--target', 'es2022', ...options, ...files);
  });
}
