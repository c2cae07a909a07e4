/** Holders that block while their time runs out, and another process takes what they hold. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { openTestStage, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createLeasehold, type Leasehold } from './index.ts';
import { failureOf } from './testing/outcomes.ts';

const CLIENT = path.join(import.meta.dirname, 'index.ts');
const FROM_SOURCES = ['--conditions=@leasehold/source', '--import', 'tsx'];
const TTL_MS = 1_500;

let stage: Stage;
beforeAll(async () => {
  stage = await openTestStage();
});
afterAll(() => stage.close());

/** Waits for what somebody else holds, and ends without giving it back. */
const TAKER = `
import { createLeasehold } from ${JSON.stringify(CLIENT)};
const leasehold = createLeasehold({ url: process.env.URL, token: process.env.TOKEN, holder: 'taker' });
const wait = { waitMs: 60_000 };
const [face, key] = process.argv.slice(1);
if (face === 'lease') await leasehold.defineLease(['blocked'], { ttlMs: 60_000 }).acquire(key, wait);
else await leasehold.environments.acquire(['blocked', key], { action: 'take', durationMs: 60_000, ...wait });
process.exit(0);
`;

/** Returns when another process has taken it. No turn of this process's event loop passes meanwhile. */
function blockUntilTaken(face: 'lease' | 'environment', key: string): string {
  const args = [...FROM_SOURCES, '--input-type=module', '--eval', TAKER, face, key];
  const env = { ...process.env, URL: stage.url, TOKEN: stage.credentials.client };
  execFileSync(process.execPath, args, { env, stdio: 'inherit' });
  return 'done';
}

type Way = (client: Leasehold, key: string) => Promise<unknown>;

const WAYS: Readonly<Record<string, Way>> = {
  run: (client, key) =>
    client
      .defineLease(['blocked'], { ttlMs: TTL_MS })
      .run(key, () => blockUntilTaken('lease', key)),
  withEnvironmentLease: (client, key) =>
    client.withEnvironmentLease(['blocked', key], {
      action: 'deploy',
      durationMs: TTL_MS,
      record: () => blockUntilTaken('environment', key),
    }),
};

describe.each(Object.entries(WAYS))('work under %s', (name, way) => {
  test.each(['ws', 'http'] as const)(
    'over %s that blocked while another process took its lease is lost, with what it returned',
    async (transport) => {
      const { client: token, operator } = stage.credentials;
      const client = createLeasehold({ url: stage.url, token, transport, holder: 'blocked' });
      const onlooker = createLeasehold({ url: stage.url, token: operator });
      onTestFinished(async () => {
        await Promise.all([client.close(), onlooker.close()]);
      });
      const key = `${name}-${transport}`;

      const failure = await failureOf(way(client, key));

      expect(failure).toMatchObject({ code: 'lease.lost', result: 'done' });
      const now =
        name === 'run'
          ? await onlooker.api.leases.get.query({ namespace: 'blocked', key })
          : await onlooker.api.environments.get.query({ environment: ['blocked', key] });
      expect(now).toMatchObject({ holder: 'taker' });
    },
  );
});
