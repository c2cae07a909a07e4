/** What the programs of these tests have in common. Each is a process that uses the client library. */
import { writeSync } from 'node:fs';
import os from 'node:os';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import type { Lease } from '@leasehold/client';
import { machineMs } from '../machine-time.ts';
import type { Grant, Said } from './words.ts';

/** What the test wants; see `LeaseStage.start`. */
export function settings<Settings>(): Settings {
  return JSON.parse(process.argv[2] ?? '{}') as Settings;
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

/** How the clock of a holder is wrong. */
export interface HolderClock {
  readonly rate?: number | undefined;
  readonly aheadMs?: number | undefined;
}

export function clockOf({ rate = 1, aheadMs = 0 }: HolderClock = {}): TickingClock {
  return createBootClock(() => os.uptime() * 1_000 * rate + aheadMs);
}

export function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error) return String(error.code);
  return error instanceof Error ? error.name : String(error);
}
