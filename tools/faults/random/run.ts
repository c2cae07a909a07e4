/** One run: a world, a schedule, a history, and what it contradicts. */
import { check } from './checks/check.ts';
import type { History, Violation } from './history.ts';
import type { RunOptions } from './options.ts';
import { carryOut } from './schedule/carry-out.ts';
import { KINDS } from './schedule/kinds.ts';
import { planOf, type PlannedFault } from './schedule/plan.ts';
import { World } from './world/world.ts';

export interface RunResult {
  readonly plan: readonly PlannedFault[];
  readonly history: History;
  readonly violations: readonly Violation[];
  /** Where the logs and diaries are. */
  readonly folder: string;
}

export function plannedFor({ seed, seconds, isEachOnce, only }: RunOptions): PlannedFault[] {
  const plan = planOf(KINDS, { seed, runMs: seconds * 1_000, isEachOnce });
  return only === undefined ? plan : plan.filter(({ id }) => only.includes(id));
}

/** Runs it. What it left behind is kept only if a promise was broken, or the run failed. */
export async function run(options: RunOptions, signal: AbortSignal): Promise<RunResult> {
  const plan = plannedFor(options);
  const hasDatacenters = plan.some(({ kind }) => kind.reaches.includes('datacenters'));
  const hasPooler = plan.some(({ kind }) => kind.needsPooler === true);
  const world = await World.open(options.seed, { hasDatacenters, hasPooler });
  let isSound = false;
  try {
    const runMs = options.seconds * 1_000;
    world.faults.push(...(await carryOut(world, plan, { runMs, signal })));
    const history = await world.finish();
    const violations = check(history);
    isSound = violations.length === 0;
    return { plan, history, violations, folder: world.fleet.stage.folder };
  } finally {
    await world.close();
    if (isSound) await world.fleet.stage.removeFolder();
    else console.error(`what the processes wrote is in ${world.fleet.stage.folder}`);
  }
}
