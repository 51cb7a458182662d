import {
  Body,
  ConflictException,
  Controller,
  Get,
  Headers,
  HttpCode,
  Param,
  ParseIntPipe,
  Post,
  ServiceUnavailableException,
} from '@nestjs/common';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { settings } from '../settings.js';
import { Interruptions } from './interruptions.js';
import { Journal, type Effect, type Entry } from './journal.js';

const Call = z.object({ orderId: z.uuid() });
const Arrangement = z.strictObject({
  effect: z.enum(['charge', 'ship']),
  moment: z.enum(['before', 'after', 'instead']),
});

/** A payment provider and a carrier, played: what the shop cannot put into a transaction of its own. */
@Controller()
export class OutsideController {
  constructor(
    private readonly journal: Journal,
    private readonly interruptions: Interruptions,
  ) {}

  @Post('charges')
  async charge(@Headers('run-key') runKey: string, @Body({ schema: Call }) { orderId }: z.infer<typeof Call>) {
    return { paymentId: await this.perform('charge', runKey, orderId) };
  }

  @Post('parcels')
  async ship(@Headers('run-key') runKey: string, @Body({ schema: Call }) { orderId }: z.infer<typeof Call>) {
    return { trackingNumber: await this.perform('ship', runKey, orderId) };
  }

  @Get('journal/:orderId')
  entries(@Param('orderId') orderId: string): Entry[] {
    return this.journal.of(orderId);
  }

  @Post('interruptions')
  arrange(@Body({ schema: Arrangement }) { effect, moment }: z.infer<typeof Arrangement>): { id: number } {
    return { id: this.interruptions.arrange(effect, moment) };
  }

  /** Answers once a call was caught. */
  @Get('interruptions/:id')
  async caught(@Param('id', ParseIntPipe) id: number): Promise<{ runKey: string }> {
    return { runKey: await this.interruptions.caught(id) };
  }

  @Post('interruptions/:id/release')
  @HttpCode(204)
  release(@Param('id', ParseIntPipe) id: number): void {
    this.interruptions.release(id);
  }

  private async perform(effect: Effect, runKey: string, orderId: string): Promise<string> {
    await pause(settings.OUTSIDE_SECONDS * 1000);
    if (await this.interruptions.pass(effect, 'instead', runKey)) throw new ServiceUnavailableException();
    await this.interruptions.pass(effect, 'before', runKey);
    const { reference } = this.journal.perform(effect, runKey, orderId);
    if (!reference) throw new ConflictException(`${runKey} has been overtaken`);
    await this.interruptions.pass(effect, 'after', runKey);
    return reference;
  }
}
