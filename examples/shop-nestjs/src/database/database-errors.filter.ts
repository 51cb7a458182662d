import {
  Catch,
  ConflictException,
  HttpException,
  InternalServerErrorException,
  Logger,
  ServiceUnavailableException,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import type { Response } from 'express';
import { SqlState, sqlState } from 'hfs-lite';
import { DatabaseError } from 'pg';
import { QueryFailedError } from 'typeorm';

/** SQLSTATEs, and classes of them, after which the same request may well succeed. */
const PASSING = [
  '40001', // PostgreSQL's own: a newer snapshot was needed
  '40P01', // a deadlock
  '55P03', // lock_timeout: somebody is at the same request
  '57014', // statement_timeout: it took too long
  '53', // no more memory, disk space or connections
];

/** What node-postgres says where it has no connection to give, in no other way than this. */
const NO_CONNECTION = /^(timeout exceeded when trying to connect|Connection terminated)/;

/** What came of a request that the database did not carry out, in HTTP. Other errors are answered as Nest does. */
@Catch()
export class DatabaseErrors implements ExceptionFilter {
  private readonly logger = new Logger(DatabaseErrors.name);

  catch(error: unknown, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<Response>();
    const answer = this.answer(error);
    if (answer.getStatus() === 503) response.setHeader('Retry-After', '1');
    response.status(answer.getStatus()).json(answer.getResponse());
  }

  private answer(error: unknown): HttpException {
    if (error instanceof HttpException) return error;
    if (sqlState(error) === SqlState.idempotencyKeyReused) {
      return new ConflictException('this Idempotency-Key was used with another request');
    }
    this.logger.error(error);
    return isPassing(error) ? new ServiceUnavailableException('try again') : new InternalServerErrorException();
  }
}

function isPassing(error: unknown): boolean {
  const cause = error instanceof QueryFailedError ? error.driverError : error;
  // The server let nobody in, or ended the connection.
  if (cause instanceof DatabaseError && cause.severity === 'FATAL') return true;
  const state = sqlState(error);
  if (state !== undefined) return PASSING.some((prefix) => state.startsWith(prefix));
  // Without one, the connection was lost in the middle of a query, or there was none to be had.
  if (error instanceof QueryFailedError) return true;
  const { syscall, message } = cause as NodeJS.ErrnoException;
  return syscall === 'connect' || NO_CONNECTION.test(message);
}
