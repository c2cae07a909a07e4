import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { carryOut } from './carry-out.ts';
import { GATEWAY_ATTACKS } from './gateway-attacks.ts';
import { AttackStage } from './stage.ts';

/** Longer than a gateway lets a head or a body of a request take. */
const ATTACK_MS = 45_000;
/** Of 300 clients a third sends no whole head, and a third no whole body. */
const SLOW_CLOSED_MIN = 200;

let stage: AttackStage;

beforeAll(async () => {
  stage = await AttackStage.open(inject('clusterUrl'));
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
});

test.each(GATEWAY_ATTACKS)(
  '$name, for long: nothing reaches a backend or its user, and the requests of others go on ($what)',
  async (attack) => {
    const { yield: seen, broken } = await carryOut(attack, stage, { attackMs: ATTACK_MS });

    expect(broken).toEqual([]);
    expect(seen.tried).toBeGreaterThan(0);
    const closed = seen.refused['closed'] ?? 0;
    if (attack.name === 'gateway-slow') expect(closed).toBeGreaterThanOrEqual(SLOW_CLOSED_MIN);
  },
  240_000,
);
