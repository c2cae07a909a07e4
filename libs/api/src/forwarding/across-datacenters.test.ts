import { LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import { askedOf, listed } from './across-datacenters.ts';
import { type CalledContext, sendOn } from './elsewhere.ts';

interface Request {
  readonly input: Wanted;
  readonly isOneOfSeveral?: boolean;
}

/** A call of a viewer in dc1, whose peers answer so. */
function contextOf(
  peers: readonly string[],
  call: (name: string, request: Request) => Promise<unknown>,
  more: object = {},
): CalledContext {
  const datacenters = { peers, away: () => undefined, call };
  return {
    procedure: 'keys.list',
    isForwarded: false,
    rawInput: () => Promise.resolve({}),
    access: { role: 'viewer' },
    services: { datacenter: 'dc1', datacenters, now: () => Promise.resolve('') },
    ...more,
  } as unknown as CalledContext;
}

const ask = (code: ErrorCode): Promise<unknown> =>
  askedOf(
    contextOf(['dc2'], () => Promise.reject(new LeaseError(code))),
    'dc2',
    {},
  );

test.each(['store.unavailable', 'request.deadline', 'request.rate_limited'] as const)(
  'a datacenter that answers %s is reported as unreachable',
  async (code) => {
    expect(await ask(code)).toEqual({
      outcome: 'unreachable',
      unreachable: { datacenter: 'dc2', since: null, code },
    });
  },
);

test.each(['request.invalid', 'auth.forbidden'] as const)(
  'an error that the caller has caused is passed on: %s',
  async (code) => {
    await expect(ask(code)).rejects.toMatchObject({ code });
  },
);

test.each([
  ['all', true],
  ['dc2', false],
])(
  'a list of %s tells whether several datacenters are waited for',
  async (datacenter, isSeveral) => {
    const told: unknown[] = [];
    const page: Page = { items: [], nextCursor: null, asOf: '' };
    const ctx = contextOf(['dc2'], (_name, { isOneOfSeveral }) => {
      told.push(isOneOfSeveral);
      return Promise.resolve(page);
    });

    await listed<Wanted, string>(() => Promise.resolve(page))({
      ctx,
      input: { datacenter, limit: 1 },
    });

    expect(told).toEqual([isSeveral]);
  },
);

interface Wanted {
  readonly datacenter?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

interface Page {
  readonly items: string[];
  readonly nextCursor: string | null;
  readonly asOf: string;
}

describe('a search by a part of a name in all datacenters', () => {
  const NAMES = ['dc1', 'dc2', 'dc3'];
  /** Two names in each datacenter. */
  function search(answer: (name: string, page: Page) => Promise<Page>) {
    const pageOf = (name: string, { cursor, limit }: Wanted): Promise<Page> => {
      const all = [`${name}/a`, `${name}/b`].slice(Number(cursor ?? 0));
      const end = Number(cursor ?? 0) + limit;
      const page = {
        items: all.slice(0, limit),
        nextCursor: all.length > limit ? String(end) : null,
        asOf: '',
      };
      return answer(name, page);
    };
    const ctx = contextOf(NAMES.slice(1), (name, { input }) => pageOf(name, input));
    const list = listed<Wanted & { datacenter: string; contains: string }, string>(
      (_ctx, wanted: Wanted) => pageOf('dc1', wanted),
    );
    return (input: Wanted) => list({ ctx, input: { ...input, datacenter: 'all', contains: 'x' } });
  }

  test('asks all of them at the same time', async () => {
    const asked: string[] = [];
    let release: () => void = () => undefined;
    const areAllAsked = new Promise<void>((resolve) => {
      release = resolve;
    });

    const { items } = await search(async (name, page) => {
      asked.push(name);
      if (asked.length === NAMES.length) release();
      await areAllAsked;
      return page;
    })({ limit: 100 });

    expect(items).toEqual(NAMES.flatMap((name) => [`${name}/a`, `${name}/b`]));
    expect(asked.sort()).toEqual(NAMES);
  });

  test.each([1, 2, 3, 4, 5])('has each name once, %i to a page', async (limit) => {
    const page = search((_name, answer) => Promise.resolve(answer));
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const { items, nextCursor } = await page({ limit, cursor });
      expect(items.length).toBeLessThanOrEqual(limit);
      found.push(...items);
      cursor = nextCursor ?? undefined;
    } while (cursor !== undefined);

    expect(found).toEqual(NAMES.flatMap((name) => [`${name}/a`, `${name}/b`]));
  });
});

test.each([
  ['counts what it writes there', { spawn: { program: 'p' } }, 1],
  ['of a token that starts nothing writes nothing', {}, 0],
])('a handover %s', async (_what, more, times) => {
  const counted: number[] = [];
  const use = {
    startWriting: (bytes: number) => {
      counted.push(bytes);
      return () => counted.pop();
    },
  };
  const signs = { use, procedure: 'gateway.sign' };
  const answering = contextOf(['dc2'], () => Promise.resolve({ url: '' }), signs);
  const deadline = new LeaseError('request.deadline');
  const silent = contextOf(['dc2'], () => Promise.reject(deadline), signs);
  const input = { key: { namespace: 'n', name: 'k' }, ...more };
  const handOver = (ctx: CalledContext): Promise<unknown> => sendOn(ctx, 'dc2', { input });

  await handOver(answering);
  await expect(handOver(silent)).rejects.toMatchObject({ code: 'request.deadline' });

  expect(counted).toHaveLength(times);
});
