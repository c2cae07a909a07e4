import { focusManager, onlineManager, QueryObserver } from '@tanstack/react-query';
import { afterEach, expect, test, vi } from 'vitest';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { pause } from '~/lib/live/live-state.ts';
import { setHere } from '~/lib/routes.ts';
import type { ApiClient } from './api.ts';
import { createQueryClient } from './query-client.ts';

afterEach(() => {
  setHere('');
  vi.unstubAllGlobals();
});

test('the clock of another datacenter, where a key was read, does not move that of this page', async () => {
  vi.stubGlobal('window', {});
  setHere('dc1');
  const answers = [
    { datacenter: 'dc2', asOf: '2040-01-01T00:00:00.000Z' },
    { datacenter: 'dc1', asOf: '2026-11-30T12:00:00.000Z' },
  ];
  const api = { query: () => Promise.resolve(answers.shift()) } as Pick<
    ApiClient,
    'query'
  > as ApiClient;
  const client = createQueryClient(api);
  const read = (name: string) =>
    client.query({ queryKey: ['keys', 'get', { name }], staleTime: 0 });

  await read('far');
  expect(databaseClock.nowMs()).toBeNull();
  await read('near');
  expect(new Date(databaseClock.nowMs() ?? 0).getUTCFullYear()).toBe(2026);
  client.clear();
});

const returns = [
  {
    what: 'the focus',
    leave: () => focusManager.setFocused(false),
    back: () => focusManager.setFocused(true),
  },
  {
    what: 'the network',
    leave: () => onlineManager.setOnline(false),
    back: () => onlineManager.setOnline(true),
  },
];

test.each(returns)(
  'a paused page is not read again when $what comes back',
  async ({ leave, back }) => {
    let reads = 0;
    const api = { query: () => Promise.resolve((reads += 1)) } as Pick<
      ApiClient,
      'query'
    > as ApiClient;
    const client = createQueryClient(api, pause);
    client.mount();
    const shown = new QueryObserver(client, { queryKey: ['keys', 'list', {}], staleTime: 0 });
    const read = async (): Promise<number> => {
      leave();
      back();
      // What was begun by then has been answered.
      await client.getQueryCache().find({ queryKey: ['keys', 'list', {}] })?.promise;
      return reads;
    };
    const end = shown.subscribe(() => undefined);
    try {
      await expect.poll(() => shown.getCurrentResult().isSuccess).toBe(true);
      const resume = pause.hold();
      expect(await read()).toBe(1);
      resume();
      expect(await read()).toBe(2);
    } finally {
      end();
      client.unmount();
      client.clear();
    }
  },
);
