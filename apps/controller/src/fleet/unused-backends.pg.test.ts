import { expect, test } from 'vitest';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { waitUntil } from '@leasehold/testing';
import { metric } from '../testing/metric.ts';
import { startTestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';

test('a controller stops a backend that nobody uses, and shows why it ended', async () => {
  const on = await startTestController({ ladder: KEY_LADDERS.standard });
  const drone = await startTestDrone(on);
  const [client, viewer] = [await on.client('client'), await on.client('viewer')];
  const ready = async (name: string, idleStopSeconds: number): Promise<string> => {
    const spawn = { program: 'room', idleStopSeconds };
    const { backendId } = await client.keys.connect.mutate({ key: { name }, spawn });
    await drone.report({ backendId, status: 'ready', address: '127.0.0.1:5000' });
    return backendId;
  };
  // It is not stopped before it is looked at.
  const running = await viewer.backends.get.query({ backendId: await ready('long', 3_600) });
  expect(running).toMatchObject({ idleStopSeconds: 3_600, reason: null });
  expect(Date.parse(running.idleStopAt ?? '')).toBe(Date.parse(running.statusAt) + 3_600_000);

  const backendId = await ready('demo', 1);
  const stop = await waitUntil(() => drone.messages.find(({ kind }) => kind === 'terminate'));
  expect(stop).toMatchObject({ backendId, mode: 'soft' });
  await drone.report({ backendId, status: 'terminated', reason: 'external' });

  const ended = await viewer.backends.get.query({ backendId });
  expect(ended).toMatchObject({ status: 'terminated', reason: 'idle', idleStopAt: null });
  const key = await viewer.keys.get.query({ name: 'demo' });
  expect(key).toMatchObject({ phase: 'free', backendEnd: { reason: 'idle', hasFailed: false } });
  expect(await metric(on, 'leasehold_backend_idle_stops_total')).toBe(1);
});
