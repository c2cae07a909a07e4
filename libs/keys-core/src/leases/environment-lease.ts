/**
 * Environment leases: only one caller at a time checks that an action may run in
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
  type Supersede,
  inFence,
  notHeld,
  observeHeld,
  releaseAlone,
  wakeWaiters,
} from '../grants/index.ts';
import { assertNotInHook, type CoordinatorStore } from '../postgres/guest-transaction.ts';
import {
  type CallerLife,
  type HeldAnswer,
  type LeaseService,
  assertTtl,
  createLeaseService,
  heldAnswer,
} from './index.ts';

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
  /** How long to wait in its line, in milliseconds; by default it is answered at once. */
  readonly waitMs?: number | undefined;
  /** Whether it stands before those that came earlier, instead of after them. */
  readonly order?: 'oldest' | 'newest' | undefined;
  /** With `waitMs`: ends older requests for the same action that wait, and with `running` revokes what runs. */
  readonly supersede?: Supersede | undefined;
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
 * Leases an environment if nobody holds it, or waits in its line for up to `waitMs`. The refusal has the holder, the
 * start, the action and the comment.
 * @throws {LeaseError} `request.invalid`, `lease.ttl_out_of_range`, `grant.hold_off`,
 * `grant.contended`, `request.outcome_unknown`; `environment.frozen`, which only a caller of a controller
 * can override; `environment.superseded` while it waited.
 */
export async function tryAcquireEnvironment(
  deps: EnvironmentLeaseDeps,
  environment: Environment,
  request: EnvironmentRequest,
): Promise<EnvironmentAcquire> {
  const leased = await leaseEnvironment(deps, environment, request);
  if ('outcome' in leased) return leased;
  const { leaseId, fencingToken } = leased;
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
  const ref = await leaseEnvironment(deps, environment, use);
  if ('outcome' in ref) return ref;
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
  const { answer, released } = await inFence(store, [ref], {
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
  if (released !== undefined) {
    wakeWaiters(store, released);
    observeHeld(store, released);
  }
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

async function leaseEnvironment(
  deps: EnvironmentLeaseDeps,
  environment: Environment,
  request: EnvironmentRequest,
): Promise<GrantRef | HeldAnswer> {
  assertNotInHook();
  const ttlMs = request.durationMs ?? ENVIRONMENT_LEASE_MS;
  const { waitMs = 0 } = request;
  assertTtl(ttlMs);
  assertWait(waitMs);
  assertText('action', request.action, { bytesMin: 1, bytesMax: LIMITS.tagBytesMax });
  assertText('holder', request.holder, { bytesMin: 1, bytesMax: LIMITS.holderBytesMax });
  assertText('comment', request.comment ?? '', { bytesMax: LIMITS.commentBytesMax });
  const resource = environmentResource(environment);
  if (waitMs > 0) return leaseInLine(deps, resource, { ...request, waitMs, ttlMs });
  const grantRequest: GrantRequest = {
    ...resource,
    leaseId: newTimedId(deps.store),
    holder: request.holder,
    principal: deps.principal,
    tag: request.action,
    comment: request.comment ?? null,
    metadata: null,
    ladder: serviceLadder(ttlMs),
    actor: request.holder,
  };
  const outcome = await deps.leases.grant(grantRequest);
  if (outcome.outcome !== 'granted') return refusal(outcome);
  const { leaseId, fencingToken } = outcome.grant;
  return { leaseId, fencingToken };
}

/** This process is there for as long as it runs. */
const HERE: CallerLife = { signal: new AbortController().signal, isAlive: () => true };

/** One for all calls of a process: they look and keep their places together. */
const services = new WeakMap<LeaseStore, LeaseService>();

function serviceOf({ store, leases }: EnvironmentLeaseDeps): LeaseService {
  const service =
    services.get(leases) ?? createLeaseService({ store, leases, face: 'environment' });
  services.set(leases, service);
  return service;
}

/** Waits in the line as a caller of a controller does, at the database itself. */
async function leaseInLine(
  deps: EnvironmentLeaseDeps,
  { namespace, name }: Resource,
  request: EnvironmentRequest & { readonly waitMs: number; readonly ttlMs: number },
): Promise<GrantRef | HeldAnswer> {
  const { store, principal } = deps;
  const service = serviceOf(deps);
  const { holder, action, comment, ttlMs, order, supersede } = request;
  const asked = { namespace, name, holder, action, comment, ttlMs, order, supersede };
  const caller = { principal, actor: holder, role: 'client', namespaces: null };
  const idempotencyKey = store.ids.uuid();
  const endsAtMs = store.clock.nowMs() + request.waitMs;
  for (;;) {
    const localTimeMs = store.clock.nowMs();
    const waitMs = Math.max(1, Math.ceil(endsAtMs - localTimeMs));
    const answer = await service.acquire(
      { ...asked, waitMs, localTimeMs, idempotencyKey },
      caller,
      HERE,
    );
    if (answer.outcome === 'held') return answer;
    if (answer.outcome === 'granted') {
      const { leaseId, fencingToken } = answer.lease;
      return { leaseId, fencingToken };
    }
  }
}

/** @throws {LeaseError} `request.invalid`. */
function assertWait(waitMs: number): void {
  if (Number.isInteger(waitMs) && waitMs >= 0 && waitMs <= LIMITS.waitMsInLineMax) return;
  const message = `waitMs must be a whole number from 0 to ${String(LIMITS.waitMsInLineMax)}`;
  throw new LeaseError('request.invalid', message, { details: { field: 'waitMs' } });
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
  // No idempotency key was given.
  if (outcome.outcome === 'recorded') throw new LeaseError('grant.contended');
  return heldAnswer('environment', outcome, 0);
}
