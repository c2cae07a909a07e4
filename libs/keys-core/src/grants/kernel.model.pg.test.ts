import fc from 'fast-check';
import { describe, test } from 'vitest';
import { createTestDatabase, repetitions, seed } from '@leasehold/testing';
import { LeaseModel } from '../kernel/lease-model.ts';
import { type Kernel, openKernel } from '../testing/kernel-fixture.ts';
import {
  expectInvariants,
  expectPhasesAgree,
  type RealKernel,
} from '../testing/model/lease-agreement.ts';
import { LEASE_COMMANDS } from '../testing/model/lease-commands.ts';
import { freezeClock } from '../testing/shifted-clock.ts';

const RUNS = repetitions({ gate: 70, short: 200, long: 2_000 });
const COMMANDS_MAX = 30;
const START_MS = Date.UTC(2030, 0, 1);
const TIMEOUT_MS = RUNS * 2_000;

/** Tokens of resources without a row depend on rows that were deleted before, in any run. */
async function forgetEarlierRuns({ store }: Kernel): Promise<void> {
  await store.general.$executeRaw`truncate lease`;
  await store.general.$executeRaw`update lease_token_floor set floor = 0`;
}

describe(`the kernel against its model, seed ${String(seed())}`, () => {
  test(
    'I1 I2 I5 I6 I8 I11 I13 the database answers and stores what the rules say with any requests in any order',
    async () => {
      const { url } = await createTestDatabase();
      const setClock = await freezeClock(url);
      const kernel = await openKernel({ databaseUrl: url });
      let runCount = 0;

      await fc.assert(
        fc.asyncProperty(
          fc.commands(LEASE_COMMANDS, { maxCommands: COMMANDS_MAX, size: 'max' }),
          async (commands) => {
            runCount += 1;
            const model = new LeaseModel(START_MS);
            const real: RealKernel = { kernel, setClock, namespace: `run${String(runCount)}` };
            await setClock(model.nowMs);
            await forgetEarlierRuns(kernel);
            await fc.asyncModelRun(() => ({ model, real }), commands);
            await expectPhasesAgree(model, real);
            await expectInvariants(model, real);
          },
        ),
        { seed: seed(), numRuns: RUNS },
      );
    },
    TIMEOUT_MS,
  );
});
