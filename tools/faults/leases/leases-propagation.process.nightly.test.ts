import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil, type TestProcess } from '@leasehold/testing';
import { FaultStage } from '../stage/stage.ts';
import type { ServiceSettings } from './stage/service.ts';
import { allWords } from './stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';

const SERVICES = ['a', 'b', 'c'] as const;
type Service = (typeof SERVICES)[number];

/** Long enough that work which stops within seconds has not stopped because of the expiry. */
const LONG_TTL_MS = 30_000;
const SHORT_TTL_MS = 2_400;
/** Of the TTL; the holder stops that much earlier. */
const GRACE_SHARE = 6;
/** How long a silence must last to count as one: many pieces of work. */
const SILENCE_MS_MIN = 500;
const STOP_MS_MAX = 1_000;

let lease: FaultStage;
let b: TestProcess;
let c: TestProcess;
beforeAll(async () => {
  lease = await FaultStage.open();
  const { url } = lease.controller();
  c = await start({ service: 'c', url });
  b = await start({ service: 'b', url, next: String(c.ready['url']) });
});
afterAll(({}, file) => lease.close(file));

function start(
  of: Omit<ServiceSettings, 'token'>,
  label = `service-${of.service}`,
): Promise<TestProcess> {
  return lease.start('service', { ...of, token: lease.token }, label);
}

/** Three processes at work: the first holds a lease and calls the second, which calls the third. */
async function threeAtWork(
  caseName: string,
  ttlMs: number,
): Promise<{
  a: TestProcess;
  front: Awaited<ReturnType<FaultStage['front']>>;
  leaseId: string;
  lastWorkMs: (service: Service) => number;
  untilSilent: () => Promise<void>;
}> {
  const front = await lease.front();
  const next = String(b.ready['url']);
  const of = { service: 'a', url: front.url, next, lease: { caseName, ttlMs } };
  const a = await start(of, `service-a-${caseName}`);
  const [held] = allWords([a], 'held');
  const lastWorkMs = (service: Service): number =>
    allWords([a, b, c], 'work').findLast(
      (word) => word.caseName === caseName && word.service === service,
    )?.atMs ?? -Infinity;
  await waitUntil(() => SERVICES.every((service) => lastWorkMs(service) > 0), {
    what: 'work of all three',
  });
  return {
    a,
    front,
    leaseId: held?.leaseId ?? '',
    lastWorkMs,
    async untilSilent() {
      const sinceMs = machineMs();
      const latestMs = (): number => Math.max(sinceMs, ...SERVICES.map(lastWorkMs));
      await waitUntil(() => machineMs() - latestMs() > SILENCE_MS_MIN, {
        what: 'the end of all work',
        timeoutMs: 2 * SHORT_TTL_MS + STOP_MS_MAX + 5_000,
      });
    },
  };
}

describe.concurrent(
  'A holds a lease and calls B, which calls C: work in all three has stopped before the deadline',
  () => {
    test('I15 C34 when the lease is revoked by force: within a second', async () => {
      const { a, leaseId, lastWorkMs, untilSilent } = await threeAtWork('revoked', LONG_TTL_MS);

      const atMs = machineMs();
      const revoking = { leaseId, mode: 'force', reason: 'the fault' } as const;
      await lease.api().leases.revoke.mutate(revoking);
      await untilSilent();

      expect(allWords([a], 'lost')).toMatchObject([{ leaseId, reason: 'revoked' }]);
      for (const service of SERVICES) {
        expect(lastWorkMs(service), `last work of ${service}`).toBeGreaterThan(atMs - STOP_MS_MAX);
        expect(lastWorkMs(service) - atMs, `work of ${service}`).toBeLessThan(STOP_MS_MAX);
      }
    });

    test('I4 when no message between A and its controller arrives: by A’s own deadline', async () => {
      const { a, front, leaseId, lastWorkMs, untilSilent } = await threeAtWork('cut', SHORT_TTL_MS);
      // It goes on for longer than its first grant, B and C with it.
      const renewedMs = machineMs() + SHORT_TTL_MS;
      await waitUntil(() => SERVICES.every((service) => lastWorkMs(service) > renewedMs), {
        what: 'work after the first grant had run out',
      });

      const atMs = machineMs();
      front.drop();
      await waitUntil(() => allWords([a], 'lost').length > 0, { what: 'the loss' });
      const deadlineMs =
        ((await lease.expiries('propagation')).get(leaseId) ?? 0) - SHORT_TTL_MS / GRACE_SHARE;
      await untilSilent();

      expect(allWords([a], 'lost')).toMatchObject([{ leaseId, reason: 'unreachable' }]);
      for (const service of SERVICES) {
        expect(lastWorkMs(service), `work of ${service} after the cut`).toBeGreaterThan(atMs);
        expect(lastWorkMs(service), `last work of ${service}`).toBeLessThan(deadlineMs);
      }
    });

    test('F4 when A is killed: B and C see the connection end', async () => {
      const { a, leaseId, lastWorkMs, untilSilent } = await threeAtWork('killed', LONG_TTL_MS);

      const atMs = machineMs();
      await a.kill();
      const deadlineMs = (await lease.expiries('propagation')).get(leaseId) ?? 0;
      await untilSilent();

      for (const service of SERVICES) {
        expect(lastWorkMs(service), `last work of ${service}`).toBeGreaterThan(atMs - STOP_MS_MAX);
        expect(lastWorkMs(service) - atMs, `work of ${service}`).toBeLessThan(STOP_MS_MAX);
        expect(lastWorkMs(service)).toBeLessThan(deadlineMs);
      }
    });

    test('F1 when A stands still with its connections open: B and C stop by their own clocks', async () => {
      const { a, leaseId, lastWorkMs, untilSilent } = await threeAtWork('stopped', SHORT_TTL_MS);

      a.signal('SIGSTOP');
      const atMs = machineMs();
      await untilSilent();
      const deadlineMs = (await lease.expiries('propagation')).get(leaseId) ?? 0;
      a.signal('SIGCONT');

      for (const service of ['b', 'c'] as const) {
        expect(lastWorkMs(service), `work of ${service} after the stop`).toBeGreaterThan(atMs);
        expect(lastWorkMs(service), `last work of ${service}`).toBeLessThan(deadlineMs);
      }
    });
  },
);
