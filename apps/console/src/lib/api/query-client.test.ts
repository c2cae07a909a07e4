import { focusManager, onlineManager, QueryObserver } from '@tanstack/react-query';
import { expect, test } from 'vitest';
import { pause } from '~/lib/live/live-state.ts';
import type { ApiClient } from './api.ts';
import { createQueryClient } from './query-client.ts';

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
