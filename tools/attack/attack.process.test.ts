import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { ATTACKS } from './attacks.ts';
import { carryOut } from './carry-out.ts';
import { AttackStage } from './stage.ts';

/** Each has ended a backend or a lease of somebody else before. */
const WORST: readonly string[] = ['pipelined-requests', 'frames-in-parts', 'large-messages'];
const ATTACK_MS = 1_500;

let stage: AttackStage;

beforeAll(async () => {
  stage = await AttackStage.open(inject('clusterUrl'));
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
});

test.each(ATTACKS.filter(({ name }) => WORST.includes(name)))(
  '$name: nobody loses a lease or a backend, and nobody else is refused ($what)',
  async (attack) => {
    const { yield: seen, broken } = await carryOut(attack, stage, { attackMs: ATTACK_MS });

    expect(broken).toEqual([]);
    expect(seen.tried).toBeGreaterThan(0);
  },
);
