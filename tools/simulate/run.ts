import { Random } from './engine/random.ts';
import { useVirtualTimers } from './engine/timers.ts';
import { Violation, World } from './engine/world.ts';
import { DRONES } from './drones/drones.ts';
import { HOLDERS } from './holders/holders.ts';
import { LINES } from './lines/lines.ts';
import { PLANTS, type PlantName } from './plants.ts';
import type { Scenario, Step } from './scenario.ts';

/** Schedules take turns. Holders have two, because they are quick and their rules are under all others. */
export const SCENARIOS: readonly Scenario[] = [HOLDERS, DRONES, LINES, HOLDERS];

/** Names one schedule: the same one gives the same run. */
export interface ScheduleId {
  readonly seed: number;
  readonly number: number;
  readonly plant?: PlantName | undefined;
}

export interface Schedule extends ScheduleId {
  readonly scenario: Scenario;
  readonly steps: readonly Step[];
}

export function scheduleOf(id: ScheduleId): Schedule {
  // A planted defect is looked for where it can be seen.
  const where = id.plant === undefined ? undefined : PLANTS[id.plant].where;
  const scenarios = SCENARIOS.filter(({ name }) => where === undefined || name === where);
  const scenario = scenarios[id.number % scenarios.length];
  if (scenario === undefined) throw new Error('there is no scenario');
  return { ...id, scenario, steps: scenario.steps(randomOf(id).fork('steps')) };
}

export interface Played {
  /** The first promise that was broken. */
  readonly violation: Violation | undefined;
  readonly grants: number;
}

export async function play(schedule: Schedule, onTrace?: (line: string) => void): Promise<Played> {
  const { plant, scenario, steps } = schedule;
  const world = new World({ random: randomOf(schedule).fork('world'), plant, onTrace });
  const putBack = useVirtualTimers(world);
  const { stackTraceLimit } = Error;
  // Expected errors are many, and their stacks cost more than all else.
  if (onTrace === undefined) Error.stackTraceLimit = 0;
  try {
    await scenario.play(world, steps);
    return { violation: undefined, grants: world.grantCount };
  } catch (error) {
    if (error instanceof Violation) return { violation: error, grants: world.grantCount };
    throw error;
  } finally {
    putBack();
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Leaves out steps as long as the schedule still breaks the same promise. */
export async function shrink(schedule: Schedule, violation: Violation): Promise<Schedule> {
  let { steps } = schedule;
  for (let size = Math.ceil(steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let from = 0; from < steps.length;) {
      const fewer = [...steps.slice(0, from), ...steps.slice(from + size)];
      const found = await play({ ...schedule, steps: fewer });
      if (found.violation?.promise === violation.promise) steps = fewer;
      else from += size;
    }
  }
  return { ...schedule, steps };
}

function randomOf({ seed, number }: ScheduleId): Random {
  return new Random(Math.imul(seed, 0x9e_37_79_b1) ^ Math.imul(number + 1, 0x85_eb_ca_6b));
}
