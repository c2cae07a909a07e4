/**
 * Environment leases (design 6.3, after keel): only one caller at a time checks that an action may run in
 * an environment and records it. The lease covers the check and the record, not the action.
 */
import { errorText, LeaseError } from '../kernel/errors.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import { newTimedId } from '../kernel/clock.ts';
import { LIMITS } from '../kernel/limits.ts';
import type { GrantOutcome, GrantRef, GrantRequest, ReleaseOutcome } from '../kernel/lease.ts';
import { assertResource, joinNamespace, type Resource } from '../kernel/resource.ts';
import { assertText } from '../kernel/text.ts';
import {
  type LeaseStore,
  type ReleaseRequest,
  inFence,
  notHeld,
  observeHeld,
  releaseAlone,
} from '../grants/index.ts';
import { assertNotInHook, type CoordinatorStore } from '../postgres/guest-transaction.ts';
import { type HeldAnswer, assertTtl, heldAnswer } from './index.ts';

/** Keel's default, in milliseconds. */
export const ENVIRONMENT_LEASE_MS = 60_000;

export interface EnvironmentLeaseDeps<Tx = unknown> {
  readonly store: CoordinatorStore<Tx>;
  readonly leases: LeaseStore;
  /** Who owns the lease: only this principal releases it. */
  readonly principal: string;
}

/** One string, or a namespace's segments with the name as the last element. */
export type Environment = string | readonly string[];

export interface EnvironmentRequest {
  /** What the environment is leased for. */
  readonly action: string;
  /** The holder that others see, usually a host. */
  readonly holder: string;
  /** The purpose, for people who find it held. */
  readonly comment?: string | undefined;
  /** After how long the lease expires, in milliseconds; by default {@link ENVIRONMENT_LEASE_MS}. */
  readonly durationMs?: number | undefined;
}

/** An environment that is leased. */
export interface EnvironmentLease extends GrantRef, AsyncDisposable {
  /**
   * Releases it, as `await using` does. Closing it twice is safe. Closing a lease that expired or was
   * taken over changes nothing: the present holder has another lease.
   */
  close(): Promise<ReleaseOutcome>;
}

export type EnvironmentAcquire =
  { readonly outcome: 'granted'; readonly lease: EnvironmentLease } | HeldAnswer;

export interface EnvironmentUse<Recorded, Tx> extends EnvironmentRequest {
  /** Returns the reasons why the action may not run now; null or an empty list if it may. */
  veto?(tx: Tx): Promise<string | readonly string[] | null> | string | readonly string[] | null;
  /** Records that the environment is in use. */
  record(tx: Tx): Promise<Recorded> | Recorded;
}

export type EnvironmentUseOutcome<Recorded> =
  | (GrantRef & { readonly outcome: 'recorded'; readonly recorded: Recorded })
  | { readonly outcome: 'vetoed'; readonly reasons: readonly string[] }
  | HeldAnswer;

/**
 * Leases an environment if nobody holds it; never waits. The refusal has the holder, the start, the action
 * and the comment.
 * @throws {LeaseError} `request.invalid`, `lease.ttl_out_of_range`, `grant.hold_off`,
 * `grant.contended`, `request.outcome_unknown`; `environment.frozen`, which only a caller of a controller
 * can override.
 */
export async function tryAcquireEnvironment(
  deps: EnvironmentLeaseDeps,
  environment: Environment,
  request: EnvironmentRequest,
): Promise<EnvironmentAcquire> {
  const outcome = await grantEnvironment(deps, environment, request);
  if (outcome.outcome !== 'granted') return refusal(outcome);
  const { leaseId, fencingToken } = outcome.grant;
  const close = (): Promise<ReleaseOutcome> =>
    deps.leases.release('environment', releaseOf(deps, request, { leaseId, fencingToken }));
  return {
    outcome: 'granted',
    lease: {
      leaseId,
      fencingToken,
      close,
      async [Symbol.asyncDispose]() {
        await close();
      },
    },
  };
}

/**
 * Checks and records in an environment: leases it if nobody holds it, and then, in one fenced transaction,
 * calls `veto` and `record` and releases the lease. So the check and the record belong together: the next
 * check sees the record, and no check runs in between.
 *
 * A veto is committed together with the lease's end and with what `veto` wrote; `record` is not
 * called then. Errors of `veto` and `record` are rethrown unchanged: nothing of either is kept, and
 * the lease is released.
 * @throws {LeaseError} `lease.not_held` when the lease ran out or was revoked meanwhile, and
 * `request.deadline` when it took longer than the lease or 10 s: nothing was recorded. Otherwise as
 * {@link tryAcquireEnvironment}.
 */
