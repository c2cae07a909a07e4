import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createTestDatabase, repetitions, seed } from '@leasehold/testing';
import { createFreezeService } from '../leases/index.ts';
import { addCrashPoints } from '../testing/crash-points.ts';
import { type Kernel, openKernel } from '../testing/kernel-fixture.ts';
import { declare, LINE_COMMANDS, type RealLines } from '../testing/model/line-commands.ts';
import { LineModel } from '../testing/model/line-model.ts';
import { freezeClock } from '../testing/shifted-clock.ts';

const RUNS = repetitions({ gate: 40, short: 100, long: 2_000 });
const COMMANDS_MAX = 50;
const START_MS = Date.UTC(2030, 0, 1);
const TIMEOUT_MS = RUNS * 3_000;

/** What must hold of the events of a run, whatever the model says. */
async function expectSound({ store }: Kernel, run: string): Promise<void> {
  const [broken] = await store.general.$queryRaw<{ shrunk: number; ends: number }[]>`
    with event as (
      select v.* from lease_event v where starts_with(v.namespace, ${`${run}.`})
    ),
    given as (
      select e.fencing_token, max(e.fencing_token) over (
          partition by e.face, e.namespace, e.name order by e.id
          rows between unbounded preceding and 1 preceding
        ) as largest_before
      from event e where e.kind in ('granted', 'taken_over')
    )
    select (select count(*)::int from given where fencing_token <= largest_before) as shrunk,
      (select coalesce(max(n), 0)::int from (
        select count(*) as n from event
        where kind in ('released', 'failed', 'expired')
          or (kind = 'revoked' and detail ->> 'mode' = 'force')
        group by lease_id
      ) per_grant) as ends`;
  expect(broken?.shrunk, 'tokens grow').toBe(0);
  expect(broken?.ends, 'one end for each grant').toBeLessThanOrEqual(1);
}

describe(`lines, pools and environments against their model, seed ${String(seed())}`, () => {
  test(
    'I1 I2 I5 never more than the permits, never shared beside one alone, all or none, in line, superseded and frozen as the rules say',
    async () => {
      const { url } = await createTestDatabase();
      const setClock = await freezeClock(url);
      const kernel = await openKernel({ databaseUrl: url });
      const crashes = await addCrashPoints(kernel);
      const freezes = createFreezeService(kernel.store);
      let runCount = 0;

      await fc.assert(
        fc.asyncProperty(
          fc.commands(LINE_COMMANDS, { maxCommands: COMMANDS_MAX, size: 'max' }),
          async (commands) => {
            runCount += 1;
            const model = new LineModel(START_MS);
            const run = `run${String(runCount)}`;
            const real: RealLines = { kernel, freezes, crashes, setClock, run, tickets: [] };
            await setClock(model.nowMs);
            await kernel.store.general.$executeRaw`truncate environment_freeze`;
            await declare(model, real, 'permits', { perKey: 2, total: null });
            await declare(model, real, 'total', { perKey: 2, total: 3 });
            await fc.asyncModelRun(() => ({ model, real }), commands);
            await expectSound(kernel, run);
          },
        ),
        { seed: seed(), numRuns: RUNS },
      );
    },
    TIMEOUT_MS,
  );
});
