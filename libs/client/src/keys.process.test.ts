import { openTestStage } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import type { BackendState } from './keys.ts';
import { createLeasehold, type Leasehold } from './leasehold.ts';

/** A client that sees the controller through a proxy, and a drone that offers `idle`. */
async function aFleet() {
  const idle = { command: '/bin/sleep', args: ['1000'], readiness: { type: 'none' } };
  const stage = await openTestStage({ drones: [{ droneId: 'd1', programs: { idle } }] });
  onTestFinished(() => stage.close());
  const proxy = await stage.front();
  const admin = aClient(stage.url, stage.credentials.admin);
  return { admin, proxy, client: aClient(proxy.url, stage.credentials.client) };
}

function aClient(url: string, token: string): Leasehold {
  const client = createLeasehold({ url, token });
  onTestFinished(() => client.close());
  return client;
}

test('C32 a backend is followed from connect to its end, each state once, over a broken connection', async () => {
  const { admin, proxy, client } = await aFleet();
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
      await admin.api.backends.terminate.mutate({ backendId: state.backendId, mode: 'hard' });
    }
  }

  const seen = states.map(({ status }) => status);
  expect(seen.at(0)).toBe('scheduled');
  expect(seen.at(-1)).toBe('terminated');
  expect(seen).toContain('ready');
  expect(new Set(seen).size).toBe(seen.length);
});

test('a watch ends when its loop is left, and throws the reason when it is cancelled', async () => {
  const { client } = await aFleet();
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
