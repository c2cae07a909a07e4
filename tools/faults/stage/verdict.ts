import { expectPrompt, waitUntil } from '@leasehold/testing';
import { expect } from 'vitest';
import type { Answer, FaultStage, Succession } from './stage.ts';
import { overlapsOf } from './testimony.ts';

/** From an expiry to the row that records it: a round of the reaper with its jitter, and its work. */
const RECORDING_MS_MAX = 2_500;
/** What a connect may take beyond the expiry of the grant that it waits for. */
export const SUCCESSION_MS_MAX = 1_000;

/**
 * Judges a key by what its backends wrote: no two of them lived at once, tokens grew, nobody wrote
 * after the expiry of its own grant, and nobody was called alive without one.
 */
export async function expectSound(stage: FaultStage, ...answers: readonly Answer[]): Promise<void> {
  for (const answer of answers) await untilSeen(stage, answer);
  const names = new Set(answers.map((answer) => answer.key.name));
  for (const name of names) {
    const lives = stage.lives(name);
    expect(overlapsOf(lives), `lives of ${name}`).toEqual([]);
    for (const answer of answers.filter((one) => one.key.name === name)) {
      const life = lives.find((one) => one.backend === answer.backendId);
      expect(life?.token, `${name}: the answer names a backend that wrote`).toBe(
        BigInt(answer.fencingToken),
      );
      expect(life?.lastAtMs, `${name}: the last word comes before the expiry`).toBeLessThan(
        stage.expiryOf(answer),
      );
      const withoutMs = stage.recorder.longestWithoutGrantMs(answer.backendId);
      expect(withoutMs, `${name}: I16`).toBeLessThan(RECORDING_MS_MAX);
    }
  }
}

/** The newest backend may have been granted a moment ago: waits for its first word and for the recorder. */
async function untilSeen(stage: FaultStage, answer: Answer): Promise<void> {
  await waitUntil(
    () => stage.life(answer) !== undefined && stage.recorder.promises(answer.leaseId).length > 0,
    { what: `the first word of ${answer.key.name}, and its grant in the record` },
  );
}

/** How much too late an expiry may seem, because reading it takes time. */
const READING_MS_MAX = 50;

/**
 * The next connect succeeded in time and with a greater token; prints how long it took. Unless its
 * holder has said that the former backend is over, nobody had the key before its expiry (I5, I10).
 */
export function expectSuccession(
  stage: FaultStage,
  of: { fault: string; atMs: number; former: Answer; next: Succession; isReleased?: boolean },
): void {
  const { former, next } = of;
  const afterExpiryMs = Math.round(next.atMs - stage.expiryOf(former));
  const afterFaultMs = Math.round(next.atMs - of.atMs);
  console.log(
    `${of.fault}: the next connect succeeded after ${String(afterFaultMs)} ms, ${String(afterExpiryMs)} ms after the expiry`,
  );
  if (of.isReleased !== true) {
    expect(afterExpiryMs, 'not before the expiry').toBeGreaterThan(-READING_MS_MAX);
  }
  expect(next.answer.spawned).toBe(true);
  expect(BigInt(next.answer.fencingToken)).toBeGreaterThan(BigInt(former.fencingToken));
  const stoodStillMs = stage.stoodStillMs(stage.expiryOf(former), next.atMs);
  expectPrompt(afterExpiryMs - stoodStillMs, SUCCESSION_MS_MAX, 'within the expiry and a second');
}

/** Nothing was lost: the same backend, process and token, alive now, and the same for callers. */
export async function expectUnharmed(
  stage: FaultStage,
  of: { before: Answer; program: string; pids: ReadonlySet<string> },
): Promise<void> {
  const { before, program } = of;
  const life = await stage.untilHeard(before);
  expect([...life.pids], 'the same process').toEqual([...of.pids]);
  const again = await stage.connect(before.key.name, program);
  expect(again).toMatchObject({
    spawned: false,
    backendId: before.backendId,
    leaseId: before.leaseId,
    fencingToken: before.fencingToken,
  });
}
