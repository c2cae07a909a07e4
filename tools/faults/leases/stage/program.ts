/** What the programs of these tests have in common. Each is a process that uses the client library. */
import { writeSync } from 'node:fs';
import os from 'node:os';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import type { Lease } from '@leasehold/client';
import { machineMs } from '../../stage/machine-time.ts';
import type { Grant, Said } from './words.ts';

/** What the test wants; see `FaultStage.start`. */
export function settings(): unknown {
  return JSON.parse(process.argv[2] ?? '{}') as unknown;
}

const OUTPUT = 1;

/** Written at once, so that it is not lost when the process is stopped or killed next. */
export function say(said: Said): void {
  writeSync(OUTPUT, `${JSON.stringify({ ...said, atMs: machineMs() })}\n`);
}

export function grantOf(lease: Lease): Grant {
  return { key: lease.key, leaseId: lease.leaseId, token: lease.fencingToken };
}

/** Tells the test that it may go on; ends with the test, however that ends. */
export function ready(facts: Record<string, unknown> = {}): void {
  process.once('disconnect', () => process.exit(1));
  process.send?.({ type: 'ready', ...facts });
}

/** Fulfilled when the test asks for the end. */
export function endAsked(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGTERM', () => {
      resolve();
    });
  });
}

/** How the clocks of a holder are wrong. */
export interface HolderClock {
  readonly rate?: number | undefined;
  readonly aheadMs?: number | undefined;
  /** The wall clock goes back by an hour, again and again, at this interval. */
  readonly wallStepsBackEveryMs?: number | undefined;
}

const HOUR_MS = 3_600_000;

/** The clock to give to the client library. The wall clock is wrong for the whole process. */
export function clockOf(fault: HolderClock = {}): TickingClock {
  const { rate = 1, aheadMs = 0, wallStepsBackEveryMs } = fault;
  if (wallStepsBackEveryMs !== undefined) stepWallClock(wallStepsBackEveryMs);
  return createBootClock(() => os.uptime() * 1_000 * rate + aheadMs);
}

function stepWallClock(everyMs: number): void {
  const now = Date.now.bind(Date);
  const beganAtMs = now();
  Date.now = () => {
    const stepsCount = Math.floor((now() - beganAtMs) / everyMs);
    return now() - stepsCount * HOUR_MS;
  };
}

export function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error) return String(error.code);
  return error instanceof Error ? error.name : String(error);
}
