import { waitUntil } from '@leasehold/testing';
import { expect } from 'vitest';
import type { Fleet, WitnessLine } from './fleet-fixture.ts';

export type Connected = Awaited<ReturnType<ReturnType<Fleet['api']>['keys']['connect']['mutate']>>;

export interface ConnectOptions {
  readonly name?: string;
  readonly program?: string;
}

export function connect(
  fleet: Fleet,
  { name = 'room', program = 'witness' }: ConnectOptions = {},
): Promise<Connected> {
  return fleet.api().keys.connect.mutate({
    key: { name },
    spawn: { program },
    waitMs: 0,
    waitFor: 'ready',
  });
}

/** Connects as soon as the key can be had; gives up after the limit. */
export function connectWithin(fleet: Fleet, limitMs: number): Promise<Connected> {
  return waitUntil(() => connect(fleet), { what: 'a grant of the key', withinMs: limitMs });
}

/** Connects until another backend than `former` answers. */
export function anotherThan(
  fleet: Fleet,
  former: string,
  { limitMs, ...options }: ConnectOptions & { readonly limitMs: number },
): Promise<Connected> {
  return waitUntil(
    async () => {
      const connected = await connect(fleet, options);
      return connected.backendId === former ? undefined : connected;
    },
    { what: 'another backend that has the key', withinMs: limitMs },
  );
}

export function linesOf(fleet: Fleet, backendId: string): WitnessLine[] {
  return fleet.witness().filter((line) => line.backendId === backendId);
}

/** The backends of one key never overlapped, by what they wrote themselves. */
export function expectOneAtATime(fleet: Fleet, backendIds: readonly string[]): void {
  const spans = backendIds.map((backendId) => {
    const times = linesOf(fleet, backendId).map((line) => line.atMs);
    expect(times, `what ${backendId} wrote`).not.toEqual([]);
    return { first: Math.min(...times), last: Math.max(...times) };
  });
  for (const [index, span] of spans.entries()) {
    const next = spans[index + 1];
    if (next !== undefined) expect(span.last).toBeLessThanOrEqual(next.first);
  }
  const tokens = backendIds.map((backendId) =>
    BigInt(linesOf(fleet, backendId)[0]?.fencingToken ?? '0'),
  );
  expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)));
}

export function isBeating(fleet: Fleet, backendId: string): () => boolean {
  const before = linesOf(fleet, backendId).length;
  return () => linesOf(fleet, backendId).length > before;
}
