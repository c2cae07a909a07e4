import type { LogPage } from '@leasehold/keys-core';
import { expect, test } from 'vitest';
import { appRouter } from './app-router.ts';
import type { ApiContext, ApiServices, CallerUse } from './context.ts';

/** What a look at the output of a backend does: it asks the database in its turn, and then waits for its drone. */
type ReadLog = ApiServices['fleet']['readLog'];

/** Follows the output of a backend that has a page more whenever it is asked. */
function follow(options: {
  readonly whenRead?: () => Promise<void>;
  readonly read?: CallerUse['read'];
  readonly drone?: () => Promise<void>;
}) {
  const looks: number[] = [];
  const readLog: ReadLog = async ({ backendId, from = 0 }, _limits, { inTurn }) => {
    await inTurn?.(() => Promise.resolve());
    looks.push(from);
    await options.drone?.();
    const page: LogPage = {
      backendId,
      from,
      lines: [{ at: '2026-11-27T12:00:00.000Z', stream: 'stdout', text: 'a line' }],
      position: from + 1,
      hasMore: true,
      isThere: true,
      hasEnded: from === 2,
    };
    return page;
  };
  const { signal } = new AbortController();
  const ctx = {
    access: { principal: 'p', name: 'a viewer', role: 'viewer', namespaces: null, droneId: null },
    services: { datacenter: 'here', fleet: { readLog } },
    signal,
    life: { signal, whenRead: options.whenRead },
    use: {
      openStream: () => () => undefined,
      read: options.read ?? ((run: () => unknown) => run()),
    },
    source: null,
    isForwarded: false,
  } as unknown as ApiContext;
  const pages = appRouter.createCaller(ctx).backends.followLogs({ backendId: 'b' });
  return { looks, pages };
}

test('who follows the output of a backend gets the next page once the one before was read', async () => {
  let letGo = (): void => undefined;
  let asked = 0;
  const whenRead = (): Promise<void> => {
    asked += 1;
    return asked === 1 ? Promise.resolve() : new Promise((resolve) => (letGo = resolve));
  };
  const { looks, pages } = follow({ whenRead });
  const stream = (await pages)[Symbol.asyncIterator]();

  await stream.next();
  const second = stream.next();
  await new Promise(setImmediate);
  const looksBefore = [...looks];
  letGo();
  await second;

  expect([looksBefore, looks]).toEqual([[0], [0, 1]]);
});

test('who follows the output of a backend reads in its turn in the background, and waits for the drone in none', async () => {
  const kinds: unknown[] = [];
  let readCount = 0;
  const readsMeanwhile: number[] = [];
  const { pages } = follow({
    read: async (run, kind) => {
      kinds.push(kind);
      readCount += 1;
      const answer = await run();
      readCount -= 1;
      return answer;
    },
    drone: () => {
      readsMeanwhile.push(readCount);
      return Promise.resolve();
    },
  });

  const seen: unknown[] = [];
  for await (const page of await pages) seen.push(page);

  expect(seen).toHaveLength(3);
  expect(kinds).toEqual(['background', 'background', 'background']);
  expect(readsMeanwhile).toEqual([0, 0, 0]);
});
