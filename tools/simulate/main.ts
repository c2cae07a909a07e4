/** See `tools/simulate.mjs`. */
import { parseArgs } from 'node:util';
import { PLANT_NAMES, PLANTS, type PlantName } from './plants.ts';
import { play, scheduleOf, shrink, type Schedule } from './run.ts';
import type { Violation } from './engine/world.ts';

const TRACE_LINES_MAX = 60;
const USAGE = `npm run simulate -- [--schedules N] [--seed S] [--only NUMBER] [--plant NAME]
plants: ${PLANT_NAMES.join(', ')}`;

interface Asked {
  readonly seed: number;
  readonly first: number;
  readonly count: number;
  readonly plant: PlantName | undefined;
}

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  const asked = askedOf(args);
  if (asked === undefined) {
    console.error(USAGE);
    return 2;
  }
  const { seed, first, count, plant } = asked;
  if (plant !== undefined) console.log(`planted: ${plant}, ${PLANTS[plant].text}`);
  const startedAtMs = performance.now();
  const seconds = (): number => (performance.now() - startedAtMs) / 1_000;
  let grantCount = 0;
  for (let number = first; number < first + count; number += 1) {
    const schedule = scheduleOf({ seed, number, plant });
    const { violation, grants } = await play(schedule);
    grantCount += grants;
    if (violation === undefined) continue;
    const foundAfterS = seconds();
    await show(schedule, violation);
    console.log(
      `VIOLATION in schedule ${String(number)} of seed ${String(seed)} (${schedule.scenario.name}), found after ${foundAfterS.toFixed(1)} s`,
    );
    return 1;
  }
  const { user, system } = process.cpuUsage();
  const processorS = (user + system) / 1e6;
  const shown = [count, grantCount, Math.round((count / processorS) * 60)].map((one) =>
    one.toLocaleString('en'),
  );
  console.log(
    `no violation: ${String(shown[0])} schedules of seed ${String(seed)} with ${String(shown[1])} grants in ${seconds().toFixed(1)} s, ${String(shown[2])} a minute of one core (${processorS.toFixed(1)} s of processor time)`,
  );
  return 0;
}

function askedOf(args: string[]): Asked | undefined {
  try {
    const { values } = parseArgs({
      args,
      options: {
        schedules: { type: 'string', default: '10000' },
        seed: { type: 'string', default: '1' },
        only: { type: 'string' },
        plant: { type: 'string' },
      },
    });
    const plant = PLANT_NAMES.find((name) => name === values.plant);
    if (plant === undefined && values.plant !== undefined) return undefined;
    const [seed, count, only] = [values.seed, values.schedules, values.only ?? '0'].map(Number);
    if (seed === undefined || count === undefined || only === undefined) return undefined;
    if (![seed, count, only].every((value) => Number.isInteger(value) && value >= 0)) {
      return undefined;
    }
    return { seed, first: only, count: values.only === undefined ? count : 1, plant };
  } catch {
    return undefined;
  }
}

/** Plays the shortest schedule that breaks the same promise once more, and prints what happened. */
async function show(schedule: Schedule, violation: Violation): Promise<void> {
  const short = await shrink(schedule, violation);
  const lines: string[] = [];
  await play(short, (line) => lines.push(line));
  console.log(`\n${violation.message}\n`);
  console.log(
    `${String(short.steps.length)} of ${String(schedule.steps.length)} steps are enough:`,
  );
  for (const step of short.steps) console.log(`  ${JSON.stringify(step)}`);
  console.log('\nwhat happened in the end:');
  for (const line of lines.slice(-TRACE_LINES_MAX)) console.log(`  ${line}`);
  const plant = schedule.plant === undefined ? '' : ` --plant ${schedule.plant}`;
  const { seed, number } = schedule;
  console.log(
    `\nagain: npm run simulate -- --seed ${String(seed)} --only ${String(number)}${plant}\n`,
  );
}
