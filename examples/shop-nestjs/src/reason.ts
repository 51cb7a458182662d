import { z } from 'zod';

/** An error as a reason to store: never empty, and without the one character that PostgreSQL cannot hold. */
export function reasonOf(error: unknown): string {
  const text =
    error instanceof z.ZodError ? z.prettifyError(error) : error instanceof Error ? error.message : String(error);
  return text.replaceAll('\0', '') || 'unknown';
}
