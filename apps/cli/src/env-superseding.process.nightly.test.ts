import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from './testing/cli-controller.ts';
import { raceDeployments } from './testing/deployment-races.ts';

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

test('in eighty supersedings of real processes, killed, frozen and cut off, no two are at work at once, and none writes once it is superseded', async () => {
  const races = await raceDeployments(cli, { environments: 5, rounds: 17 });

  expect(races).toMatchObject({ overlaps: [], staleWrites: [] });
  // One that is killed long before the next one has joined the line is over by then.
  expect(races.supersededCount).toBeGreaterThanOrEqual(70);
  expect(races.writesCount).toBeGreaterThan(85);
}, 900_000);
