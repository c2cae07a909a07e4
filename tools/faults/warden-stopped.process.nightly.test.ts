import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil, type StageDrone } from '@leasehold/testing';
import { machineMs } from './stage/machine-time.ts';
import { FaultStage, type Answer } from './stage/stage.ts';
import { expectSound, expectSuccession } from './stage/verdict.ts';

let stage: FaultStage;
beforeAll(async () => {
  stage = await FaultStage.open();
});
afterAll(({}, file) => stage.close(file));

/** From the ladder `fast`: what is left when a renewal is due, and when a backend must be gone. */
const RENEWAL_DUE_REMAINING_MS = 3_000;
const HARD_REMAINING_MS = 1_000;
/** How long after hard the leash acts, and what the end of a namespace takes on a busy machine. */
const LEASH_MS_MAX = 250 + 400;

/** A drone with one backend that does not stop when it is asked to, and a second drone. */
async function twoDrones(key: string): Promise<{ first: StageDrone; former: Answer }> {
  const programs = { [key]: 'stubborn' } as const;
  const first = await stage.startDrone({ droneId: `${key}-1`, programs });
  const former = await stage.connect(key, key);
  await stage.untilHeard(former);
  await stage.startDrone({ droneId: `${key}-2`, programs });
  return { first, former };
}

/** Another holder gets the key: the former was gone in time, by its own records and the database's. */
async function expectNextInTime(key: string, former: Answer, atMs: number): Promise<void> {
  const next = await stage.successorOf(former, key);
  await stage.untilHeard(next.answer);
  expectSuccession(stage, {
    fault: `warden stopped, ${key}`,
    atMs,
    former,
    next,
  });
  await expectSound(stage, former, next.answer);
}

describe.concurrent('a warden that is stopped', () => {
  test('H-frozen-warden just after a renewal: its agent kills it, and the backend is gone before hard', async () => {
    const { first, former } = await twoDrones('idle');
    await stage.untilRenewed(former);

    const atMs = machineMs();
    first.signalWarden('SIGSTOP');
    await stage.untilSilent(former);

    const leftMs = stage.expiryOf(former) - (stage.life(former)?.lastAtMs ?? Infinity);
    expect(leftMs, 'what was left at its last word').toBeGreaterThan(HARD_REMAINING_MS);
    await expectNextInTime('idle', former, atMs);
    await stage.untilReady('idle-1');
  });

  test('H-frozen-warden just before a renewal: the backend is gone before its key is granted again', async () => {
    const { first, former } = await twoDrones('due');
    await stage.untilRenewed(former);
    await stage.untilRemaining(former, RENEWAL_DUE_REMAINING_MS + 100);

    const atMs = machineMs();
    first.signalWarden('SIGSTOP');

    await expectNextInTime('due', former, atMs);
  });

  test('H-frozen-warden while it launches a backend: nothing runs when the key is granted again', async () => {
    const key = 'launch';
    const programs = { [key]: 'stubborn' } as const;
    const first = await stage.startDrone({ droneId: `${key}-1`, programs });
    const granted = await stage.api().keys.connect.mutate({
      key: { name: key },
      spawn: { program: key },
    });

    first.signalWarden('SIGSTOP');
    await stage.startDrone({ droneId: `${key}-2`, programs });
    const next = await stage.successorOf(granted, key);
    await stage.untilHeard(next.answer);

    const lives = stage.lives(key);
    expect(lives.at(-1)?.backend).toBe(next.answer.backendId);
    const lastWordMs = lives.length > 1 ? (stage.life(granted)?.lastAtMs ?? Infinity) : 0;
    expect(lastWordMs).toBeLessThan(stage.expiryOf(granted));
    await expectSound(stage, next.answer);
  });

  test('H-frozen-warden together with its agent: its leash ends it at hard, and the continued agent goes on with another', async () => {
    const { first, former } = await twoDrones('both');
    await stage.untilRenewed(former);

    const atMs = machineMs();
    first.agent.signal('SIGSTOP');
    first.signalWarden('SIGSTOP');
    const { lastAtMs } = await stage.untilSilent(former);

    const hardAtMs = stage.expiryOf(former) - HARD_REMAINING_MS;
    const lateMs = lastAtMs - hardAtMs - stage.stoodStillMs(hardAtMs, lastAtMs);
    expect(lateMs, 'its last word after hard').toBeLessThan(LEASH_MS_MAX);
    await expectNextInTime('both', former, atMs);
    const { clockId } = first.warden();
    first.agent.signal('SIGCONT');
    await waitUntil(() => first.warden().clockId !== clockId, { what: 'another warden' });
    await stage.untilReady('both-1');
  });
});
