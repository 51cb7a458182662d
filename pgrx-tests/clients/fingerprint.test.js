// Canonical JSON and fingerprints of random requests are what Node computes on the parsed body.
// SEED=N repeats the values of an earlier run.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { ownDatabase } from './support.js';

const VALUES = 20_000;
const BATCH = 500;
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 32)) >>> 0;

/** mulberry32: 32 random bits a call, the same ones for the same seed. */
let state = seed;
function bits() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return (t ^ (t >>> 14)) >>> 0;
}
const below = (n) => bits() % n;
const pick = (choices) => choices[below(choices.length)];
const times = (n, make) => Array.from({ length: n }, make);
const digits = (n) => times(n, () => below(10)).join('');

/** RFC 8785, as ECMAScript makes it short. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${members.join(',')}}`;
}
const sha256 = (text) => createHash('sha256').update(text).digest('hex');

// What follows makes JSON texts, as clients may send them: not only those that JSON.stringify would write.

const double = new DataView(new ArrayBuffer(8));
const numbers = [
  // Any double, from its bits.
  () => {
    double.setUint32(0, bits());
    double.setUint32(4, bits());
    return JSON.stringify(double.getFloat64(0)).replace('null', '0');
  },
  () => String((bits() * 2 ** 21 + (bits() >>> 11)) / 2 ** 53),
  // Around 2^53, where integers begin to be rounded, and other powers of two.
  () => String(2n ** BigInt(pick([53, 53, 53, 24, 31, 32, 63, 64, 70])) + BigInt(below(9) - 4)),
  () => `-${2n ** 53n + BigInt(below(9))}`,
  // More digits than a double holds.
  () => `${pick(['', '-'])}${1 + below(9)}${digits(below(30))}.${digits(1 + below(30))}`,
  () => `${1 + below(9)}.${digits(1 + below(20))}${pick(['e', 'E'])}${pick(['', '+', '-'])}${below(330)}`,
  // Where ECMAScript changes its layout, and where doubles end.
  () => `${below(100)}${pick(['e', 'E'])}${pick(['20', '21', '22', '-5', '-6', '-7', '+19', '-324', '-400', '306'])}`,
  () => pick(['0', '-0', '-0.0', '0e5', '1.0', '100', '1.50', '1E2', '5e-324', '2.5e-324', '1.7976931348623157e308']),
  () => String(below(1000)),
];
function number() {
  const text = pick(numbers)();
  return Number.isFinite(Number(text)) ? text : '0';
}

const characters = [
  // Control characters, all but U+0000, which jsonb does not take.
  () => 1 + below(0x1f),
  () => pick([0x22, 0x5c, 0x2f, 0x7f, 0x80, 0x85, 0xa0, 0xad, 0x2028, 0x2029, 0xfeff, 0xfffd, 0xffff, 0x0301]),
  () => 0x20 + below(0x5f),
  () => 0x20 + below(0x5f),
  () => 0xa0 + below(0xd800 - 0xa0),
  // Above the surrogates, where UTF-16 and code points are ordered differently, and beyond 16 bits.
  () => 0xe000 + below(0x2000),
  () => 0x10000 + below(0x100000),
  () => 0x1f600 + below(80),
];
const string = () => String.fromCodePoint(...times(below(9), () => pick(characters)()));
const hex = (unit) => `\\u${unit.toString(16).padStart(4, '0')}`;
/** A string in quotes: as JSON.stringify writes it, or with escapes that it would not write. */
function quoted(text) {
  if (below(3) > 0) return JSON.stringify(text);
  const units = text.split('').map((unit) => hex(unit.charCodeAt(0)));
  return `"${pick([units.join(''), units.join('').toUpperCase().replaceAll('\\U', '\\u')])}"`;
}

const keys = [
  () => String(below(30)),
  () => pick(['', '-1', '01', '1.5', '4294967295', '4294967294', '__proto__', 'toString', 'a', 'A', 'aa', 'ä']),
  string,
];
const space = () => (below(4) > 0 ? '' : pick([' ', '\n', '\t', '\r\n']));
function json(depth) {
  const kind = below(depth > 0 ? 8 : 4);
  if (kind === 0) return pick(['null', 'true', 'false']);
  if (kind < 3) return number();
  if (kind === 3) return quoted(string());
  const room = () => space() + json(depth - 1) + space();
  // A key may come twice: the last one counts, in jsonb as in JavaScript.
  if (kind < 7) return `{${times(below(8), () => `${space()}${quoted(pick(keys)())}${space()}:${room()}`).join(',')}}`;
  return `[${times(below(6), room).join(',')}]`;
}

const database = await ownDatabase();

test(`${VALUES} random requests have Node's canonical form and fingerprint`, async (t) => {
  t.diagnostic(`SEED=${seed}`);
  const client = await database.client(t, 'server');
  for (let done = 0; done < VALUES; done += BATCH) {
    const texts = times(BATCH, () => json(4));
    const { rows } = await client.query(
      `SELECT public.canonical_json(text::jsonb) AS canonical, public.request_fingerprint(text::jsonb) AS fingerprint
         FROM unnest($1::text[]) WITH ORDINALITY AS request(text, place) ORDER BY place`,
      [texts],
    );
    texts.forEach((text, i) => {
      const expected = canonical(JSON.parse(text));
      const where = `SEED=${seed}, value ${done + i}: ${JSON.stringify(text)}`;
      assert.equal(rows[i].canonical, expected, where);
      assert.equal(rows[i].fingerprint, sha256(expected), where);
    });
  }
});
