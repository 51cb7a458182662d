import {
  BadRequestException,
  Body,
  Controller,
  Get,
  Headers,
  NotFoundException,
  Param,
  ParseUUIDPipe,
  Post,
  Res,
  UnauthorizedException,
  UseFilters,
} from '@nestjs/common';
import type { Response } from 'express';
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { DatabaseErrors } from '../database/database-errors.filter.js';
import { CorrelationId, Customer, IdempotencyKey, OrderRequest } from './order-request.js';
import { OrdersService } from './orders.service.js';

@Controller('orders')
@UseFilters(DatabaseErrors)
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Post()
  async place(
    @Headers('x-customer') customer: string | undefined,
    @Headers('idempotency-key') key: string | undefined,
    @Headers('x-request-id') requestId: string | undefined,
    @Body({ schema: OrderRequest }) request: OrderRequest,
    @Res({ passthrough: true }) response: Response,
  ): Promise<unknown> {
    const { outcome, replayed } = await this.orders.place({
      customer: authenticated(customer),
      idempotencyKey: header('Idempotency-Key', IdempotencyKey, key),
      correlationId: header('X-Request-Id', CorrelationId, requestId ?? randomUUID()),
      request,
    });
    response.status(outcome.status).setHeader('Idempotency-Replayed', String(replayed));
    return outcome.body;
  }

  @Get(':id')
  async find(
    @Headers('x-customer') customer: string | undefined,
    @Param('id', ParseUUIDPipe) id: string,
  ): Promise<unknown> {
    const order = await this.orders.find(authenticated(customer), id);
    if (!order) throw new NotFoundException('there is no such order');
    return order;
  }
}

/** Who asks, as the gateway in front has found out. It is part of the receipt's key: nobody is answered another's. */
function authenticated(value: string | undefined): string {
  const { success, data } = Customer.safeParse(value);
  if (!success) throw new UnauthorizedException('the header X-Customer is missing');
  return data;
}

function header(name: string, schema: z.ZodType<string>, value: string | undefined): string {
  if (value === undefined) throw new BadRequestException(`the header ${name} is missing`);
  const { success, data, error } = schema.safeParse(value);
  if (!success) throw new BadRequestException(`the header ${name}: ${error.issues[0]?.message}`);
  return data;
}
