import { constants } from 'node:os';
import {
  LeaseLost,
  LeaseRevoked,
  LeaseRevoking,
  type LeaseHeldError,
  type LeaseWaitTimeoutError,
} from '@leasehold/client';
import { CliFailure, RUN_EXIT_CODES, SIGNAL_EXIT_CODE } from '../failures.ts';
import { durationText, printable } from '../output/text.ts';
import { scopeText, type Scope } from '../scope.ts';
import type { CommandEnd } from './guard-protocol.ts';

/** Why a command was stopped. */
export type Stop =
  { readonly why: 'deadline' } | { readonly why: 'lost' | 'revoking'; readonly reason: unknown };

/** How a command ended, and why it was stopped, if it was. */
export interface RunEnd extends CommandEnd {
  readonly stop: Stop | undefined;
  /** Whether it had ended before the holder's own deadline. */
  readonly isInTime: boolean;
}

/** The exit code that passes a command's end on: its own, or 128 plus the number of its signal. */
export function exitCodeOf({ exitCode, signal }: CommandEnd): number {
  return signal === null ? (exitCode ?? 0) : SIGNAL_EXIT_CODE + constants.signals[signal];
}

/** How a command ended: `ended with exit code 3`, `was ended by SIGKILL`. */
export function endText({ exitCode, signal }: CommandEnd): string {
  return signal === null ? `ended with exit code ${String(exitCode)}` : `was ended by ${signal}`;
}

/** Why a command is being stopped: a clause that follows the name of its lease. */
function stopText(stop: Stop): string {
  if (stop.why === 'deadline') return 'could not be renewed in time';
  const { reason } = stop;
  if (reason instanceof LeaseRevoking) return `is being revoked${noteText(reason.note)}`;
  if (reason instanceof LeaseRevoked) return `was revoked${noteText(reason.note)}`;
  if (reason instanceof LeaseLost) return LOSS_TEXT[reason.reason];
  return stop.why === 'lost' ? 'was lost' : 'will not be renewed';
}

const LOSS_TEXT: Record<LeaseLost['reason'], string> = {
  expired: 'has expired',
  superseded: 'is held by somebody else now',
  revoked: 'was revoked',
  released: 'was released by somebody who knows its token',
  unreachable: 'was lost: no controller answered in time',
};

function noteText(note: string | null): string {
  return note === null ? '' : ` (${printable(note)})`;
}

/** The message as a stop begins. */
export function stoppingText(scope: Scope, stop: Stop, leftMs: number): string {
  const act =
    stop.why === 'lost'
      ? 'the command is killed'
      : `the command was sent SIGTERM, and is killed in ${durationText(leftMs)}`;
  return `leasehold: ${scopeText(scope)} ${stopText(stop)}; ${act}.`;
}

/** The message when no controller answered a release. */
export function notReleasedText(scope: Scope, leftMs: number): string {
  const until = leftMs > 0 ? ` in about ${durationText(leftMs)}` : '';
  return `leasehold: ${scopeText(scope)} could not be released: no controller answered. It expires${until}.`;
}

/** The failure of a run that was not granted its lease. */
export function heldFailure(
  scope: Scope,
  error: LeaseHeldError | LeaseWaitTimeoutError,
  { waitMs, heldExitCode }: { readonly waitMs: number; readonly heldExitCode: number },
): CliFailure {
  const { by, since, remainingMs, comment, waiters, waitedMs } = error.heldBy;
  const what = comment === null || comment === '' ? '' : ` (${printable(comment)})`;
  // When its time is over nobody holds it: the caller that is named is first in line.
  const message =
    remainingMs > 0
      ? `${scopeText(scope)} is held by ${printable(by)}${what} since ${since}, for another ${durationText(remainingMs)} unless it is renewed.`
      : `${scopeText(scope)} is about to be granted to ${printable(by)}${what}, who has waited since ${since}.`;
  const line = waiters > 0 ? ` Waiting in line: ${String(waiters)}.` : '';
  const waited = waitMs > 0 ? ` Waited for ${durationText(waitedMs)}.` : '';
  return new CliFailure(`${message}${waited}${line}`, {
    code: error.code,
    exitCode: heldExitCode,
    hint: `The command was not run.${waitMs > 0 ? '' : ' `--wait 10m` waits in line.'}`,
    retryable: true,
    details: error.details,
  });
}

/** The failure of a run whose command was stopped because of its lease. */
export function lostFailure(scope: Scope, end: RunEnd, stop: Stop): CliFailure {
  const why =
    stop.why === 'lost' && stop.reason instanceof LeaseLost ? stop.reason.reason : stop.why;
  return lost(`${scopeText(scope)} ${stopText(stop)}, and the command ${endText(end)}.`, end, why);
}

/** The failure of a run whose lease was gone before its command ended, without a notice. */
export function goneFailure(scope: Scope, end: RunEnd, released: string): CliFailure {
  return lost(
    `${scopeText(scope)} was ${GONE_TEXT[released] ?? released} while the command ran, which ${endText(end)}.`,
    end,
    released,
  );
}

const GONE_TEXT: Readonly<Record<string, string>> = {
  not_found: 'not known any more',
  superseded: 'given to somebody else',
  expired: 'over',
};

function lost(message: string, { exitCode, signal }: CommandEnd, why: string): CliFailure {
  return new CliFailure(message, {
    code: 'lease.lost',
    exitCode: RUN_EXIT_CODES.lost,
    hint: 'The work may be incomplete. `leasehold leases history` shows what happened to the lease.',
    details: { why, exitCode, signal },
  });
}
