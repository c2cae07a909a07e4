import { readdir } from 'node:fs/promises';
import { expect, test } from 'vitest';
import {
  aController,
  aDatabase,
  adminOf,
  aFolder,
  statusOf,
} from './testing/controller-process.ts';

test('a second one warns when its ladder differs from that of the first, and names both', async () => {
  const databaseUrl = await aDatabase();
  await aController(databaseUrl, await aFolder());

  const second = await aController(databaseUrl, await aFolder(), {
    LEASEHOLD_KEY_EXPIRE_MS: '7000',
  });

  expect(second.log()).toMatch(/"ttlMs":7000.*"ttlMs":6000.*gives keys another ladder/u);
});

test('two that start at once on an empty database both get ready, and one home has the first tokens', async () => {
  const databaseUrl = await aDatabase();
  const homes = [await aFolder(), await aFolder()];

  const controllers = await Promise.all(homes.map((home) => aController(databaseUrl, home)));

  expect(await Promise.all(controllers.map((one) => statusOf(one, '/readyz')))).toEqual([200, 200]);
  // Exactly one home has the first tokens, all of them; the other controller names it.
  const files = await Promise.all(homes.map((home) => readdir(home)));
  const [winner] = homes.filter((_home, index) => files[index]?.includes('credentials.json'));
  expect(files.flat().filter((name) => name.startsWith('credentials'))).toHaveLength(1);
  const [first, loser] = winner === homes[0] ? controllers : controllers.toReversed();
  if (first === undefined || loser === undefined) throw new Error('two were started');
  const admin = await adminOf(loser, winner ?? '');
  expect((await admin.tokens.list.query({})).items).toHaveLength(6);
  expect(first.log()).toContain('first tokens written');
  expect(loser.log()).toContain(`${winner ?? ''}/credentials.json`);
  expect(loser.log()).toContain('leasehold admin create');
});
