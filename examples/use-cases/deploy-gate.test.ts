import { LeaseLost, LeaseRevoked } from '@leasehold/client';
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
  const rollOuts: RollOut[] = [];
  const tools: DeployTools = {
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
    const first = gate.deploy({ environment: 'production', version: 'v1', by: 'ada' });
    await leasehold.advance(50);

    expect(await others.deploy({ environment: 'production', version: 'v2', by: 'bob' })).toEqual({
      outcome: 'busy',
      by: 'ada',
      action: 'deploy',
    });
    rollOuts[0]?.finish();
    expect(await first).toEqual({ outcome: 'deployed' });

    const second = others.deploy({ environment: 'production', version: 'v2', by: 'bob' });
    await leasehold.advance(50);
    rollOuts[1]?.finish();
    expect(await second).toEqual({ outcome: 'deployed' });
    const tokens = rollOuts.map(({ fencingToken }) => BigInt(fencingToken));
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? 0n);
  });

  test('keeps the environment for as long as a deployment takes', async () => {
    const { leasehold, gate, rollOuts } = setUp();
    const deployed = gate.deploy({ environment: 'production', version: 'v1', by: 'ada' });

    await leasehold.advance(20 * 60_000);

    expect(leasehold.holdingOf(PRODUCTION)?.holder).toBe('ada');
    rollOuts[0]?.finish();
    expect(await deployed).toEqual({ outcome: 'deployed' });
    expect(leasehold.holdingOf(PRODUCTION)).toBeUndefined();
  });

  test('deploys nothing to an environment that is frozen, until the freeze is over', async () => {
    const { leasehold, gate, rollOuts } = setUp();
    const deployment = { environment: 'production', version: 'v1', by: 'ada' };
    leasehold.freeze(PRODUCTION, { reason: 'the shop is open late', forMs: 3_600_000 });

    expect(await gate.deploy(deployment)).toEqual({
      outcome: 'frozen',
      until: expect.any(Date) as Date,
      reason: 'the shop is open late',
    });
    expect(rollOuts).toEqual([]);

    await leasehold.advance(3_600_000);
    const deployed = gate.deploy(deployment);
    await leasehold.advance(50);
    rollOuts[0]?.finish();
    expect(await deployed).toEqual({ outcome: 'deployed' });
  });

  test('deploys the newest of those that wait, and tells the older ones by whom they were superseded', async () => {
    const { leasehold, gate, others, rollOuts } = setUp();
    const wanted = { environment: 'production', waitMs: 7_200_000 };
    const running = gate.deploy({ ...wanted, version: 'v1', by: 'ada' });
    await leasehold.advance(50);
    const older = gate.deploy({ ...wanted, version: 'v2', by: 'bob' });
    await leasehold.advance(60_000);
    const newest = others.deploy({ ...wanted, version: 'v3', by: 'cleo' });
    await leasehold.advance(60_000);

    expect(await older).toEqual({ outcome: 'superseded', by: 'cleo' });
    expect(leasehold.waitersOf(PRODUCTION)).toEqual(['cleo']);
    rollOuts[0]?.finish();
    expect(await running).toEqual({ outcome: 'deployed' });
    await leasehold.advance(1_000);
    expect(rollOuts.map(({ version }) => version)).toEqual(['v1', 'v3']);
    rollOuts[1]?.finish();
    expect(await newest).toEqual({ outcome: 'deployed' });
  });

  test('deploys what is urgent, with a reason, and lets those go on who have begun', async () => {
    const { leasehold, gate, others, rollOuts } = setUp();
    const begun = gate.deploy({ environment: 'production', version: 'v1', by: 'ada' });
    await leasehold.advance(50);
    leasehold.freeze(PRODUCTION, { reason: 'the shop is open late', forMs: 3_600_000 });
    await leasehold.advance(120_000);
    rollOuts[0]?.finish();
    expect(await begun).toEqual({ outcome: 'deployed' });

    const urgent = { environment: 'production', version: 'v2', by: 'bob', urgent: 'incident 12' };
    const deployed = others.deploy(urgent);
    await leasehold.advance(50);
    rollOuts[1]?.finish();
    expect(await deployed).toEqual({ outcome: 'deployed' });
  });

  test('keeps in the history that a deployment failed', async () => {
    const { leasehold, runner } = setUp();
    const tools: DeployTools = { rollOut: () => Promise.reject(new Error('no space left')) };
    const gate = createDeployGate(runner, tools);

    await expect(
      gate.deploy({ environment: 'production', version: 'v1', by: 'ada' }),
    ).rejects.toThrow('no space left');

    const kinds = leasehold.historyOf(PRODUCTION).map(({ kind }) => kind);
    expect(kinds).toEqual(['granted', 'failed']);
  });

  test('stops a deployment that an operator revokes', async () => {
    const { leasehold, gate } = setUp();
    const deployed = expect(
      gate.deploy({ environment: 'production', version: 'v1', by: 'ada' }),
    ).rejects.toThrow(LeaseRevoked);
    await leasehold.advance(50);

    await leasehold.revoke(PRODUCTION, { reason: 'wrong version' });

    await deployed;
  });

  test('stops a deployment that is cut off, before another can begin', async () => {
    const { leasehold, runner, gate } = setUp();
    const deployed = expect(
      gate.deploy({ environment: 'production', version: 'v1', by: 'ada' }),
    ).rejects.toThrow(LeaseLost);
    await leasehold.advance(50);
    leasehold.cutOff(runner);

    await leasehold.advance(50_000);

    expect(leasehold.holdingOf(PRODUCTION)?.holder).toBe('ada');
    // The release of what is over is tried for a while.
    await leasehold.advance(15_000);
    await deployed;
  });
});
