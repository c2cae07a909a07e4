import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { ATTACKS } from './attacks.ts';
import { carryOut } from './carry-out.ts';
import { GATEWAY_ATTACKS } from './gateway-attacks.ts';
import { AttackStage } from './stage.ts';

/** Long enough for each attack to do its worst; `npm run attack` judges how slow others become. */
const ATTACK_MS = 2_000;

let stage: AttackStage;

beforeAll(async () => {
  stage = await AttackStage.open(inject('clusterUrl'));
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
});

// Those on the gateway take longer, and have a file of their own.
test.each(ATTACKS.filter((attack) => !GATEWAY_ATTACKS.includes(attack)))(
  '$name: nobody loses a lease or a backend, nothing leaks, and memory comes back ($what)',
  async (attack) => {
    const { yield: seen, broken } = await carryOut(attack, stage, { attackMs: ATTACK_MS });

    expect(broken).toEqual([]);
    expect(seen.tried).toBeGreaterThan(0);
    expect(Object.keys(seen.refused)).not.toContain('unknown');
  },
);
