import { LeaseHeldError, LeaseLost, LeaseRevoked } from '@leasehold/client';
import { createTestLeasehold } from '@leasehold/client/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createDeployGate, type DeployTools } from './deploy-gate.ts';

const PRODUCTION = { face: 'environment', namespace: [], key: 'production' } as const;

interface RollOut {
  readonly version: string;
  readonly fencingToken: string;
  readonly finish: () => void;
}

/** Roll-outs that end when the test ends them, or with their signal. */
function setUp() {
  const leasehold = createTestLeasehold();
  onTestFinished(() => leasehold.close());
  const freezes = new Map<string, string>();
  const rollOuts: RollOut[] = [];
  const tools: DeployTools = {
    readFreeze: (environment) => Promise.resolve(freezes.get(environment)),
    recordFreeze(environment, reason) {
      freezes.set(environment, reason);
      return Promise.resolve();
    },
    rollOut: (version, { signal, fencingToken }) =>
      new Promise((resolve, reject) => {
        rollOuts.push({ version, fencingToken, finish: resolve });
        signal.addEventListener('abort', () => {
          reject(signal.reason as Error);
        });
      }),
  };
  const [runner, other] = [leasehold.client(), leasehold.client()];
  return {
    leasehold,
    runner,
    rollOuts,
    gate: createDeployGate(runner, tools),
    others: createDeployGate(other, tools),
  };
}

describe('a deploy gate', () => {
  test('lets one deployment in, and tells others who is there and why', async () => {
    const { leasehold, gate, others, rollOuts } = setUp();
    const first = gate.deploy('production', 'v1', 'ada');
    await leasehold.advance(50);

    expect(await others.deploy('production', 'v2', 'bob')).toEqual({
      outcome: 'busy',
      by: 'ada',
      action: 'deploy v1',
    });
    rollOuts[0]?.finish();
    expect(await first).toEqual({ outcome: 'deployed' });

    const second = others.deploy('production', 'v2', 'bob');
    await leasehold.advance(50);
    rollOuts[1]?.finish();
    expect(await second).toEqual({ outcome: 'deployed' });
    const tokens = rollOuts.map(({ fencingToken }) => BigInt(fencingToken));
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? 0n);
  });

  test('keeps the environment for as long as a deployment takes', async () => {
    const { leasehold, gate, rollOuts } = setUp();
    const deployed = gate.deploy('production', 'v1', 'ada');

    await leasehold.advance(20 * 60_000);

    expect(leasehold.holdingOf(PRODUCTION)?.holder).toBe('ada');
    rollOuts[0]?.finish();
    expect(await deployed).toEqual({ outcome: 'deployed' });
    expect(leasehold.holdingOf(PRODUCTION)).toBeUndefined();
  });

  test('deploys nothing to an environment that is frozen', async () => {
    const { gate, others, rollOuts } = setUp();
    await others.freeze('production', 'the shop is open late', 'eve');

    expect(await gate.deploy('production', 'v1', 'ada')).toEqual({
      outcome: 'frozen',
      reason: 'the shop is open late',
    });
    expect(rollOuts).toEqual([]);
  });

  test('lets nobody freeze an environment while a deployment runs', async () => {
    const { leasehold, gate, others, rollOuts } = setUp();
    const deployed = gate.deploy('production', 'v1', 'ada');
    await leasehold.advance(50);

    await expect(others.freeze('production', 'too late', 'eve')).rejects.toThrow(LeaseHeldError);

    rollOuts[0]?.finish();
    expect(await deployed).toEqual({ outcome: 'deployed' });
  });

  test('stops a deployment that an operator revokes', async () => {
    const { leasehold, gate } = setUp();
    const deployed = expect(gate.deploy('production', 'v1', 'ada')).rejects.toThrow(LeaseRevoked);
    await leasehold.advance(50);

    await leasehold.revoke(PRODUCTION, { reason: 'wrong version' });

    await deployed;
  });

  test('stops a deployment that is cut off, before another can begin', async () => {
    const { leasehold, runner, gate } = setUp();
    const deployed = expect(gate.deploy('production', 'v1', 'ada')).rejects.toThrow(LeaseLost);
    await leasehold.advance(50);
    leasehold.cutOff(runner);

    await leasehold.advance(50_000);

    expect(leasehold.holdingOf(PRODUCTION)?.holder).toBe('ada');
    // The release of what is over is tried for a while.
    await leasehold.advance(15_000);
    await deployed;
  });
});
