import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { leaseholdErrorOf } from '@leasehold/client';
import { createDatabase } from '@leasehold/keys-core/postgres';
import { waitUntil, type TestProcess } from '@leasehold/testing';
import type { HolderSettings } from '../leases/stage/holder.ts';
import { holdsOf, overlapsOf } from '../leases/stage/holds.ts';
import { allWords, type Grant } from '../leases/stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';
import { type Answer, FaultStage } from '../stage/stage.ts';
import { expectSound, expectUnharmed } from '../stage/verdict.ts';
import { Connecting } from './stage/connecting.ts';
import { missing, tokensThatDidNotGrow } from './stage/judge-load.ts';
import { Load } from './stage/load.ts';
import { startPatroni, type PatroniCluster } from './stage/patroni.ts';

/** Of docs/operate/failover.md: after another node is the primary. */
const BACK_MS_MAX = 10_000;
const EXPIRE_MS = 32_000;
/** Soft comes later than any failover on a busy machine. */
const LADDER = {
  LEASEHOLD_KEY_RENEW_MS: '2500',
  LEASEHOLD_KEY_SOFT_MS: '24000',
  LEASEHOLD_KEY_HARD_MS: '27000',
  LEASEHOLD_KEY_EXPIRE_MS: String(EXPIRE_MS),
};
/** A lease that is renewed is lost no sooner than half of this later: longer than a failover takes. */
const LONG_TTL_MS = 36_000;
/** Of a lease whose loss is waited for: with the time that a hold-off takes then. */
const TTL_MS = 20_000;
const HOUR_MS = 3_600_000;
const TEST_MS_MAX = 300_000;
const GRANTS_MIN = 100;
const HELD_PER_PROCESS = 5;

let cluster: PatroniCluster;
beforeAll(async () => {
  cluster = await startPatroni();
}, TEST_MS_MAX);
afterAll(() => cluster.close());

let lease: FaultStage | undefined;
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.log(cluster.log());
  await lease?.close(task.file);
  lease = undefined;
});

/** Two controllers on a database of their own. */
async function openStage(name: string, env: Readonly<Record<string, string>>): Promise<FaultStage> {
  const databaseUrl = cluster.url(name);
  await createDatabase(databaseUrl);
  lease = await FaultStage.open({ databaseUrl, controllers: 2, env });
  return lease;
}

/** A process that holds leases with the client library, until it is asked to end. */
async function startHolder(
  on: FaultStage,
  of: { name: string; url: string; keys: readonly string[]; ttlMs: number },
): Promise<TestProcess> {
  const { name, url, keys, ttlMs } = of;
  const tasks = keys.map((key) => ({ url, key, ttlMs }));
  const settings = { token: on.token, namespace: 'held', tasks } satisfies HolderSettings;
  const holder = await on.start('holder', settings, name);
  await waitUntil(() => allWords([holder], 'held').length === keys.length, {
    what: `the leases of ${name}`,
  });
  return holder;
}

function keysOf(name: string): string[] {
  return Array.from({ length: HELD_PER_PROCESS }, (_, index) => `${name}-${String(index)}`);
}

