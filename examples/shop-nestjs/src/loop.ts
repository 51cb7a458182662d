import { Logger, type BeforeApplicationShutdown, type OnApplicationBootstrap } from '@nestjs/common';
import { setTimeout as pause } from 'node:timers/promises';
import { settings } from './settings.js';

/** In milliseconds. */
const AFTER_FAILURE = 1_000;

/**
 * Turns until the application stops, one turn at a time. A turn that fails is logged, and the next one follows
 * soon after: a database that was restarted is simply there again. At the end the turn that is under way is waited
 * for, so a worker finishes what it is at.
 */
export abstract class Loop implements OnApplicationBootstrap, BeforeApplicationShutdown {
  protected readonly logger = new Logger(this.constructor.name);
  private readonly stop = new AbortController();
  private running?: Promise<void>;

  /** Does what there is to do, and answers whether there may be more of it. */
  protected abstract turn(): Promise<boolean>;

  /** How long to wait after a turn that answered false, in milliseconds. */
  protected pause(): number {
    return settings.POLL_SECONDS * 1000;
  }

  onApplicationBootstrap(): void {
    this.running = this.run();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stop.abort();
    await this.running;
  }

  private async run(): Promise<void> {
    const { signal } = this.stop;
    while (!signal.aborted) {
      const wait = await this.turn().then(
        (more) => (more ? 0 : this.pause()),
        (error: unknown) => {
          this.logger.error(error);
          return AFTER_FAILURE;
        },
      );
      // Aborted, it rejects, and the loop ends.
      if (wait > 0) await pause(wait, undefined, { signal }).catch(() => undefined);
    }
  }
}
