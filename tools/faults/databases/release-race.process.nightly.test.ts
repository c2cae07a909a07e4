import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ControllerApi } from '@leasehold/client';
import { repetitions } from '@leasehold/testing';
import { FaultStage } from '../stage/stage.ts';

const RACE_COUNT = repetitions({ short: 400, long: 4_000 });
const AT_ONCE = 16;
const RENEWAL_COUNT = 3;
const TTL_MS = 60_000;
const NAMESPACE = 'race';
/** Renewals are sent up to so long before or after the release. */
const SPREAD_MS = 4;

/** What each side of a race was told, and who had the lease next. */
interface Race {
  readonly released: string;
  readonly renewals: readonly string[];
  readonly former: string;
  readonly next: string;
  /** What a renewal with the former grant was told after that. */
  readonly late: string;
}

let lease: FaultStage;
let apis: ControllerApi[];
beforeAll(async () => {
  lease = await FaultStage.open({ controllers: 2 });
  apis = lease.controllers.map(({ url }) => lease.api('admin', url));
});
afterAll(async ({}, file) => {
  await lease.close(file);
});

function anyApi(): ControllerApi {
  return apis[randomInt(apis.length)] as ControllerApi;
}

async function acquire(key: string): Promise<{ leaseId: string; fencingToken: string }> {
  const answer = await anyApi().leases.acquire.mutate({
    ...{ namespace: [NAMESPACE], key, ttlMs: TTL_MS, holder: 'racer', localTimeMs: 0 },
  });
  if (answer.outcome !== 'granted') throw new Error(`${key} is not free after its release`);
  return answer.lease;
}

async function renew(leaseId: string, fencingToken: string): Promise<string> {
  const { results } = await anyApi().leases.heartbeat.mutate({
    localTimeMs: 0,
    renewals: [{ leaseId, fencingToken }],
  });
  const [result] = results;
  if (result === undefined) throw new Error('a renewal has one answer');
  return result.outcome === 'refused' ? result.reason : result.outcome;
}

async function race(key: string): Promise<Race> {
  const { leaseId, fencingToken: former } = await acquire(key);
  const renewing = Array.from({ length: RENEWAL_COUNT }, async () => {
    await pause(randomInt(SPREAD_MS));
    return renew(leaseId, former);
  });
  await pause(randomInt(SPREAD_MS));
  const { outcome: released } = await anyApi().leases.release.mutate({
    leaseId,
    fencingToken: former,
  });
  // Its release was acknowledged: it is free at once, whatever the renewals come to.
  const { fencingToken: next } = await acquire(key);
  const renewals = await Promise.all(renewing);
  return { released, renewals, former, next, late: await renew(leaseId, former) };
}

test(`F16 of ${String(RACE_COUNT)} releases that race renewals each is acknowledged and frees its lease at once; a renewal is answered renewed or released, and never renewed after the release`, async () => {
  const races: Race[] = [];
  const runs = Array.from({ length: AT_ONCE }, async (_, run) => {
    for (let index = run; index < RACE_COUNT; index += AT_ONCE) {
      races.push(await race(String(index)));
    }
  });
  await Promise.all(runs);

  const renewals = races.flatMap((one) => one.renewals);
  const renewedCount = renewals.filter((outcome) => outcome === 'renewed').length;
  console.log(
    `${String(RACE_COUNT)} releases against ${String(renewals.length)} renewals, of which ${String(renewedCount)} came first`,
  );
  expect(new Set(races.map(({ released }) => released))).toEqual(new Set(['released']));
  expect(new Set(renewals), 'both orders happened, and nothing else').toEqual(
    new Set(['renewed', 'released']),
  );
  expect(new Set(races.map(({ late }) => late))).toEqual(new Set(['released']));
  for (const { former, next } of races) expect(BigInt(next)).toBeGreaterThan(BigInt(former));
  expect((await lease.held(NAMESPACE)).size, 'held by the next ones alone').toBe(RACE_COUNT);
  // What happened, in order: no former grant has anything after its release.
  const facts = await lease.facts(NAMESPACE);
  const stories = new Map<string, string[]>();
  for (const { key, kind } of facts) stories.set(key, [...(stories.get(key) ?? []), kind]);
  expect(new Set([...stories.values()].map((kinds) => kinds.join(', ')))).toEqual(
    new Set(['granted, released, granted']),
  );
});
