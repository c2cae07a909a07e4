import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil, type TestProcess, type FaultProxy } from '@leasehold/testing';
import type { GuardedSettings } from './stage/guarded.ts';
import type { HolderSettings } from './stage/holder.ts';
import { FaultStage, untilPassed } from '../stage/stage.ts';
import type { HolderClock } from './stage/program.ts';
import { allWords } from './stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';

let lease: FaultStage;
beforeAll(async () => {
  lease = await FaultStage.open();
});
afterAll(({}, file) => lease.close(file));

const HOUR_MS = 3_600_000;
const RUNS_PER_CLOCK = 10;
const TTLS_MS = [1_000, 1_250, 1_500, 1_750, 2_000] as const;
/** What a holder keeps between its own deadline and the expiry. */
const graceOf = (ttlMs: number): number => Math.max(ttlMs / 6, 250);
/** The library stops so much before its own deadline, because it checks the clock every 50 ms. */
const LEAD_MS = 100;
/** A process that got no turn for so long cannot have checked its clock in time. */
const TURN_MS_MAX = 40;

const CLOCKS: { name: string; clock: HolderClock }[] = [
  { name: 'right', clock: {} },
  { name: '10 % fast', clock: { rate: 1.1 } },
  { name: '10 % slow', clock: { rate: 0.9 } },
  { name: 'an hour ahead', clock: { aheadMs: HOUR_MS } },
  { name: 'stepping back by hours, as wall clocks may', clock: { wallStepsBackEveryMs: 300 } },
];

describe.concurrent('a client whose connection is black-holed', () => {
  for (const [index, { name, clock }] of CLOCKS.entries()) {
    test(`I4 F9 C24 F5 F6 aborts its signal before its own deadline, ${String(RUNS_PER_CLOCK)} times of ${String(RUNS_PER_CLOCK)}, its clock ${name}`, async () => {
      const namespace = `cut-${String(index)}`;
      const runs = await Promise.all(
        Array.from({ length: RUNS_PER_CLOCK }, async (_, run) => ({
          key: String(run),
          ttlMs: TTLS_MS[run % TTLS_MS.length] ?? 0,
          front: await lease.front(),
        })),
      );
      const tasks = runs.map(({ key, ttlMs, front }) => {
        // Under load a short lease may be lost before the fault; another one is taken then.
        return { key, ttlMs, url: front.url, takesAgain: true };
      });
      const settings = { token: lease.token, namespace, tasks, clock } satisfies HolderSettings;
      const holder = await lease.start('holder', settings, namespace);
      const losses = await Promise.all(runs.map((run) => cutOff(holder, run)));
      const expiries = await lease.expiries(namespace);

      for (const { lost, ttlMs } of losses) {
        const expiresAtMs = expiries.get(lost.leaseId) ?? 0;
        const what = `run ${lost.key} of a clock ${name}`;
        // A process that had no turn cannot have checked its clock: it aborts at its first turn.
        const noTurnMs = Math.max(0, lost.stallMs - TURN_MS_MAX);
        if (noTurnMs === 0) expect(lost.reason, what).toBe('unreachable');
        expect(lost.lateMs, `${what}: its own deadline`).toBeLessThan(LEAD_MS + noTurnMs);
        // The same by the database clock, with the grace that the holder keeps by its own clock.
        const holdsAtMostMs = (ttlMs - graceOf(ttlMs)) / (clock.rate ?? 1);
        expect(lost.atMs, `${what}: by the expiry`).toBeLessThan(
          expiresAtMs - (ttlMs - holdsAtMostMs) + noTurnMs,
        );
      }
      const leftMs = losses.map(({ lost }) => (expiries.get(lost.leaseId) ?? 0) - lost.atMs);
      const lateMs = losses.map(({ lost }) => lost.lateMs);
      console.log(
        `cut off, clock ${name}: the signal aborted ${Math.min(...leftMs).toFixed(0)} to ${Math.max(...leftMs).toFixed(0)} ms before the expiry, at most ${Math.max(...lateMs).toFixed(0)} ms after it had last said that it might act`,
      );
      expect(losses).toHaveLength(RUNS_PER_CLOCK);
    });
  }
});

interface Run {
  readonly key: string;
  readonly ttlMs: number;
  readonly front: FaultProxy;
}

/**
 * Black-holes the connection of a holder, at another moment of its round of renewals for
 * each run. @returns how it lost the lease.
 */
