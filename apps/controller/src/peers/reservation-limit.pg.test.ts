import { randomUUID } from 'node:crypto';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import { expect, onTestFinished, test } from 'vitest';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';

const LIMITED = { limits: { reservationsPerHour: 2 } };

/** Each test has a namespace of its own. */
let on: TestController;

shareTestController((shared) => {
  on = shared;
});

/** A client whose token may reserve two keys in an hour. */
async function limitedClient(at: TestController): Promise<{ tokenId: string; api: ControllerApi }> {
  const { tokenId, secret } = await at.token('client', LIMITED);
  const client = createControllerClient({ url: at.url, token: secret, transport: 'http' });
  onTestFinished(() => client.close());
  return { tokenId, api: client.api };
}

/** Reserves keys of a namespace that is new. */
function reserving(): {
  readonly namespace: string;
  readonly reserve: (api: ControllerApi, name: string) => Promise<{ outcome: string }>;
} {
  const namespace = randomUUID();
  return {
    namespace,
    reserve: (api, name) => api.reservations.reserve.mutate({ key: [namespace, name] }),
  };
}

function failing(leaseholdCode: string, details: object = {}): object {
  return { data: { leaseholdCode, details } };
}

const REFUSAL = failing('request.rate_limited', { limit: 'reservationsPerHour', max: 2 });

test('a token reserves as many keys as it may in an hour, and a connect counts too', async () => {
  const { namespace, reserve } = reserving();
  const { api, tokenId } = await limitedClient(on);
  await reserve(api, 'one');
  await startTestDrone(on);
  // No drone offers it: nothing is reserved, and nothing counts.
  await expect(
    api.keys.connect.mutate({ key: { name: 'two', namespace }, spawn: { program: 'unknown' } }),
  ).rejects.toMatchObject(failing('spawn.no_drone'));
  await api.keys.connect.mutate({ key: { name: 'two', namespace }, spawn: { program: 'room' } });

  await expect(reserve(api, 'three')).rejects.toMatchObject(REFUSAL);
  await expect(
    api.keys.connect.mutate({ key: { name: 'three', namespace }, spawn: { program: 'room' } }),
  ).rejects.toMatchObject(REFUSAL);

  const admin = await on.client('admin');
  const resolved = await admin.reservations.resolve.query({ key: [namespace, 'three'] });
  expect(resolved).toEqual({ outcome: 'not_found' });
  const { fairUse } = await admin.tokens.get.query({ tokenId });
  const shown = { limit: 'reservationsPerHour', max: 2, used: 2, isOwn: true };
  expect(fairUse).toContainEqual(shown);
});

test('a token at its limit reaches every reserved key, also one that this controller never saw', async () => {
  const { reserve } = reserving();
  const { api } = await limitedClient(on);
  await reserve(api, 'one');
  await reserve(api, 'two');
  const { databaseUrl } = on;
  const second = await startTestController({ databaseUrl });
  const { api: other } = await limitedClient(second);
  const admin = await second.client('admin');
  await reserve(admin, 'three');

  // Existing reservations do not count towards the limit, at a controller that must query them.
  expect((await reserve(other, 'one')).outcome).toBe('existing');
  expect((await reserve(other, 'two')).outcome).toBe('existing');
  await reserve(other, 'four');
  await reserve(other, 'five');

  expect((await reserve(api, 'three')).outcome).toBe('existing');
  await expect(reserve(api, 'six')).rejects.toMatchObject(REFUSAL);
});
