// Writes each of README.md's blocks of TypeScript, which are whole modules, into test/readme, under the name in its
// first line; they are compiled with the tests, and run by them.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

rmSync('test/readme', { recursive: true, force: true });
mkdirSync('test/readme');
for (const [, block = ''] of readFileSync('README.md', 'utf8').matchAll(/^```ts\n(.*?)^```$/gms)) {
  const name = block.match(/^\/\/ ([a-z-]+)\.ts\n/)?.[1];
  if (!name) throw new Error(`README.md has a block of TypeScript without a file's name:\n${block}`);
  writeFileSync(`test/readme/${name}.mts`, block);
}
