import { expect, test } from 'vitest';
import { aDrone } from '../testing/fleet-fixture.ts';
import { connect, keyNamed, openKeys, reportOf } from '../testing/keys-fixture.ts';
import { readFailingKeys } from './sql/stats-buckets.ts';

test('keys whose last backend failed are shown, the latest first, until one is ready or an hour is over', async () => {
  const on = await openKeys();
  const { general, guests } = on.store;
  const drone = await aDrone(general);
  const start = async (name: string) => (await connect(on, { key: keyNamed(name) })).backendId;
  const crash = async (name: string): Promise<string> => {
    const backendId = await start(name);
    await on.keys.report(
      reportOf(drone, backendId, 'terminated', { reason: 'exited', exitCode: 17 }),
    );
    return backendId;
  };
  const names = async () => (await readFailingKeys(guests, 10)).map(({ name }) => name);
  await crash('first');
  await crash('second');
  const last = await crash('second');
  const asked = await start('asked');
  await on.keys.report(reportOf(drone, asked, 'terminated', { reason: 'revoked' }));

  expect(await readFailingKeys(guests, 10)).toMatchObject([
    { name: 'second', failures: 2, backendId: last, reason: 'exited', exitCode: 17 },
    { name: 'first', failures: 1 },
  ]);
  expect(await readFailingKeys(guests, 1)).toHaveLength(1);

  await on.keys.report(reportOf(drone, await start('second'), 'ready', { address: '127.0.0.1:1' }));
  expect(await names()).toEqual(['first']);
  await general.$executeRaw`update key_failure set failed_at = failed_at - interval '61 minutes'`;
  expect(await names()).toEqual([]);
});
