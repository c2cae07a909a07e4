import { LIMITS, serviceLadder } from '@leasehold/keys-core';
import { durationWord } from '@leasehold/service-kit';
import type { Command } from 'commander';
import { EXIT_CODES } from '../failures/exit-codes.ts';
import { usageFailure } from '../failures/failure.ts';
import {
  assertDuration,
  durationOf,
  wholeNumberOf,
  withDuration,
  type DurationRange,
} from '../options.ts';

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

const TTL_RANGE: DurationRange = [LIMITS.ttlMsMin, LIMITS.ttlMsMax];
/** Much longer than one call may wait: the command asks again. */
const WAIT_MS_MAX = 366 * 24 * 60 * 60 * 1_000;

/** Adds the options of `run`. */
export function withRunOptions(command: Command): Command {
  withDuration(command, '--ttl', {
    about: 'how long the lease lasts without a renewal',
    range: TTL_RANGE,
    defaultMs: TTL_MS,
  });
  withDuration(command, '--wait', {
    about: 'how long to wait in line for it',
    range: [0, WAIT_MS_MAX],
    defaultMs: 0,
  });
  return command
    .option('--holder <name>', 'the holder that others see; by default USER@HOST/PID')
    .option('--comment <text>', 'the purpose that others see; by default the name of CMD')
    .option(
      '--grace <time>',
      'how long before the lease is lost CMD is sent SIGTERM; a sixth of --ttl, 5s at most, unless given',
      durationOf('--grace'),
    )
    .option(
      '--held-exit <n>',
      'the exit code if somebody else holds it, to distinguish that from a failure of CMD',
      wholeNumberOf('--held-exit'),
      EXIT_CODES.held,
    )
    .option('--pass-token', 'pass LEASEHOLD_TOKEN to CMD, which does not get it otherwise');
}

type CheckedOptions = Pick<RunCommandOptions, 'ttl' | 'grace' | 'heldExit'>;

const EXIT_CODE_MAX = 255;

/**
 * How long before its lease is lost a command is sent SIGTERM.
 * @throws {CliFailure} `cli.usage` for options that are out of range.
 */
export function checkedGraceMs({ ttl, grace, heldExit }: CheckedOptions): number {
  if (heldExit > EXIT_CODE_MAX) {
    throw usageFailure(
      `--held-exit must be from 0 to ${String(EXIT_CODE_MAX)}, not ${String(heldExit)}.`,
    );
  }
  // At least half of the time in which the lease is renewed is left for renewals.
  const { renewAfterMs, hardAfterMs } = serviceLadder(ttl);
  const graceMs = grace ?? Math.min(Math.floor(ttl / GRACE_SHARE), GRACE_MS_MAX);
  const range: DurationRange = [0, Math.floor((hardAfterMs - renewAfterMs) / 2)];
  assertDuration(`With --ttl ${durationWord(ttl)}, --grace`, graceMs, range);
  return graceMs;
}
