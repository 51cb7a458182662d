import { Injectable } from '@nestjs/common';
import { settings } from '../settings.js';

/** The outside has been asked by a later claim of the job: this worker's lease is lost. */
export class Overtaken extends Error {}

/** The payment provider and the carrier, as the worker calls them. */
@Injectable()
export class Outside {
  charge(runKey: string, order: { orderId: string; totalCents: number }): Promise<{ paymentId: string }> {
    return this.call('charges', runKey, order);
  }

  ship(runKey: string, order: { orderId: string }): Promise<{ trackingNumber: string }> {
    return this.call('parcels', runKey, order);
  }

  private async call<Answer>(what: string, runKey: string, body: object): Promise<Answer> {
    const response = await fetch(`${settings.OUTSIDE_URL}/${what}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Run-Key': runKey },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(settings.CALL_SECONDS * 1000),
    });
    if (response.status === 409) throw new Overtaken(runKey);
    if (!response.ok) throw new Error(`${what}: answered ${response.status}`);
    return (await response.json()) as Answer;
  }
}
