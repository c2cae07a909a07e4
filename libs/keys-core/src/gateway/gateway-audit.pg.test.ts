import { expect, test } from 'vitest';
import { BY, openKernel, UNAUDITED } from '../testing/kernel-fixture.ts';
import { createGatewayService } from './index.ts';

async function openGateway() {
  const { store } = await openKernel();
  const connect = () => Promise.reject(new Error('no key is connected to here'));
  return { store, gateway: createGatewayService({ store, connect }) };
}

const KEY = { namespace: 'team', name: 'demo', tag: '' };

test('tokens are as before when a revocation or a rotation cannot be audited', async () => {
  const { store, gateway } = await openGateway();
  const access = { user: 'ada', expiresInSeconds: 60 };
  const { token } = await gateway.sign({ key: KEY, access });
  const revocation = { namespace: '', user: 'ada', reason: 'why' };

  await expect(gateway.rotate({ now: true, reason: 'why' }, UNAUDITED)).rejects.toThrow();
  await expect(gateway.revoke(revocation, UNAUDITED)).rejects.toThrow();

  expect(await gateway.read(token)).toMatchObject({ key: KEY });
  expect(await store.general.$queryRaw`select action from audit`).toEqual([]);
});

test('a rotation is audited, and a revocation once, also if it is repeated for other datacenters', async () => {
  const { store, gateway } = await openGateway();
  const revocation = { namespace: 'team', name: 'demo', reason: 'left' };

  const { kid } = await gateway.rotate({ now: false, reason: 'why' }, BY);
  await gateway.revoke(revocation, BY);
  await gateway.revoke(revocation, BY, true);

  expect(await store.general.$queryRaw`select * from audit order by id`).toMatchObject([
    { ...BY, action: 'gateway.rotate', resource: `gateway-key:${kid}`, reason: 'why' },
    { ...BY, action: 'gateway.revoke', resource: 'key:team/demo', reason: 'left' },
  ]);
});
