/** A client that is closed keeps nothing open: what a script has to do is over, and so is its process. */
import path from 'node:path';
import { openTestStage, startProcess, waitUntil, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createLeasehold, type Leasehold } from './index.ts';

const CLIENT = path.join(import.meta.dirname, 'index.ts');
const FROM_SOURCES = ['--conditions=@leasehold/source', '--import', 'tsx'];

/**
 * Closes its client while it waits for a lease that another holds, and has nothing else to do then. It would
 * wait for longer than the test does.
 */
const SCRIPT = `
import { createLeasehold } from ${JSON.stringify(CLIENT)};
const { URL: url, TOKEN: token, TRANSPORT: transport } = process.env;
const leasehold = createLeasehold({ url, token, transport });
const acquiring = leasehold.defineLease(['closing']).acquire('k', { waitMs: 3_600_000 });
acquiring.catch((error) => console.log('refused ' + error.code));
process.once('SIGUSR2', () => void leasehold.close());
process.send({ type: 'ready' });
`;

let stage: Stage;
beforeAll(async () => {
  stage = await openTestStage();
});
afterAll(() => stage.close());

test.each(['ws', 'http'])(
  'a script that closes its client while it waits for a lease ends by itself, over %s',
  async (transport) => {
    const { client: token, operator } = stage.credentials;
    const [holder, onlooker] = [token, operator].map((secret) =>
      createLeasehold({ url: stage.url, token: secret }),
    ) as [Leasehold, Leasehold];
    onTestFinished(async () => {
      await Promise.all([holder.close(), onlooker.close()]);
    });
    await using lease = await holder.defineLease(['closing']).acquire('k');
    const args = [...FROM_SOURCES, '--input-type=module', '--eval', SCRIPT];
    const env = { URL: stage.url, TOKEN: token, TRANSPORT: transport };
    const script = await startProcess({ name: 'script', args, env });
    onTestFinished(() => script.kill());
    await waitUntil(async () => {
      const { items } = await onlooker.api.leases.waiters.query({
        namespace: 'closing',
        key: 'k',
      });
      return items.length === 1;
    });

    script.signal('SIGUSR2');

    expect(await script.exited).toBe(0);
    expect(script.log()).toContain('refused client.closed');
    expect(lease.isHeld).toBe(true);
  },
);
