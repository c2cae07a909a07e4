import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase } from '@leasehold/keys-core/postgres';
import { waitUntil, type TestProcess } from '@leasehold/testing';
import type { HolderSettings, HolderTask } from '../leases/stage/holder.ts';
import { holdsOf, overlapsOf } from '../leases/stage/holds.ts';
import { allWords, type Grant } from '../leases/stage/words.ts';
import { startKillableDatabase, type KillableDatabase } from '../stage/killable-database.ts';
import { machineMs } from '../stage/machine-time.ts';
import { type Answer, FaultStage } from '../stage/stage.ts';
import { expectSound, expectUnharmed } from '../stage/verdict.ts';
import { Connecting } from './stage/connecting.ts';
import { missing, tokensThatDidNotGrow } from './stage/judge-load.ts';
import { Load, type Acknowledged } from './stage/load.ts';

/** Longer than from the backup to the restore: a grant that is in the backup is not over when it is back. */
const TTL_MS = 40_000;
/** The same for keys: what the backup has was renewed a moment before it. */
const LADDER = {
  LEASEHOLD_KEY_RENEW_MS: '2500',
  LEASEHOLD_KEY_SOFT_MS: '31000',
  LEASEHOLD_KEY_HARD_MS: '34000',
  LEASEHOLD_KEY_EXPIRE_MS: String(TTL_MS),
};
/** How much of a lease has passed at most when its renewal counts as fresh. */
const FRESH_MS_MAX = 2_000;
/** For what is waited for beyond a hold-off, which lasts as long as the longest grant. */
const WAIT_MS_MAX = 90_000;
const TEST_MS_MAX = 240_000;
const GRANTS_MIN = 40;
const PROGRAM = 'one';
/** Of events. */
const GRANTING = ['granted', 'taken_over'];
/** Rivals for the same leases, each of which holds one for a moment. */
const RIVALS_COUNT = 2;
const CONTENDED = ['a', 'b', 'c'] as const;
const HOLD_MS = 150;
const QUEUE_MS = 2_000;

let postgres: KillableDatabase;
let on: FaultStage;

beforeAll(async () => {
  postgres = await startKillableDatabase();
  const databaseUrl = postgres.url('leasehold');
  await createDatabase(databaseUrl);
  on = await FaultStage.open({ databaseUrl, controllers: 2, env: LADDER });
}, TEST_MS_MAX);
afterAll(async ({}, file) => {
  await (on as FaultStage | undefined)?.close(file);
  await postgres.close();
});

function urlOf(index: number): string {
  return on.controller(index % on.controllers.length).url;
}

/** Processes with the client library. */
async function startHolder(name: string, tasks: readonly HolderTask[]): Promise<TestProcess> {
  const settings = { token: on.token, namespace: 'held', tasks } satisfies HolderSettings;
  return on.start('holder', settings, name);
}

/** One that takes a lease and keeps it. */
async function startKeeper(key: string): Promise<TestProcess> {
  const keeper = await startHolder(key, [{ url: urlOf(0), key, ttlMs: TTL_MS }]);
  await waitUntil(() => allWords([keeper], 'held').length > 0, { what: `the lease ${key}` });
  return keeper;
}

/** One that takes leases again and again, in a queue with its rivals. */
function startRival(index: number, keys: readonly string[]): Promise<TestProcess> {
  const tasks = keys.map((key) => ({
    url: urlOf(index),
    key,
    ttlMs: TTL_MS,
    takesAgain: true,
    waitMs: QUEUE_MS,
    holdMs: HOLD_MS,
  }));
  return startHolder(`rival-${String(index)}`, tasks);
}