async function cutOff(
  holder: TestProcess,
  { key, ttlMs, front }: Run,
): Promise<{ readonly lost: ReturnType<typeof lossesOf>[number]; readonly ttlMs: number }> {
  const latestHeld = (): string | undefined =>
    allWords([holder], 'held').findLast((word) => word.key === key)?.leaseId;
  const lossOf = (leaseId: string) => lossesOf(holder).find((word) => word.leaseId === leaseId);
  for (;;) {
    await waitUntil(() => latestHeld() !== undefined, { what: `the lease of ${key}` });
    await untilPassed((1 + Number(key) / RUNS_PER_CLOCK) * (ttlMs / 3));
    const leaseId = latestHeld() ?? '';
    if (lossOf(leaseId) !== undefined) continue;
    const cutAtMs = machineMs();
    front.drop();
    const lost = await waitUntil(() => lossOf(leaseId), { what: `the loss of ${key}` });
    if (lost.atMs > cutAtMs) return { lost, ttlMs };
    front.heal();
  }
}

function lossesOf(holder: TestProcess) {
  return allWords([holder], 'lost');
}

describe.concurrent('a client that stands still for twice its TTL', () => {
  const TTL_MS = 1_000;

  function startGuarded(of: Partial<GuardedSettings> & { key: string }): Promise<TestProcess> {
    const { url } = lease.controller();
    return lease.start('guarded', { url, token: lease.token, ttlMs: TTL_MS, ...of }, of.key);
  }

  /** Starts a client that waits in line for the lease of another one. */
  function startNext(key: string): Promise<TestProcess> {
    const task = { url: lease.controller().url, key, ttlMs: 10_000, waitMs: 30_000 };
    const settings = { token: lease.token, namespace: 'guarded', tasks: [task] };
    return lease.start('holder', settings, `${key}-next`);
  }

  test('C23 F1 does no guarded work on waking, wherever it is called from; the next one has the lease', async () => {
    const guarded = await startGuarded({ key: 'stopped' });
    const socket = connect(Number(guarded.ready['port']), '127.0.0.1');
    socket.on('error', () => undefined);
    const asking = setInterval(() => socket.write('x'), 20);
    const next = await startNext('stopped');
    const actors = ['timer', 'request', 'loop'];
    await waitUntil(() => {
      const seen = new Set(allWords([guarded], 'act').map((word) => word.by));
      return actors.every((actor) => seen.has(actor));
    });

    guarded.signal('SIGSTOP');
    const stoppedAtMs = machineMs();
    const taken = await waitUntil(() => allWords([next], 'held')[0], { what: 'the next holder' });
    await waitUntil(() => machineMs() >= stoppedAtMs + 2 * TTL_MS);
    const wokenAtMs = machineMs();
    guarded.signal('SIGCONT');
    await waitUntil(() => {
      const seen = new Set(allWords([guarded], 'prevented').map((word) => word.by));
      return actors.every((actor) => seen.has(actor));
    });
    clearInterval(asking);
    socket.destroy();

    const acts = allWords([guarded], 'act').filter((word) => word.askedAtMs > taken.atMs);
    expect(acts, 'acts on a lease that another one has').toEqual([]);
    for (const { code, atMs } of allWords([guarded], 'prevented')) {
      expect(code).toBe('lease.lost');
      expect(atMs).toBeGreaterThan(wokenAtMs);
    }
    expect(BigInt(taken.token)).toBeGreaterThan(
      BigInt(allWords([guarded], 'held')[0]?.token ?? ''),
    );
  });

  test('C23 F2 because its event loop was blocked is prevented in the same turn, before any timer fires', async () => {
    const guarded = await startGuarded({ key: 'blocked', stallMs: 2 * TTL_MS });
    const next = await startNext('blocked');
    const taken = await waitUntil(() => allWords([next], 'held')[0], { what: 'the next holder' });
    await waitUntil(() => allWords([guarded], 'prevented').length > 1);

    const acts = allWords([guarded], 'act');
    expect(acts.filter((word) => word.askedAtMs > taken.atMs)).toEqual([]);
    expect(acts.some((word) => word.by === 'before the stall')).toBe(true);
    const prevented = allWords([guarded], 'prevented').map((word) => word.by);
    expect(prevented.slice(0, 2)).toEqual(['after the stall', 'microtask after the stall']);
  });
});
