/** Holders that do not run while their time runs out, and somebody else takes what they hold. */
import path from 'node:path';
import {
  openTestStage,
  startProcess,
  waitUntil,
  type Stage,
  type TestProcess,
} from '@leasehold/testing';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createLeasehold } from './index.ts';

const CLIENT = path.join(import.meta.dirname, 'index.ts');
const FROM_SOURCES = ['--conditions=@leasehold/source', '--import', 'tsx'];
const TTL_MS = 1_500;

let stage: Stage;
beforeAll(async () => {
  stage = await openTestStage();
});
afterAll(() => stage.close());

/** Works under one lease without a pause, and prints for each act when it asked whether it may. */
const HOLDER = `
import { createLeasehold } from ${JSON.stringify(CLIENT)};
const leasehold = createLeasehold({ url: process.env.URL, token: process.env.TOKEN, holder: 'stalled' });
const lease = await leasehold.defineLease(['stall'], { ttlMs: ${String(TTL_MS)} }).acquire('k');
process.send({ type: 'ready', token: lease.fencingToken });
for (;;) {
  // Within one turn of the event loop: no timer and no packet has its turn before the check.
  for (const endsAt = performance.now() + 20; performance.now() < endsAt;);
  const askedAtMs = Number(process.hrtime.bigint() / 1_000_000n);
  try {
    lease.assertHeld();
  } catch (error) {
    console.log('stopped ' + error.reason + ' ' + lease.signal.aborted);
    break;
  }
  console.log('acted ' + askedAtMs);
  await new Promise((resolve) => setTimeout(resolve, 1));
}
console.log('released ' + (await lease.release()));
await leasehold.close();
`;

/** When each act was asked for, in milliseconds of CLOCK_MONOTONIC. */
function actsOf(holder: TestProcess): number[] {
  return [...holder.log().matchAll(/^acted (\d+)$/gmu)].map(([, askedAtMs]) => Number(askedAtMs));
}

test('C23 F1 a holder that is stopped for twice its TTL does no guarded work on waking', async () => {
  const { client: token } = stage.credentials;
  const env = { URL: stage.url, TOKEN: token };
  const args = [...FROM_SOURCES, '--input-type=module', '--eval', HOLDER];
  const holder = await startProcess({ name: 'holder', args, env });
  onTestFinished(() => holder.kill());
  await waitUntil(() => actsOf(holder).length > 10);

  holder.signal('SIGSTOP');
  const stoppedAtMs = performance.now();
  const other = createLeasehold({ url: stage.url, token });
  onTestFinished(() => other.close());
  await using next = await other
    .defineLease(['stall'], { ttlMs: TTL_MS })
    .acquire('k', { waitMs: 10_000, ttlMs: 60_000 });
  const takenAtMs = Number(process.hrtime.bigint() / 1_000_000n);
  await waitUntil(() => performance.now() - stoppedAtMs > 2 * TTL_MS);
  holder.signal('SIGCONT');

  expect(await holder.exited).toBe(0);
  // One that was stopped between its check and its act may act once: only a fencing token detects that.
  expect(actsOf(holder).filter((askedAtMs) => askedAtMs > takenAtMs)).toEqual([]);
  // A renewal may have been under way when it was stopped.
  expect(holder.log()).toMatch(/stopped (expired|unreachable) true/u);
  expect(holder.log()).toMatch(/released (expired|superseded)/u);
  expect(next.isHeld).toBe(true);
  expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(String(holder.ready['token'])));
});
