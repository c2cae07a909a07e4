import { AsyncLocalStorage } from 'node:async_hooks';
import pg from 'pg';
import { onTestFinished, vi } from 'vitest';

/**
 * What no call waits for: subscribing to hints, hints to others, and the beat of the witness. And what a connection
 * sends once, when it is new.
 */
const BESIDE = ['listen ', 'pg_notify', 'update database_witness', 'transaction_timeout'];

const send = Reflect.get(pg.Client.prototype, 'query') as (...given: unknown[]) => unknown;

/**
 * The statements that some code sends, each of which is a round trip, by whatever connection of this process. Those of
 * timers that ran before are of other code.
 */
export function watchStatements(): {
  /** Runs the code. */
  within<Result>(code: () => Result): Result;
  /** What it has sent. */
  readonly texts: readonly string[];
} {
  const watched = new AsyncLocalStorage<true>();
  const texts: string[] = [];
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (
    this: pg.Client,
    ...given: unknown[]
  ) {
    const text = textOf(given[0]);
    const isBeside = BESIDE.some((part) => text.includes(part));
    if (watched.getStore() === true && !isBeside) texts.push(text);
    return Reflect.apply(send, this, given) as never;
  });
  onTestFinished(() => spy.mockRestore());
  return { within: (code) => watched.run(true, code), texts };
}

function textOf(query: unknown): string {
  if (typeof query === 'string') return query;
  return String((query as { readonly text?: string }).text);
}
