import { Module, type MiddlewareConsumer, type NestModule, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { ExpressAdapter } from '@nestjs/platform-express';
import type { NextFunction, Request, Response } from 'express';
import { fileURLToPath } from 'node:url';
import { OperatorDatabaseModule } from '../database/database.module.js';
import { OperatorController } from './operator.controller.js';
import { OperatorService } from './operator.service.js';
import { FormTokens, SameOrigin } from './same-origin.js';

/** Style sheet, script and icon: they lie beside the sources, and need no building. */
const assets = fileURLToPath(new URL('../../../src/operator/assets', import.meta.url));

/** Nothing that is not ours is loaded, framed or sent to, even if something of somebody else's got into the page. */
const POLICY = `default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';
  form-action 'self'; frame-ancestors 'none'; base-uri 'none'`.replace(/\s+/g, ' ');

function headers(_: Request, response: Response, next: NextFunction): void {
  response.setHeader('Content-Security-Policy', POLICY);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cache-Control', 'no-store');
  next();
}

@Module({
  imports: [OperatorDatabaseModule],
  controllers: [OperatorController],
  providers: [OperatorService, FormTokens, SameOrigin],
})
export class OperatorModule implements NestModule, OnModuleInit {
  constructor(private readonly host: HttpAdapterHost<ExpressAdapter>) {}

  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(headers).forRoutes('*all');
  }

  onModuleInit(): void {
    this.host.httpAdapter.useStaticAssets(assets, { index: false });
  }
}
