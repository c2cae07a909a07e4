/** Carries out a plan. */
import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { machineMs } from '../../stage/machine-time.ts';
import { BUSY, type FaultSeen } from '../history.ts';
import type { Stall } from '../world/monitor.ts';
import type { World } from '../world/world.ts';
import { excludes, type PlannedFault } from './plan.ts';

/** A fault and its end, as they happened. */
type Happened = Omit<FaultSeen, 'recoveredAtMs'>;

/**
 * More than any recovery may take, on a machine that others use most of the time: what has not recovered by then
 * is recorded as never.
 */
const RECOVERY_MS_MAX = 60_000;
const LOOK_MS = 250;

/**
 * Lets each fault happen at its time, and waits until the run is over and everything has recovered.
 * @throws the first error of what makes faults happen, after all of them have ended.
 */
export async function carryOut(
  world: World,
  plan: readonly PlannedFault[],
  of: { readonly runMs: number; readonly signal: AbortSignal },
): Promise<FaultSeen[]> {
  setMaxListeners(plan.length + 1, of.signal);
  const beganAtMs = machineMs();
  const untilMs = (atMs: number): Promise<unknown> =>
    pause(Math.max(0, beganAtMs + atMs - machineMs()), undefined, { signal: of.signal });
  const begun = new Map<PlannedFault, Promise<Happened>>();
  for (const planned of plan) {
    // On a busy machine the end of a fault takes longer than was planned.
    const before = [...begun].filter(([other]) => excludes(other, planned)).map(([, ends]) => ends);
    const inTurn = async (): Promise<Happened> => {
      await untilMs(planned.atMs);
      await Promise.allSettled(before);
      return inflict(world, planned);
    };
    begun.set(planned, inTurn());
  }
  const settled = await Promise.allSettled(begun.values());
  const failed = settled.find((one) => one.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  const happened = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  await untilMs(of.runMs);
  return untilRecovered(world, happened);
}

async function inflict(world: World, planned: PlannedFault): Promise<Happened> {
  const { id, kind, target, forMs } = planned;
  const fromMs = machineMs();
  await kind.inflict(world, target, forMs);
  const { name, reaches, recoveryMsMax } = kind;
  return {
    id,
    name,
    target: `${target}: ${kind.what}`,
    fromMs,
    untilMs: machineMs(),
    reaches,
    recoveryMsMax,
  };
}

async function untilRecovered(
  { monitor }: World,
  happened: readonly Happened[],
): Promise<FaultSeen[]> {
  const giveUpAtMs = machineMs() + RECOVERY_MS_MAX;
  for (;;) {
    const faults = happened.map((fault) => ({
      ...fault,
      recoveredAtMs: monitor.recoveredAtMs(fault.reaches, fault.untilMs),
    }));
    const isOver = faults.every(({ recoveredAtMs }) => recoveredAtMs < Infinity);
    if (isOver || machineMs() > giveUpAtMs) return [...faults, ...monitor.stalls.map(busyOf)];
    await pause(LOOK_MS);
  }
}

/** What others made the machine do is no fault of ours, and explains what comes late. */
function busyOf({ fromMs, untilMs }: Stall, index: number): FaultSeen {
  return {
    id: `busy-${String(index + 1)}`,
    name: BUSY,
    target: 'machine: others were busy',
    fromMs,
    untilMs,
    recoveredAtMs: untilMs + CATCHING_UP_MS,
    reaches: ['leases', 'keys', 'stream', 'datacenters'],
    recoveryMsMax: RECOVERY_MS_MAX,
  };
}

const CATCHING_UP_MS = 1_000;
