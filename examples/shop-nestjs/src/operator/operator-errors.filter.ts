import { Catch, HttpException, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Response } from 'express';
import { notice } from './page.js';

/** An error as a page, since it is a person who reads it. */
@Catch()
export class OperatorErrors implements ExceptionFilter {
  private readonly logger = new Logger(OperatorErrors.name);

  catch(error: unknown, host: ArgumentsHost): void {
    const known = error instanceof HttpException;
    if (!known) this.logger.error(error);
    host
      .switchToHttp()
      .getResponse<Response>()
      .status(known ? error.getStatus() : 503)
      .type('html')
      .send(notice(known ? error.message : 'The database does not answer, or refuses. The log says why.').toString());
  }
}