describe('a primary that is killed, and Patroni', () => {
  test(
    'F20b C17 promotes a synchronous standby: nothing acknowledged is lost, every holder goes on, and tokens grow',
    async () => {
      await cluster.untilWhole({ isSynchronous: true });
      const on = await openStage('synchronous', LADDER);
      const stage = on;
      const urls = stage.controllers.map(({ url }) => url);
      await stage.startDrone({
        droneId: 'd-1',
        programs: { one: 'stubborn' },
        controllerUrls: urls,
      });
      const backend = await stage.connect('room', 'one');
      const { pids } = await stage.untilHeard(backend);
      await stage.untilRenewed(backend);
      const holders = await Promise.all(
        urls.map((url, index) => {
          const name = `holder-${String(index)}`;
          return startHolder(on, { name, url, keys: keysOf(name), ttlMs: LONG_TTL_MS });
        }),
      );
      const apis = urls.map((url) => stage.api('admin', url));
      const load = new Load(apis, LONG_TTL_MS);
      const connecting = new Connecting(apis, { program: 'one', keys: ['room', 'hall'] });
      const hall = await untilConnected(connecting, 'hall');
      await waitUntil(() => load.released.length >= GRANTS_MIN, { what: 'a hundred grants' });

      const former = await cluster.primary();
      const atMs = machineMs();
      await cluster.kill(former);
      const held = allWords(holders, 'held');
      await cluster.primary();
      const promotedAtMs = machineMs();
      const again = await waitUntil(() => on.held('held'), {
        what: 'a primary that answers',
        timeoutMs: TEST_MS_MAX,
      });
      // By what the database recorded: it may have been seen later.
      const backAtMs = await waitUntil(
        () =>
          stage.recorder
            .promises(backend.leaseId)
            .map(({ notBeforeMs }) => notBeforeMs - EXPIRE_MS)
            .find((renewedAtMs) => renewedAtMs > promotedAtMs),
        { what: 'a renewal at the new primary', timeoutMs: TEST_MS_MAX },
      );
      connecting.add('new');
      await waitUntil(() => load.heldOffAtMs.length > 0, { what: 'a grant that is held off' });
      await waitUntil(() => connecting.heldOffAtMs.length > 0, {
        what: 'a connect that is held off',
      });
      // Nothing was lost: an operator who knows that the standby was synchronous may end it.
      const { cause } = (await stage.api().holdOff.get.query()) ?? {};
      await stage.api().holdOff.end.mutate({ reason: 'the standby was synchronous' });
      await waitUntil(() => load.granted.some((grant) => grant.atMs > backAtMs), {
        what: 'a new grant',
      });
      const fresh = await untilConnected(connecting, 'new');
      await cluster.restart(former);
      await cluster.untilWhole({ isSynchronous: true });
      const endedAtMs = machineMs();
      await waitUntil(() => load.released.some((one) => one.atMs > endedAtMs));
      await Promise.all([load.stop(), connecting.stop()]);

      console.log(
        `a synchronous standby took over after ${String(Math.round(promotedAtMs - atMs))} ms, renewals were back ${String(Math.round(backAtMs - promotedAtMs))} ms later, with ${String(load.granted.length)} grants acknowledged`,
      );
      expect(backAtMs - promotedAtMs).toBeLessThan(BACK_MS_MAX);
      expect(cause).toBe('timeline');
      expect(await missing(on, ['granted', 'taken_over'], load.granted)).toEqual([]);
      expect(await missing(on, ['released'], load.released)).toEqual([]);
      expect(tokensThatDidNotGrow(load.granted)).toEqual([]);
      expect(new Map(held.map(({ key, token }) => [key, token]))).toEqual(again);
      expect(allWords(holders, 'lost')).toEqual([]);
      // Nobody was ever sent to another backend.
      const named = [...connecting.answers.values()].map(({ backendId }) => backendId);
      expect(named.toSorted()).toEqual(
        [backend, hall, fresh].map(({ backendId }) => backendId).toSorted(),
      );
      await expectUnharmed(stage, { before: backend, program: 'one', pids });
      await expectSound(stage, backend, hall, fresh);
    },
    TEST_MS_MAX,
  );

  test(
    'F20b C17 promotes a standby that lags: lost grants are held off until their holders have stopped, and tokens exceed theirs',
    async () => {
      await cluster.untilWhole({ isSynchronous: false });
      const on = await openStage('asynchronous', {});
      const stage = on;
      const urls = stage.controllers.map(({ url }) => url);
      await stage.startDrone({
        droneId: 'd-2',
        programs: { two: 'stubborn' },
        controllerUrls: urls,
      });
      const front = await on.front(0);
      const kept = await startHolder(on, {
        name: 'kept',
        url: urls[1] ?? '',
        keys: ['kept'],
        ttlMs: TTL_MS,
      });
      const former = await cluster.primary();
      await cluster.untilSent(former);

      await cluster.stopSending(former);
      // The clock of this primary is an hour ahead of the standby's, as far as tokens show it.
      const ahead = String(Date.now() + HOUR_MS);
      await on.query(`update lease_token_floor set floor = $1`, [ahead]);
      const losing = await startHolder(on, {
        name: 'losing',
        url: front.url,
        keys: ['lost'],
        ttlMs: TTL_MS,
      });
      const backend = await stage.connect('lost', 'two');
      await stage.untilHeard(backend);
      front.drop();
      const atMs = machineMs();
      await cluster.kill(former);
      const [lease, key] = await Promise.all([
        untilGranted(on, 'lost'),
        stage.successorOf(backend, 'two'),
      ]);
      await stage.untilHeard(key.answer);

      console.log(
        `a standby that lagged took over: ${String(Math.round(lease.atMs - atMs))} ms later there was another holder`,
      );
      const [lost] = allWords([losing], 'lost');
      expect(lease.refusals).toContain('grant.hold_off');
      expect(lost?.atMs).toBeLessThan(lease.atMs);
      expect(
        overlapsOf([...holdsOf([losing]), { ...lease, fromMs: lease.atMs, untilMs: Infinity }]),
      ).toEqual([]);
      expect(BigInt(lease.token)).toBeGreaterThan(BigInt(lost?.token ?? 0));
      expect(BigInt(key.answer.fencingToken)).toBeGreaterThan(BigInt(backend.fencingToken));
      await expectSound(stage, backend, key.answer);
      // What the standby had goes on.
      expect(allWords([kept], 'lost')).toEqual([]);
      expect((await on.held('held')).get('kept')).toBe(holdsOf([kept])[0]?.token);
    },
    TEST_MS_MAX,
  );
});

/** What callers were answered first for a key. */
function untilConnected({ answers }: Connecting, name: string): Promise<Answer> {
  return waitUntil(() => [...answers.values()].find(({ key }) => key.name === name), {
    what: `a backend of ${name}`,
    timeoutMs: TEST_MS_MAX,
  });
}

interface Granted extends Grant {
  readonly atMs: number;
  /** What was answered before. */
  readonly refusals: readonly string[];
}

/** Asks for a lease of the holders again and again, at both controllers. */
async function untilGranted(stage: FaultStage, key: string): Promise<Granted> {
  const refusals: string[] = [];
  let round = 0;
  return waitUntil(
    async () => {
      round += 1;
      const { url } = stage.controllers[round % stage.controllers.length] ?? { url: '' };
      try {
        const answer = await stage.api('admin', url).leases.acquire.mutate({
          namespace: ['held'],
          key,
          holder: randomUUID(),
          ttlMs: TTL_MS,
          localTimeMs: machineMs(),
        });
        if (answer.outcome !== 'granted') return undefined;
        const { leaseId, fencingToken: token } = answer.lease;
        return { key, leaseId, token, atMs: machineMs(), refusals };
      } catch (error) {
        refusals.push(leaseholdErrorOf(error)?.code ?? String(error));
        return undefined;
      }
    },
    { what: `another holder of ${key}`, timeoutMs: TEST_MS_MAX, pollMs: 50 },
  );
}
