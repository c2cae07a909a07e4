import { LIMITS, serviceLadder } from '@leasehold/keys-core';
import type { Command } from 'commander';
import { usageFailure } from '../failure.ts';
import { wholeNumberOf } from '../options.ts';

/** How `leasehold leases run` was called. */
export interface RunCommandOptions {
  readonly namespace?: string;
  readonly ttl: number;
  readonly wait: number;
  readonly holder?: string;
  readonly comment?: string;
  readonly grace?: number;
}

const TTL_MS = 30_000;
/** As much as a short lease can spare, and no more than most programs need to say goodbye. */
const GRACE_SHARE = 6;
const GRACE_MS_MAX = 5_000;

/** Adds the options of `run`. */
export function withRunOptions(command: Command): Command {
  return command
    .option(
      '--ttl <ms>',
      'for how long a lease lasts that is not renewed',
      wholeNumberOf('--ttl'),
      TTL_MS,
    )
    .option('--wait <ms>', 'wait in line for it, for this long at most', wholeNumberOf('--wait'), 0)
    .option('--holder <name>', 'who holds it, for others to read; USER@HOST/PID unless given')
    .option('--comment <text>', 'what for, for others to read; the name of CMD unless given')
    .option(
      '--grace <ms>',
      'between SIGTERM and SIGKILL; a sixth of --ttl and 5 s at most unless given',
      wholeNumberOf('--grace'),
    );
}

/**
 * The time between SIGTERM and SIGKILL.
 * @throws {CliFailure} `cli.usage` for options that are out of range.
 */
export function checkedGraceMs({ ttl, wait, grace }: RunCommandOptions): number {
  assertWithin('--ttl', ttl, [LIMITS.ttlMsMin, LIMITS.ttlMsMax]);
  assertWithin('--wait', wait, [0, LIMITS.waitMsMax]);
  // Half of the time in which it is renewed is left for that.
  const { renewAfterMs, hardAfterMs } = serviceLadder(ttl);
  const graceMs = grace ?? Math.min(Math.floor(ttl / GRACE_SHARE), GRACE_MS_MAX);
  assertWithin('--grace', graceMs, [0, Math.floor((hardAfterMs - renewAfterMs) / 2)]);
  return graceMs;
}

function assertWithin(option: string, value: number, [min, max]: readonly [number, number]): void {
  if (value >= min && value <= max) return;
  throw usageFailure(
    `${option} must be from ${String(min)} to ${String(max)} ms${option === '--grace' ? ' with this --ttl' : ''}, not ${String(value)}.`,
  );
}