export async function withEnvironmentLease<Recorded, Tx>(
  deps: EnvironmentLeaseDeps<Tx>,
  environment: Environment,
  use: EnvironmentUse<Recorded, Tx>,
): Promise<EnvironmentUseOutcome<Recorded>> {
  const outcome = await grantEnvironment(deps, environment, use);
  if (outcome.outcome !== 'granted') return refusal(outcome);
  const { leaseId, fencingToken } = outcome.grant;
  const ref = { leaseId, fencingToken };
  try {
    return await checkAndRecord(deps, ref, use);
  } catch (error) {
    const request = releaseOf(deps, use, ref);
    const failed = { ...request, result: 'failed', detail: errorText(error) } as const;
    // The caller gets the error even if this release fails: the lease runs out by itself.
    await deps.leases.release('environment', failed).catch(() => undefined);
    throw error;
  }
}

async function checkAndRecord<Recorded, Tx>(
  deps: EnvironmentLeaseDeps<Tx>,
  ref: GrantRef,
  use: EnvironmentUse<Recorded, Tx>,
): Promise<EnvironmentUseOutcome<Recorded>> {
  const { store } = deps;
  const request = releaseOf(deps, use, ref);
  const { answer, released } = await inFence(store, ref, {
    async work(guest) {
      const reasons = listOf(await guest.call(async (tx) => (await use.veto?.(tx)) ?? null));
      const made: EnvironmentUseOutcome<Recorded> =
        reasons.length > 0
          ? { outcome: 'vetoed', reasons }
          : { outcome: 'recorded', recorded: await guest.call((tx) => use.record(tx)), ...ref };
      // The last statement: it locks the row, judges whether the lease is in force, and ends it.
      const end = await releaseAlone(guest.sql, 'environment', ending(request, made));
      if (end.outcome !== 'released') throw notHeld(ref);
      return { answer: made, released: end.released };
    },
    close: () => Promise.resolve(),
  });
  if (released !== undefined) observeHeld(store, released);
  store.observer.release('environment', 'released');
  return answer;
}

/** A veto is kept in the history of the environment: the lease failed, for these reasons. */
function ending(request: ReleaseRequest, made: EnvironmentUseOutcome<unknown>): ReleaseRequest {
  if (made.outcome !== 'vetoed') return request;
  return { ...request, result: 'failed', detail: errorText(`vetoed: ${made.reasons.join('; ')}`) };
}

/** @throws {LeaseError} `request.invalid` for anything else: what is not understood permits nothing. */
function listOf(answer: string | readonly string[] | null): readonly string[] {
  if (answer === null) return [];
  const reasons = typeof answer === 'string' ? [answer] : answer;
  const isList = Array.isArray(reasons) && reasons.every((reason) => typeof reason === 'string');
  if (isList) return reasons;
  throw new LeaseError(
    'request.invalid',
    'veto must return a reason, a list of reasons, or null: nothing was recorded',
    { details: { field: 'veto' } },
  );
}

async function grantEnvironment(
  { store, leases, principal }: EnvironmentLeaseDeps,
  environment: Environment,
  request: EnvironmentRequest,
): Promise<GrantOutcome> {
  assertNotInHook();
  const ttlMs = request.durationMs ?? ENVIRONMENT_LEASE_MS;
  assertTtl(ttlMs);
  assertText('action', request.action, { bytesMin: 1, bytesMax: LIMITS.tagBytesMax });
  assertText('holder', request.holder, { bytesMin: 1, bytesMax: LIMITS.holderBytesMax });
  assertText('comment', request.comment ?? '', { bytesMax: LIMITS.commentBytesMax });
  const grantRequest: GrantRequest = {
    ...environmentResource(environment),
    leaseId: newTimedId(store),
    holder: request.holder,
    principal,
    tag: request.action,
    comment: request.comment ?? null,
    metadata: null,
    ladder: serviceLadder(ttlMs),
    actor: request.holder,
  };
  return leases.grant(grantRequest);
}

/** @throws {LeaseError} `request.invalid`. */
function environmentResource(environment: Environment): Resource {
  if (typeof environment !== 'string' && !Array.isArray(environment)) {
    throw new LeaseError('request.invalid', 'environment must be a string or a list of strings', {
      details: { field: 'environment' },
    });
  }
  const segments: readonly string[] = typeof environment === 'string' ? [environment] : environment;
  const resource = {
    face: 'environment',
    namespace: joinNamespace(segments.slice(0, -1)),
    name: segments.at(-1) ?? '',
  } as const;
  assertResource(resource);
  return resource;
}

function releaseOf(
  { principal }: EnvironmentLeaseDeps,
  { holder }: EnvironmentRequest,
  ref: GrantRef,
): ReleaseRequest {
  return { ...ref, principal, actor: holder, result: 'ok', detail: null };
}

function refusal(outcome: Exclude<GrantOutcome, { outcome: 'granted' }>): HeldAnswer {
  // Nobody waits for an environment, and no idempotency key was given.
  if (outcome.outcome === 'recorded') throw new LeaseError('grant.contended');
  return heldAnswer('environment', outcome, 0);
}