describe('C17 H-restore a base backup that is put back under load', () => {
  test(
    'grants nothing until every lost grant is over: never two holders, larger tokens, and what is in the backup goes on',
    async () => {
      const stage = on;
      const apis = stage.controllers.map(({ url }) => stage.api('admin', url));
      const controllerUrls = stage.controllers.map(({ url }) => url);
      await stage.startDrone({
        droneId: 'd-1',
        programs: { [PROGRAM]: 'stubborn' },
        controllerUrls,
      });
      const kept = await stage.connect('kept', PROGRAM);
      const { pids } = await stage.untilHeard(kept);
      const replaced = await stage.connect('replaced', PROGRAM);
      await stage.untilHeard(replaced);
      const keeper = await startKeeper('kept');
      const rivals = await Promise.all(
        Array.from({ length: RIVALS_COUNT }, (_, index) => startRival(index, CONTENDED)),
      );
      const load = new Load(apis, TTL_MS);
      const connecting = new Connecting(apis, { program: PROGRAM, keys: ['kept', 'replaced'] });
      const untilMore = async (what: string): Promise<void> => {
        const count = load.released.length;
        const holds = allWords(rivals, 'held').length;
        await waitUntil(
          () =>
            load.released.length >= count + GRANTS_MIN &&
            allWords(rivals, 'held').length > holds + CONTENDED.length,
          { what, timeoutMs: WAIT_MS_MAX },
        );
      };
      await untilMore('load before the backup');
      await untilFresh(keeper);
      await stage.untilRenewed(kept);

      const backupAtMs = machineMs();
      const backup = await postgres.backUp();
      // The clock of the database that is lost was ahead, as far as tokens show it.
      await on.query('update lease_token_floor set floor = greatest(floor, $1::bigint) + 7200000', [
        String(Date.now()),
      ]);
      await stage.api().backends.terminate.mutate({ backendId: replaced.backendId, mode: 'hard' });
      const [{ answer: replacement }, lost, loser] = await Promise.all([
        stage.successorOf(replaced, PROGRAM),
        stage.connect('lost', PROGRAM),
        startKeeper('lost'),
      ]);
      connecting.add('lost');
      const waiting = await startRival(RIVALS_COUNT, ['lost']);
      await Promise.all([replacement, lost].map((answer) => stage.untilHeard(answer)));
      await Promise.all([replacement, lost].map((answer) => stage.untilRenewed(answer)));
      await untilMore('load after the backup');
      await postgres.kill();
      const restoredAtMs = machineMs();
      await postgres.putBack(backup);

      // Until its grant of the backup expires, the key still names the backend that was replaced.
      const next = await Promise.all(
        [replacement, lost].map((former) => untilAnswered(connecting, former)),
      );
      await waitUntil(() => holdsOf([waiting]).length > 0, {
        what: 'another holder of the lost lease',
        timeoutMs: WAIT_MS_MAX,
      });
      await untilMore('load after the restore');
      await Promise.all(next.map((answer) => stage.untilHeard(answer)));
      await Promise.all([load.stop(), connecting.stop()]);

      // An answer of the former database may come seconds after its end: it waits for the read that says
      // why others of its batch were refused. So what is lost is what the restored database lacks.
      const gone = await missing(on, GRANTING, load.granted);
      const lostUntilMs = Math.max(
        ...gone.map((grant) => load.claimedUntilMs(grant)),
        ...allWords([loser], 'lost').map(({ atMs }) => atMs),
        ...[replacement, lost].map((answer) => stage.expiryOf(answer)),
      );
      const firstAtMs = await firstGrantAfter(restoredAtMs);
      const after = load.granted.filter(({ askedAtMs }) => askedAtMs > restoredAtMs);
      const lateAnswers = gone.filter(({ atMs }) => atMs > restoredAtMs);
      console.log(
        `the first grant came ${String(Math.round(firstAtMs - restoredAtMs))} ms after the restore, ${String(Math.round(firstAtMs - lostUntilMs))} ms after the last lost one was over; ${String(gone.length)} of ${String(load.granted.length)} grants were lost, and ${String(lateAnswers.length)} of these were acknowledged late`,
      );
      expect(firstAtMs, 'no grant before the lost ones are over').toBeGreaterThan(lostUntilMs);
      expect(load.heldOffAtMs.length).toBeGreaterThan(0);
      expect(connecting.heldOffAtMs.length).toBeGreaterThan(0);
      expect(gone.length).toBeGreaterThan(GRANTS_MIN);
      expect(lateAnswers.filter(({ atMs }) => atMs > firstAtMs)).toEqual([]);
      // What was acknowledged before the backup, or asked for after the restore, is there.
      const isThere = (one: Acknowledged): boolean =>
        one.atMs < backupAtMs || one.askedAtMs > restoredAtMs;
      expect(gone.filter(isThere)).toEqual([]);
      expect(await missing(on, ['released'], load.released.filter(isThere))).toEqual([]);
      const holds = holdsOf([keeper, loser, waiting, ...rivals]);
      expect(overlapsOf(holds)).toEqual([]);
      expect(tokensThatDidNotGrow(load.granted)).toEqual([]);
      expect(tokensThatDidNotGrow(holds.toSorted((a, b) => a.fromMs - b.fromMs))).toEqual([]);
      expect(after.filter((grant) => tokenOf(grant) <= largestOf(gone))).toEqual([]);
      // Whose grant the backup has goes on; whose grant it lacks ends before anybody else begins.
      expect(allWords([keeper], 'lost')).toEqual([]);
      expect((await on.held('held')).get('kept')).toBe(holdsOf([keeper])[0]?.token);
      expect(allWords([loser], 'lost')).toHaveLength(1);
      await expectUnharmed(stage, { before: kept, program: PROGRAM, pids });
      await expectSound(stage, kept, replacement, lost, ...next);
    },
    TEST_MS_MAX,
  );
});

/** Waits until the lease of a keeper was renewed a moment ago. */
async function untilFresh(keeper: TestProcess): Promise<void> {
  const [hold] = holdsOf([keeper]);
  await waitUntil(
    async () => {
      const expiresAtMs = (await on.expiries('held')).get(hold?.leaseId ?? '') ?? -Infinity;
      return expiresAtMs - machineMs() > TTL_MS - FRESH_MS_MAX;
    },
    { what: 'a renewal of the keeper', timeoutMs: WAIT_MS_MAX },
  );
}

/** The first answer to callers that names a later holder of a key. */
function untilAnswered({ answers }: Connecting, former: Answer): Promise<Answer> {
  return waitUntil(
    () =>
      [...answers.values()].find(
        ({ key, fencingToken }) =>
          key.name === former.key.name && BigInt(fencingToken) > BigInt(former.fencingToken),
      ),
    { what: `a successor of ${former.key.name}`, timeoutMs: WAIT_MS_MAX },
  );
}

/** When the database granted something for the first time after a moment, to anybody. */
async function firstGrantAfter(fromMs: number): Promise<number> {
  const askedAtMs = machineMs();
  const [row] = await on.query<{ inMs: number }>(
    `select extract(epoch from min(at) - clock_timestamp())::float8 * 1000 as "inMs" from lease_event
    where kind = any($1) and at > clock_timestamp() - $2::float8 * interval '1 millisecond'`,
    [GRANTING, machineMs() - fromMs],
  );
  return askedAtMs + (row?.inMs ?? NaN);
}

function tokenOf({ token }: Grant): bigint {
  return BigInt(token);
}

function largestOf(grants: readonly Grant[]): bigint {
  return grants.map(tokenOf).reduce((a, b) => (a > b ? a : b), 0n);
}
