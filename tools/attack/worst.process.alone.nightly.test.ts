/** How slow the worst attacks make others; `attack.process.alone` carries out every one, without a look at times. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { Attack } from './attack.ts';
import { ATTACKS } from './attacks.ts';
import { carryOut, type Result } from './carry-out.ts';
import type { Latencies } from './healthy.ts';
import { AttackStage } from './stage.ts';

/** Each has ended a backend or a lease of somebody else before, or is by a backend against others. */
const WORST: readonly string[] = [
  'squatting-backend',
  'pipelined-requests',
  'frames-in-parts',
  'large-messages',
];
const ATTACK_MS = 1_500;
const IDLE_MS = 1_000;
const TRIES_MAX = 3;

let stage: AttackStage;
let idle: Latencies;

beforeAll(async () => {
  stage = await AttackStage.open(inject('clusterUrl'));
  idle = await stage.healthy.measure(IDLE_MS);
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
});

/**
 * Again if healthy callers were only slow, as others on the machine may make them. Then they are compared with what
 * they take by then; not with more than twice the usual, which an attack may have left behind.
 */
async function carriedOut(attack: Attack): Promise<Result> {
  let usual = idle;
  for (let tries = 1; ; tries += 1) {
    const result = await carryOut(attack, stage, { idle: usual, attackMs: ATTACK_MS });
    if (!result.isOnlySlow || tries === TRIES_MAX) return result;
    const now = await stage.healthy.measure(IDLE_MS);
    if (now.p99 > usual.p99) usual = { ...now, p99: Math.min(now.p99, 2 * idle.p99) };
  }
}

test.each(ATTACKS.filter(({ name }) => WORST.includes(name)))(
  '$name: nobody loses a lease or a backend, and nobody else is refused or much slower ($what)',
  async (attack) => {
    const { yield: seen, broken } = await carriedOut(attack);

    expect(broken).toEqual([]);
    expect(seen.tried).toBeGreaterThan(0);
  },
);
