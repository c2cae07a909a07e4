import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { carryOut } from './carry-out.ts';
import { GATEWAY_ATTACKS } from './gateway-attacks.ts';
import { AttackStage } from './stage.ts';

/** What the tests of apps/gateway do not show; all others are carried out each night. */
const ONLY_HERE: readonly string[] = ['gateway-anonymous'];
const ATTACK_MS = 1_000;

let stage: AttackStage;

beforeAll(async () => {
  stage = await AttackStage.open(inject('clusterUrl'));
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
});

test.each(GATEWAY_ATTACKS.filter(({ name }) => ONLY_HERE.includes(name)))(
  '$name: nothing reaches a backend or its user, and the requests of others go on ($what)',
  async (attack) => {
    const { yield: seen, broken } = await carryOut(attack, stage, { attackMs: ATTACK_MS });

    expect(broken).toEqual([]);
    expect(seen.tried).toBeGreaterThan(0);
  },
);
