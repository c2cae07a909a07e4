import { repetitions } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from './testing/cli-controller.ts';
import { raceDeployments } from './testing/deployment-races.ts';

const COUNT = repetitions({ short: 80, long: 1_000 });
/** Side by side; most of a round is the rest of a lease. */
const ENVIRONMENTS = repetitions({ short: 5, long: 10 });

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

test('in many supersedings of real processes, killed, frozen and cut off, no two are at work at once, and none writes once it is superseded', async () => {
  const races = await raceDeployments(cli, {
    environments: ENVIRONMENTS,
    rounds: COUNT / ENVIRONMENTS + 1,
  });

  expect(races).toMatchObject({ overlaps: [], staleWrites: [] });
  // One that is killed long before the next one has joined the line is over by then.
  expect(races.supersededCount).toBeGreaterThanOrEqual(COUNT * 0.8);
  expect(races.writesCount).toBeGreaterThan(COUNT);
}, 1_800_000);
