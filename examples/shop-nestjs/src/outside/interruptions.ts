import { Injectable, NotFoundException } from '@nestjs/common';
import type { Effect } from './journal.js';

/** Before it is done, after it was done but before the caller knows, or instead of it: an answer of 503. */
export type Moment = 'before' | 'after' | 'instead';

interface Interruption {
  id: number;
  effect: Effect;
  moment: Moment;
  caught: PromiseWithResolvers<string>;
  released: PromiseWithResolvers<void>;
}

/**
 * A hand that holds the outside world at a chosen moment, so that one can see what becomes of a worker that is killed
 * just then. Each catches one call, and holds it until it is released.
 */
@Injectable()
export class Interruptions {
  private readonly all: Interruption[] = [];
  private readonly waiting = new Set<Interruption>();

  arrange(effect: Effect, moment: Moment): number {
    const interruption = {
      id: this.all.length,
      effect,
      moment,
      caught: withResolvers<string>(),
      released: withResolvers<void>(),
    };
    this.all.push(interruption);
    this.waiting.add(interruption);
    return interruption.id;
  }

  /** Resolves to the run key of the call that was caught. */
  caught(id: number): Promise<string> {
    return this.find(id).caught.promise;
  }

  release(id: number): void {
    this.find(id).released.resolve();
  }

  /** What a call goes through: answers whether it was caught, once it may go on. */
  async pass(effect: Effect, moment: Moment, runKey: string): Promise<boolean> {
    for (const interruption of this.waiting) {
      if (interruption.effect !== effect || interruption.moment !== moment) continue;
      this.waiting.delete(interruption);
      interruption.caught.resolve(runKey);
      if (moment !== 'instead') await interruption.released.promise;
      return true;
    }
    return false;
  }

  private find(id: number): Interruption {
    const interruption = this.all[id];
    if (!interruption) throw new NotFoundException('there is no such interruption');
    return interruption;
  }
}

// Promise.withResolvers is Node 22's.
interface PromiseWithResolvers<T> {
  promise: Promise<T>;
  resolve: (value: T) => void;
}

function withResolvers<T>(): PromiseWithResolvers<T> {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((ready) => (resolve = ready));
  return { promise, resolve };
}
