import { expect } from 'vitest';
import type { Fleet, WitnessLine } from './fleet-fixture.ts';
import { until } from './wait.ts';

export type Connected = Awaited<ReturnType<Fleet['client']['api']['keys']['connect']['mutate']>>;

export interface ConnectOptions {
  readonly name?: string;
  readonly program?: string;
}

export function connect(
  fleet: Fleet,
  { name = 'room', program = 'witness' }: ConnectOptions = {},
): Promise<Connected> {
  return fleet.client.api.keys.connect.mutate({
    key: { name },
    spawn: { program },
    waitMs: 0,
    waitFor: 'ready',
  });
}

export async function untilOnline(fleet: Fleet): Promise<void> {
  await until(
    'the drone is online',
    async () => {
      const { items } = await fleet.client.api.drones.list.query({});
      return items.some((drone) => drone.status === 'ready');
    },
    40_000,
  );
}

/** Connects as soon as the key can be had; gives up after the limit. */
export async function connectWithin(fleet: Fleet, limitMs: number): Promise<Connected> {
  let result: Connected | undefined;
  await until(
    'the key is granted again',
    async () => {
      result = await connect(fleet).catch(() => undefined);
      return result !== undefined;
    },
    limitMs,
  );
  if (result === undefined) throw new Error('not connected');
  return result;
}

/** Connects until another backend than `former` answers. */
export async function anotherThan(
  fleet: Fleet,
  former: string,
  { limitMs, ...options }: ConnectOptions & { readonly limitMs: number },
): Promise<Connected> {
  let connected: Connected | undefined;
  await until(
    'another backend has the key',
    async () => {
      connected = await connect(fleet, options).catch(() => undefined);
      return connected !== undefined && connected.backendId !== former;
    },
    limitMs,
  );
  if (connected === undefined) throw new Error('not connected');
  return connected;
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
