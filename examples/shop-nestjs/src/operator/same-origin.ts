import { ForbiddenException, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Request, Response } from 'express';
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

const COOKIE = 'shop-operator';
const SAFE = new Set(['GET', 'HEAD']);

/** What a form carries, so that one knows it for a form of ours: a token that belongs to the browser's cookie. */
@Injectable()
export class FormTokens {
  private readonly secret = randomBytes(32);

  /** The token for the forms of an answer; the browser gets its cookie with it, if it has none. */
  issue(request: Request, response: Response): string {
    let cookie = cookieOf(request);
    if (!cookie) {
      cookie = randomBytes(16).toString('hex');
      response.cookie(COOKIE, cookie, { httpOnly: true, sameSite: 'strict' });
    }
    return this.sign(cookie);
  }

  belongs(token: unknown, request: Request): boolean {
    const cookie = cookieOf(request);
    if (!cookie || typeof token !== 'string') return false;
    const expected = Buffer.from(this.sign(cookie));
    const given = Buffer.from(token);
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  private sign(cookie: string): string {
    return createHmac('sha256', this.secret).update(cookie).digest('hex');
  }
}

const cookieOf = (request: Request): string | undefined =>
  new RegExp(`(?:^|; )${COOKIE}=([0-9a-f]{32})(?:;|$)`).exec(request.get('Cookie') ?? '')?.[1];

/**
 * Lets nothing be done from another page than ours. There is no login, since nobody but this machine reaches the page;
 * but any page that somebody on this machine looks at could send a form here.
 */
@Injectable()
export class SameOrigin implements CanActivate {
  constructor(private readonly tokens: FormTokens) {}

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<Request>();
    // A name of somebody else's that leads here (DNS rebinding) would make their page one of the same origin.
    if (!['127.0.0.1', 'localhost'].includes(request.hostname)) throw new ForbiddenException('This is not that host.');
    if (SAFE.has(request.method)) return true;
    const { token } = (request.body ?? {}) as { token?: unknown };
    if (request.get('Sec-Fetch-Site') === 'cross-site' || !this.tokens.belongs(token, request)) {
      throw new ForbiddenException('This form is not of this page, or of one that is too old. Nothing was done.');
    }
    return true;
  }
}
