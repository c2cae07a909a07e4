/** What a command of this machine runs under: a lease, several together, or an environment. */
import {
  type AcquireOptions,
  EnvironmentFrozenError,
  EnvironmentSupersededError,
  keepUntilReleased,
  type Lease,
  type Leasehold,
  LeaseHeldError,
  type LeasesTogether,
  LeaseWaitTimeoutError,
  type WaitingFor,
} from '@leasehold/client';
import { isHolderKnown } from '@leasehold/keys-core';
import { CliFailure, failureOf } from '../failures.ts';
import { poolUseText } from '../output/grant-text.ts';
import { durationText, printable } from '../output/text.ts';
import { type Scope, scopeText } from '../scope.ts';

/** Beside others that share the lease, or with one of its permits. */
export type SharingMode = 'shared' | 'permit';

/** What a command asks for. */
export interface LeaseRequest {
  /** Several are acquired together. */
  readonly scopes: readonly [Scope, ...Scope[]];
  /** How one scope is held; by default alone. */
  readonly mode?: SharingMode | undefined;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly holder: string;
  readonly comment: string | undefined;
  readonly metadata?: unknown;
  /** What to end with when somebody else holds the lease, or the environment is frozen or was superseded. */
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
  /** Called with what it waits for, if it is an environment. */
  readonly onWaiting?: (waiting: WaitingFor) => void;
}

/** What was acquired: one lease, or several together. */
export type Acquired = Pick<
  LeasesTogether,
  'grants' | 'signal' | 'revoking' | 'remainingMs' | 'release'
>;

type Acquirers = Pick<Leasehold, 'defineLease' | 'acquireAll' | 'environments'>;

/** @throws {CliFailure} when somebody else holds it, or one of them; when it is frozen, or was superseded. */
export async function acquire(
  leasehold: Acquirers,
  request: LeaseRequest,
  acquiring: Acquiring,
): Promise<Acquired> {
  try {
    return await askFor(leasehold, request, acquiring);
  } catch (error) {
    if (error instanceof LeaseHeldError || error instanceof LeaseWaitTimeoutError) {
      throw heldFailure(error, request);
    }
    if (error instanceof EnvironmentFrozenError || error instanceof EnvironmentSupersededError) {
      const { message, code, retryable, details, ...failure } = failureOf(error);
      const exitCode = request.heldExitCode;
      const isOverridden = request.environment?.override !== undefined;
      const hint =
        error instanceof EnvironmentFrozenError && isOverridden
          ? overrideHint(error.allow)
          : failure.hint;
      throw new CliFailure(message, { code, exitCode, hint, retryable, details, cause: error });
    }
    throw error;
  }
}

/** Names are those that operators gave, of callers from another datacenter with that: `ci@dc1`. */
function overrideHint({ roles, people }: EnvironmentFrozenError['allow']): string {
  const who = [...roles.map((role) => `the role ${role}`), ...people].map(printable);
  const fromElsewhere =
    people.length === 0 ? '' : ' (from another datacenter a name is NAME@DATACENTER)';
  return who.length === 0
    ? 'Nobody may override this freeze.'
    : `This token may not override it. These may: ${who.join(', ')}${fromElsewhere}.`;
}

async function askFor(
  leasehold: Acquirers,
  request: LeaseRequest,
  { signal, onWaiting }: Acquiring,
): Promise<Acquired> {
  const { ttlMs, waitMs, holder, comment, metadata, datacenter, environment } = request;
  const [scope, ...others] = request.scopes;
  const wanted: AcquireOptions = { signal, holder, comment, metadata, datacenter, waitMs };
  if (others.length > 0) {
    const { mode } = request;
    const names = request.scopes.map((one) => ({
      namespace: segmentsOf(one),
      key: one.name,
      mode,
    }));
    const leases = await leasehold.acquireAll(names, { ...wanted, ttlMs });
    // The command runs until it is killed: until then nobody else may have any of them.
    keepUntilReleased(leases);
    return leases;
  }
  if (environment === undefined) {
    const kind = leasehold.defineLease(segmentsOf(scope), { ttlMs });
    return alone(await kind.acquire(scope.name, { ...wanted, mode: request.mode }));
  }
  const { supersede, ...how } = environment;
  return alone(
    await leasehold.environments.acquire([...segmentsOf(scope), scope.name], {
      ...wanted,
      ...how,
      supersede: waitMs > 0 ? supersede : undefined,
      durationMs: ttlMs,
      renew: true,
      onWaiting: waitMs > 0 ? onWaiting : undefined,
    }),
  );
}

function segmentsOf({ namespace }: Scope): string[] {
  return namespace === '' ? [] : namespace.split('.');
}

function alone(lease: Lease): Acquired {
  const { leaseId, fencingToken, namespace, key } = lease;
  return {
    grants: [{ leaseId, fencingToken, namespace, key }],
    signal: lease.signal,
    revoking: lease.revoking,
    remainingMs: () => lease.remainingMs(),
    release: (result, detail) => lease.release(result, detail),
  };
}

/** Tells what a command waits for, and again when that has changed. */
export function waitingTeller(
  scope: Scope,
  print: (text: string) => void,
): (waiting: WaitingFor) => void {
  let told = '';
  return (waiting) => {
    const place = `place ${String(waiting.place)} in line`;
    const text = `waiting for ${scopeText(scope)}, ${place}: ${obstacleText(waiting)}.`;
    if (text !== told) print(text);
    told = text;
  };
}

/** What stands in the way of a caller that waits. */
function obstacleText({ by, since, action, comment, frozen }: WaitingFor): string {
  if (frozen !== null) {
    return `it is frozen until ${frozen.until} because ${printable(frozen.reason)}`;
  }
  if (!isHolderKnown({ since })) return 'who has it is not known now';
  const what = [action, comment].filter((part) => part !== null && part !== '').join(' ');
  return `${printable(by)}${what === '' ? '' : ` (${printable(what)})`} has it since ${since}`;
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
export function heldFailure(
  error: LeaseHeldError | LeaseWaitTimeoutError,
  { waitMs, heldExitCode, heldHint }: Pick<LeaseRequest, 'waitMs' | 'heldExitCode' | 'heldHint'>,
): CliFailure {
  const { namespace, key } = error.scope;
  const scope = { namespace: namespace.join('.'), name: key };
  const { by, since, remainingMs, comment, waiters, waitedMs, pool } = error.heldBy;
  const what = comment === null || comment === '' ? '' : ` (${printable(comment)})`;
  // When its time is over nobody holds it: the caller that is named is first in line.
  const message = !isHolderKnown(error.heldBy)
    ? `${scopeText(scope)} was not granted: who has it is not known now.`
    : remainingMs > 0
      ? `${scopeText(scope)} is held by ${printable(by)}${what} since ${since}, for another ${durationText(remainingMs)} unless it is renewed.`
      : `${scopeText(scope)} is about to be granted to ${printable(by)}${what}, who has waited since ${since}.`;
  const use = pool === undefined ? '' : ` In use: ${poolUseText(pool)}.`;
  const line = waiters > 0 ? ` Waiting in line: ${String(waiters)}.` : '';
  const waited = waitMs > 0 ? ` Waited for ${durationText(waitedMs)}.` : '';
  return new CliFailure(`${message}${use}${waited}${line}`, {
    code: error.code,
    exitCode: heldExitCode,
    hint: `${heldHint}${waitMs > 0 ? '' : ' `--wait 10m` waits in line.'}`,
    retryable: true,
    details: error.details,
  });
}
