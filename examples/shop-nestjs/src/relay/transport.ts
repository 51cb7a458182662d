import { Injectable } from '@nestjs/common';
import { settings } from '../settings.js';

/** A row of the outbox. */
export interface Message {
  id: string;
  queue: string;
  payload: unknown;
  correlationId: string;
}

/** The receiver did not answer. */
export class Unreachable extends Error {}

/** Where each of the outbox's queues leads. A shop with a broker would publish here instead. */
@Injectable()
export class Transport {
  private readonly receivers: Record<string, string> = { fulfilment: `${settings.WORKER_URL}/messages` };

  /** Returns when the receiver has what it was sent, for good. */
  async carry({ id, queue, payload, correlationId }: Message): Promise<void> {
    const receiver = this.receivers[queue];
    if (!receiver) throw new Error(`nobody receives ${queue}`);
    const response = await fetch(receiver, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-Request-Id': correlationId },
      body: JSON.stringify({ id, queue, payload }),
      signal: AbortSignal.timeout(settings.CARRY_SECONDS * 1000),
    }).catch((error: unknown) => {
      throw new Unreachable(`${receiver} does not answer`, { cause: error });
    });
    if (!response.ok) throw new Error(`${receiver} answered ${response.status}`);
  }
}
