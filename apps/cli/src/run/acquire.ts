/** What a command that needs leases acquires: one, or several together. */
import {
  type AcquireOptions,
  type Leasehold,
  LeaseHeldError,
  type LeasesTogether,
  LeaseWaitTimeoutError,
} from '@leasehold/client';
import { LIMITS } from '@leasehold/keys-core';
import { CliFailure } from '../failures.ts';
import { durationText, printable } from '../output/text.ts';
import { type Scope, scopeText } from '../scope.ts';

/** What a command asks for. */
export interface LeaseRequest {
  /** Several are acquired together. */
  readonly scopes: readonly [Scope, ...Scope[]];
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
}

/** What was acquired: one lease, or several together. */
export type Acquired = Pick<
  LeasesTogether,
  'grants' | 'signal' | 'revoking' | 'remainingMs' | 'release'
>;

/** @throws {CliFailure} when somebody else holds it, or one of them. */
export async function acquire(
  leasehold: Pick<Leasehold, 'defineLease' | 'acquireAll'>,
  request: LeaseRequest,
  { signal, nowMs }: { readonly signal: AbortSignal; readonly nowMs: () => number },
): Promise<Acquired> {
  const { holder, comment, metadata, datacenter } = request;
  const endsAtMs = nowMs() + request.waitMs;
  for (;;) {
    // A longer wait is several calls: each takes a place in line of its own.
    const waitMs = Math.floor(Math.min(Math.max(0, endsAtMs - nowMs()), LIMITS.waitMsMax));
    try {
      const wanted = { signal, holder, comment, metadata, datacenter, waitMs };
      return await acquireOnce(leasehold, request, wanted);
    } catch (error) {
      if (error instanceof LeaseWaitTimeoutError && nowMs() < endsAtMs) continue;
      if (error instanceof LeaseHeldError || error instanceof LeaseWaitTimeoutError) {
        throw heldFailure(error, request);
      }
      throw error;
    }
  }
}

async function acquireOnce(
  leasehold: Pick<Leasehold, 'defineLease' | 'acquireAll'>,
  { scopes: [scope, ...others], ttlMs }: LeaseRequest,
  wanted: AcquireOptions,
): Promise<Acquired> {
  const segmentsOf = ({ namespace }: Scope): string[] =>
    namespace === '' ? [] : namespace.split('.');
  if (others.length > 0) {
    const names = [scope, ...others].map((one) => ({ namespace: segmentsOf(one), key: one.name }));
    return leasehold.acquireAll(names, { ...wanted, ttlMs });
  }
  const kind = leasehold.defineLease(segmentsOf(scope), { ttlMs });
  const lease = await kind.acquire(scope.name, wanted);
  return {
    grants: [
      {
        leaseId: lease.leaseId,
        fencingToken: lease.fencingToken,
        namespace: lease.namespace,
        key: lease.key,
      },
    ],
    signal: lease.signal,
    revoking: lease.revoking,
    remainingMs: () => lease.remainingMs(),
    release: (result, detail) => lease.release(result, detail),
  };
}

/** How a shell and a command find what was acquired. */
export function leaseVariables([first, ...others]: Acquired['grants']): Record<string, string> {
  if (first === undefined || others.length > 0) {
    const list = [first, ...others].flatMap((grant) =>
      grant === undefined ? [] : { ...grant, namespace: grant.namespace.join('.') },
    );
    return { LEASEHOLD_LEASES: JSON.stringify(list) };
  }
  return { LEASEHOLD_LEASE_ID: first.leaseId, LEASEHOLD_FENCING_TOKEN: first.fencingToken };
}

/** The failure of a run that was not granted its lease. */
function heldFailure(
  error: LeaseHeldError | LeaseWaitTimeoutError,
  { waitMs, heldExitCode, heldHint }: LeaseRequest,
): CliFailure {
  const { namespace, key } = error.scope;
  const scope = { namespace: namespace.join('.'), name: key };
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
