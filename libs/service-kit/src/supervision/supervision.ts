/** How a process that dies is started again. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Death } from './death.ts';
import { RestartSchedule } from './restart-schedule.ts';

export { deathOf, deathText, failedStart, type Death } from './death.ts';
export { RestartSchedule } from './restart-schedule.ts';

/** Time as this machine counts it; passed in, so that tests control it. */
interface SupervisorTime {
  /** Of a monotonic clock. */
  nowMs(): number;
  /** Fulfilled after `ms`, or when the signal aborts. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
}

/** What supervisors take from the machine, and the signal that ends them all. */
export interface Supervision {
  readonly time: SupervisorTime;
  /** A number in `[0, 1)`. */
  readonly random: () => number;
  /** Aborted when everything is to end. */
  readonly stop: AbortSignal;
}

/** The supervision of this process. */
export function systemSupervision(stop: AbortSignal): Supervision {
  return {
    stop,
    random: Math.random,
    time: {
      nowMs: () => performance.now(),
      async pause(ms, signal) {
        await delay(ms, undefined, { signal }).catch(() => undefined);
      },
    },
  };
}

/** A process that runs. */
export interface Running {
  /** Fulfilled when it has ended, whatever ended it. */
  readonly ended: Promise<Death>;
  /** Ends it. Safe to repeat. */
  stop(): Promise<void>;
}

/** The outcome of a start. */
export type Start =
  | { readonly outcome: 'running'; readonly running: Running }
  | { readonly outcome: 'died'; readonly death: Death };

/** What is reported about a process that is kept running. */
export interface RunningHooks {
  /** It died, or could not be started, and is started again. */
  restarting(name: string, death: Death, inMs: number): void;
  /** It runs again. */
  restarted(name: string): void;
  /** It died too often; it is not started any more. */
  gaveUp(name: string, death: Death, often: { deathCount: number; windowMs: number }): void;
}

interface KeptProcess {
  readonly name: string;
  /** Starts it again. A start that failed counts as a death. */
  readonly start: () => Promise<Start>;
  readonly supervision: Supervision;
  readonly hooks: RunningHooks;
  /** Aborted when it is to end and not to be started again. */
  readonly stopping: AbortSignal;
}

/**
 * Starts a process again whenever it ends, until `stopping` aborts or its schedule gives up. A process
 * whose start was under way when `stopping` aborted is ended too.
 */
export async function keepRunning(first: Running, kept: KeptProcess): Promise<void> {
  const { name, supervision, hooks } = kept;
  // While everything is being ended nothing is started again.
  const isStopping = (): boolean => kept.stopping.aborted || supervision.stop.aborted;
  const schedule = new RestartSchedule(supervision.random);
  let death = await first.ended;
  while (!isStopping()) {
    const decision = schedule.next(death, supervision.time.nowMs());
    if (decision.outcome === 'give_up') {
      hooks.gaveUp(name, death, decision);
      return;
    }
    hooks.restarting(name, death, decision.delayMs);
    await supervision.time.pause(decision.delayMs, kept.stopping);
    if (isStopping()) return;
    death = await runOnce(kept);
  }
}

/** @returns how it ended. */
async function runOnce({ name, start, hooks, stopping }: KeptProcess): Promise<Death> {
  const started = await start();
  if (started.outcome === 'died') return started.death;
  if (stopping.aborted) await started.running.stop();
  else hooks.restarted(name);
  return started.running.ended;
}
