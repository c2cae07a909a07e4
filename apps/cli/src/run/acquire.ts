/** Acquires the lease or the environment that a command of this machine runs under. */
import {
  type Lease,
  LeaseHeldError,
  type Leasehold,
  LeaseWaitTimeoutError,
  type WaitingFor,
} from '@leasehold/client';
import { LIMITS } from '@leasehold/keys-core';
import { CliFailure } from '../failures.ts';
import { durationText, printable } from '../output/text.ts';
import { type Scope, scopeText } from '../scope.ts';

/** What a command asks for. */
export interface LeaseRequest {
  readonly scope: Scope;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly holder: string;
  readonly comment: string | undefined;
  readonly metadata?: unknown;
  /** What to end with when somebody else holds the lease. */
  readonly heldExitCode: number;
  /** What has not happened then. */
  readonly heldHint: string;
  /** Where the lease is; undefined: in the controller's own datacenter. */
  readonly datacenter: string | undefined;
  /** How an environment is asked for; undefined for a lease. */
  readonly environment?: EnvironmentRequest | undefined;
}

/** What only an environment is asked for with. */
export interface EnvironmentRequest {
  readonly action: string;
  readonly order: 'oldest' | 'newest';
  readonly supersede: 'waiting' | 'running' | undefined;
  readonly override: { readonly reason: string } | undefined;
}

interface Acquiring {
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  /** Called with what it waits for, if it is an environment. */
  readonly onWaiting?: (waiting: WaitingFor) => void;
}

/** @throws {CliFailure} when somebody else holds it. */
export async function acquire(
  leasehold: Pick<Leasehold, 'defineLease' | 'environments'>,
  request: LeaseRequest,
  acquiring: Acquiring,
): Promise<Lease> {
  const { nowMs } = acquiring;
  const endsAtMs = nowMs() + request.waitMs;
  for (;;) {
    // A wait of weeks takes a place in line again.
    const waitMs = Math.min(Math.max(0, endsAtMs - nowMs()), LIMITS.waitMsInLineMax);
    try {
      return await acquireWithin(leasehold, request, acquiring, Math.floor(waitMs));
    } catch (error) {
      if (error instanceof LeaseWaitTimeoutError && nowMs() < endsAtMs) continue;
      if (error instanceof LeaseHeldError || error instanceof LeaseWaitTimeoutError) {
        throw heldFailure(request.scope, error, request);
      }
      throw error;
    }
  }
}

function acquireWithin(
  leasehold: Pick<Leasehold, 'defineLease' | 'environments'>,
  request: LeaseRequest,
  { signal, onWaiting }: Acquiring,
  waitMs: number,
): Promise<Lease> {
  const { scope, ttlMs, holder, comment, metadata, datacenter, environment } = request;
  const namespace = scope.namespace === '' ? [] : scope.namespace.split('.');
  const wanted = { signal, holder, comment, metadata, datacenter, waitMs };
  if (environment === undefined) {
    return leasehold.defineLease(namespace, { ttlMs }).acquire(scope.name, wanted);
  }
  const { supersede, ...how } = environment;
  return leasehold.environments.acquire([...namespace, scope.name], {
    ...wanted,
    ...how,
    supersede: waitMs > 0 ? supersede : undefined,
    durationMs: ttlMs,
    renew: true,
    onWaiting: waitMs > 0 ? onWaiting : undefined,
  });
}

/** Tells what a command waits for, and again when that has changed. */
export function waitingTeller(
  scope: Scope,
  print: (text: string) => void,
): (waiting: WaitingFor) => void {
  let told = '';
  return ({ by, since, action, comment, place, frozen }) => {
    const what = [action, comment].filter((part) => part !== null && part !== '').join(' ');
    const reason =
      frozen === null
        ? `${printable(by)}${what === '' ? '' : ` (${printable(what)})`} has it since ${since}`
        : `it is frozen until ${frozen.until} because ${printable(frozen.reason)}`;
    const text = `leasehold: waiting for ${scopeText(scope)}, place ${String(place)} in line: ${reason}.\n`;
    if (text !== told) print(text);
    told = text;
  };
}

/** The failure of a run that was not granted its lease. */
function heldFailure(
  scope: Scope,
  error: LeaseHeldError | LeaseWaitTimeoutError,
  { waitMs, heldExitCode, heldHint }: LeaseRequest,
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
    hint: `${heldHint}${waitMs > 0 ? '' : ' `--wait 10m` waits in line.'}`,
    retryable: true,
    details: error.details,
  });
}
