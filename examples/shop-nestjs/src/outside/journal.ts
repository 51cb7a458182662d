import { Injectable } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { existsSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { settings } from '../settings.js';

export type Effect = 'charge' | 'ship';

/** What came of one call: something was done now, it had been done before, or the caller had been overtaken. */
export interface Entry {
  runKey: string;
  effect: Effect;
  orderId: string;
  result: 'performed' | 'repeated' | 'overtaken';
  /** The payment's or the parcel's number. */
  reference?: string;
}

/**
 * What the outside world has done, kept in a file of its own: it is not the shop's, and shares no transaction with it.
 * A run key `<job id>:<step>:<token>` says all that it has to know. The same job and step are done once, whoever asks.
 * A token below one that it has seen is that of a worker that was overtaken, and is refused.
 */
@Injectable()
export class Journal {
  private readonly entries: Entry[] = existsSync(settings.OUTSIDE_JOURNAL)
    ? readFileSync(settings.OUTSIDE_JOURNAL, 'utf8')
        .trim()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line))
    : [];
  private readonly file = openSync(settings.OUTSIDE_JOURNAL, 'a');

  perform(effect: Effect, runKey: string, orderId: string): Entry {
    const { task, token } = parse(runKey);
    const before = this.entries.filter((entry) => parse(entry.runKey).task === task);
    const done = before.find(({ result }) => result === 'performed');
    const overtaken = before.some((entry) => parse(entry.runKey).token > token);
    return this.write(
      overtaken
        ? { runKey, effect, orderId, result: 'overtaken' }
        : done?.reference
          ? { runKey, effect, orderId, result: 'repeated', reference: done.reference }
          : { runKey, effect, orderId, result: 'performed', reference: `${effect}-${randomUUID().slice(0, 8)}` },
    );
  }

  of(orderId: string): Entry[] {
    return this.entries.filter((entry) => entry.orderId === orderId);
  }

  private write(entry: Entry): Entry {
    writeSync(this.file, `${JSON.stringify(entry)}\n`);
    fdatasyncSync(this.file);
    this.entries.push(entry);
    return entry;
  }
}

function parse(runKey: string): { task: string; token: bigint } {
  const end = runKey.lastIndexOf(':');
  return { task: runKey.slice(0, end), token: BigInt(runKey.slice(end + 1)) };
}
