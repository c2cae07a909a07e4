/** How errors are printed: two lines, and nothing of what a connection is made of. */
import type { AppRouter } from '@leasehold/api';
import { ERROR_CODES } from '@leasehold/keys-core';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import { tap } from '@trpc/server/observable';
import { leaseholdErrorOf } from './client-errors.ts';

/** Node prints an object by the method of this name. */
export const INSPECT = Symbol.for('nodejs.util.inspect.custom');

const ASKED_URL = Symbol('asked url');

interface Printed {
  readonly name: string;
  readonly message: string;
  readonly code: string;
  readonly url: string | null;
  readonly hint: string | null;
}

/**
 * `LeaseholdCallError: A valid token is required. (auth.required)`, and in a second line the address and
 * what to do.
 */
export function shownError({ name, message, code, url, hint }: Printed): string {
  const [first = '', ...rest] = message.split('\n');
  const where = rest.length > 0 ? rest.join('; ') : url;
  const second = [where, hint].filter((part) => part !== null).join('. ');
  return `${name}: ${first} (${code})${second === '' ? '' : `\n    ${second}`}`;
}

/** The controllers that a failed call had asked; null for other errors. */
export function askedUrlOf(error: unknown): string | null {
  if (!(error instanceof TRPCClientError) || !(ASKED_URL in error)) return null;
  return String(error[ASKED_URL]);
}

/** Adds the address to errors of calls, and makes them print in two lines. */
export function shownErrorsLink(urls: readonly string[]): TRPCLink<AppRouter> {
  const url = urls.join(', ');
  return () =>
    ({ op, next }) =>
      next(op).pipe(
        tap({
          error(error) {
            Object.defineProperty(error, ASKED_URL, { value: url });
            Object.defineProperty(error, INSPECT, { value: () => shownCallError(error, url) });
          },
        }),
      );
}

function shownCallError(error: TRPCClientError<AppRouter>, url: string): string {
  const { name } = error;
  const known = leaseholdErrorOf(error);
  if (known === undefined) {
    const [first = ''] = error.message.split('\n', 1);
    return shownError({ name, message: first, code: 'request.unreachable', url, hint: null });
  }
  const { code, message } = known;
  const hint = (ERROR_CODES[code] as { doc: string } | undefined)?.doc ?? null;
  return shownError({ name, message, code, url, hint });
}
