import { openTestStage, type FaultProxy, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { BackendState } from './keys.ts';
import { createLeasehold, type Leasehold } from './index.ts';

let stage: Stage;
let proxy: FaultProxy;
/** Sees the controller through the proxy. */
let client: Leasehold;

beforeAll(async () => {
  const idle = { command: '/bin/sleep', args: ['1000'], readiness: { type: 'none' } };
  stage = await openTestStage({ drones: [{ droneId: 'd1', programs: { idle } }] });
  proxy = await stage.front();
  client = createLeasehold({ url: proxy.url, token: stage.credentials.client });
  stage.onClose(() => client.close());
});

afterAll(() => stage.close());

test('C32 a backend is followed from connect to its end, each state once, over a broken connection', async () => {
  const connected = await client.keys.connect({
    key: { name: 'room' },
    spawn: { program: 'idle' },
  });
  const again = await client.keys.connect({ key: { name: 'room' }, spawn: { program: 'idle' } });
  expect(connected.spawned).toBe(true);
  expect(again).toMatchObject({ spawned: false, backendId: connected.backendId });

  const states: BackendState[] = [];
  for await (const state of client.backends.watch(connected.backendId)) {
    states.push(state);
    if (states.length === 2) proxy.cut();
    if (state.status === 'ready') {
      await stage.api().backends.terminate.mutate({ backendId: state.backendId, mode: 'hard' });
    }
  }

  const seen = states.map(({ status }) => status);
  expect(seen.at(0)).toBe('scheduled');
  expect(seen.at(-1)).toBe('terminated');
  expect(seen).toContain('ready');
  expect(new Set(seen).size).toBe(seen.length);
});

test('a watch ends when its loop is left, and throws the reason when it is cancelled', async () => {
  const { backendId } = await client.keys.connect({ spawn: { program: 'idle' } });
  const giveUp = new AbortController();

  for await (const { status } of client.backends.watch(backendId)) {
    if (status !== 'scheduled') break;
  }
  const cancelled = (async () => {
    for await (const { status } of client.backends.watch(backendId, { signal: giveUp.signal })) {
      if (status === 'scheduled') giveUp.abort(new Error('enough'));
    }
  })();

  await expect(cancelled).rejects.toThrow('enough');
});
