import { Injectable } from '@nestjs/common';
import { settings } from '../settings.js';

/** A row of the outbox. */
export interface Message {
  id: string;
  queue: string;
  payload: unknown;
  correlationId: string;
}

/** There is no receiver: whatever it is that should be carried, it would not be. */
export class Unreachable extends Error {}

/** The receiver got the message, and did not answer. */
export class Unanswered extends Error {}

/** What a connection fails with that does not come about. */
const NOBODY = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'];

/** Where each of the outbox's queues leads. A shop with a broker would publish here instead. */
@Injectable()
export class Transport {
  private readonly receivers: Record<string, string> = { fulfilment: `${settings.WORKER_URL}/messages` };

  /** Returns when the receiver has what it was sent, for good. */
  async carry({ id, queue, payload, correlationId }: Message): Promise<void> {
    const receiver = this.receivers[queue];
    if (!receiver) throw new Error(`nobody receives ${queue}`);
    // Made first: what no header can hold is the message's fault, and not the receiver's.
    const headers = new Headers({ 'Content-Type': 'application/json', 'X-Request-Id': correlationId });
    const response = await fetch(receiver, {
      method: 'POST',
      headers,
      body: JSON.stringify({ id, queue, payload }),
      signal: AbortSignal.timeout(settings.CARRY_SECONDS * 1000),
    }).catch((error: Error & { cause?: { code?: string } }) => {
      const Failure = NOBODY.includes(error.cause?.code ?? '') ? Unreachable : Unanswered;
      throw new Failure(`${receiver} does not answer`, { cause: error });
    });
    if (!response.ok) throw new Error(`${receiver} answered ${response.status}`);
  }
}
