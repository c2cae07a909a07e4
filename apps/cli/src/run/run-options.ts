import { LIMITS, serviceLadder } from '@leasehold/keys-core';
import type { Command } from 'commander';
import { EXIT_CODES } from '../failures/exit-codes.ts';
import { usageFailure } from '../failures/failure.ts';
import { wholeNumberOf } from '../options.ts';

/** How `leasehold leases run` was called. */
export interface RunCommandOptions {
  readonly namespace?: string;
  readonly datacenter?: string;
  readonly ttl: number;
  readonly wait: number;
  readonly holder?: string;
  readonly comment?: string;
  readonly grace?: number;
  readonly heldExit: number;
  readonly passToken?: boolean;
}

const TTL_MS = 30_000;
/** As much as a short lease can spare, and no more than most programs need to end. */
const GRACE_SHARE = 6;
const GRACE_MS_MAX = 5_000;

/** Adds the options of `run`. */
export function withRunOptions(command: Command): Command {
  return command
    .option(
      '--ttl <ms>',
      'how long the lease lasts without a renewal',
      wholeNumberOf('--ttl'),
      TTL_MS,
    )
    .option(
      '--wait <ms>',
      'how long to wait in line for it, 120000 at most',
      wholeNumberOf('--wait'),
      0,
    )
    .option('--holder <name>', 'the holder that others see; by default USER@HOST/PID')
    .option('--comment <text>', 'the purpose that others see; by default the name of CMD')
    .option(
      '--grace <ms>',
      'how long before the lease is lost CMD is sent SIGTERM; a sixth of --ttl, 5 s at most, unless given',
      wholeNumberOf('--grace'),
    )
    .option(
      '--held-exit <n>',
      'the exit code if somebody else holds it, to distinguish that from a failure of CMD',
      wholeNumberOf('--held-exit'),
      EXIT_CODES.refused,
    )
    .option('--pass-token', 'pass LEASEHOLD_TOKEN to CMD, which does not get it otherwise');
}

const EXIT_CODE_MAX = 255;

/**
 * How long before its lease is lost a command is sent SIGTERM.
 * @throws {CliFailure} `cli.usage` for options that are out of range.
 */
export function checkedGraceMs({ ttl, wait, grace, heldExit }: RunCommandOptions): number {
  assertWithin('--ttl', ttl, [LIMITS.ttlMsMin, LIMITS.ttlMsMax]);
  assertWithin('--wait', wait, [0, LIMITS.waitMsMax]);
  assertWithin('--held-exit', heldExit, [0, EXIT_CODE_MAX]);
  // At least half of the time in which the lease is renewed is left for renewals.
  const { renewAfterMs, hardAfterMs } = serviceLadder(ttl);
  const graceMs = grace ?? Math.min(Math.floor(ttl / GRACE_SHARE), GRACE_MS_MAX);
  assertWithin('--grace', graceMs, [0, Math.floor((hardAfterMs - renewAfterMs) / 2)]);
  return graceMs;
}

function assertWithin(option: string, value: number, [min, max]: readonly [number, number]): void {
  if (value >= min && value <= max) return;
  const where = option === '--grace' ? ' with this --ttl' : '';
  throw usageFailure(
    `${option} must be from ${String(min)} to ${String(max)}${where}, not ${String(value)}.`,
  );
}
