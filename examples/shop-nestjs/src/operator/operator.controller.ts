import { Body, Controller, Get, Header, Post, Query, Redirect, Req, Res, UseFilters, UseGuards } from '@nestjs/common';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { OperatorErrors } from './operator-errors.filter.js';
import { OperatorService } from './operator.service.js';
import { isNote, page } from './page.js';
import { FormTokens, SameOrigin } from './same-origin.js';

const Requeue = z.object({ queue: z.string(), id: z.string().regex(/^[0-9]{1,18}$/) });
const Tell = z.object({ consumer: z.string(), failing: z.stringbool() });

/** Everything is answered by a redirect or a whole page, so it works without JavaScript. */
@Controller()
@UseGuards(SameOrigin)
@UseFilters(OperatorErrors)
export class OperatorController {
  constructor(
    private readonly operator: OperatorService,
    private readonly tokens: FormTokens,
  ) {}

  @Get()
  @Header('Content-Type', 'text/html; charset=utf-8')
  async show(
    @Query('note') note: unknown,
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
  ): Promise<string> {
    const state = await this.operator.state();
    return page(state, this.tokens.issue(request, response), isNote(note) ? note : undefined).toString();
  }

  @Post('requeue')
  @Redirect()
  async requeue(@Body({ schema: Requeue }) { queue, id }: z.infer<typeof Requeue>) {
    const note = (await this.operator.requeue(queue, id)) ? 'requeued' : 'gone';
    return { url: `/?note=${note}#dead-letters`, statusCode: 303 };
  }

  @Post('tell')
  @Redirect()
  async tell(@Body({ schema: Tell }) { consumer, failing }: z.infer<typeof Tell>) {
    await this.operator.tell(consumer, failing);
    return { url: `/?note=${failing ? 'failing' : 'working'}#consumers`, statusCode: 303 };
  }
}
