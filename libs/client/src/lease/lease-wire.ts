/**
 * The calls behind leases, with one interface for both faces. Local times are read here, just
 * before a call is sent, so that an answer's deadlines are never later than those of the grant.
 */
import {
  type BatchFailure,
  type Coalescer,
  createCoalescer,
  type GrantRef,
  LIMITS,
  type ReleaseOutcome,
  type UpdateOutcome,
} from '@leasehold/keys-core';
import type {
  AcquireAllAnswer,
  AcquireAnswer,
  LeaseRenewResult,
  ReleaseInput,
} from '@leasehold/keys-core/leases';
import { TRACE_ORIGINS } from '@leasehold/service-kit/tracing';
import type { Machine } from '../machine.ts';
import type { Ending } from '../signals.ts';
import type { ControllerApi } from '../transport/controller-client.ts';
import {
  callErrorOf,
  codedError,
  LeaseholdCallError,
  type UnreachableError,
} from '../transport/errors.ts';
import type { Reachability } from '../transport/links.ts';
import { callWithin } from './calls.ts';

/** One attempt to get a grant. Sent again unchanged, it is the same attempt. */
export interface AcquireRequest {
  readonly namespace: readonly string[];
  readonly key: string;
  /** Undefined for an environment: the controller's own duration. */
  readonly ttlMs: number | undefined;
  readonly holder: string;
  /** How it is held if several may hold it at once; `exclusive` never as one of several. */
  readonly mode?: 'permit' | 'shared' | 'exclusive' | undefined;
  readonly action?: string | undefined;
  readonly comment?: string | undefined;
  readonly metadata?: unknown;
  /** Where the lease is to be; by default the controller's own datacenter. */
  readonly datacenter?: string | undefined;
  /** Why an environment is asked for although it is frozen. */
  readonly override?: { readonly reason: string } | undefined;
  /** How a request for an environment that waits stands in its line. */
  readonly order?: 'oldest' | 'newest' | undefined;
  readonly supersede?: 'waiting' | 'running' | undefined;
  /** The key of the attempt before, whose place in that line, or whose grant, was lost. */
  readonly again?: string | undefined;
  readonly idempotencyKey: string;
  /** Whether the grant is renewed before it is handed out: until then it is a short one. */
  readonly confirms?: boolean | undefined;
}

export type ReleaseRequest = Omit<ReleaseInput, 'datacenter'>;

export interface UpdateRequest extends GrantRef {
  readonly metadata: unknown;
}

/**
 * Every method throws errors of this library, or the reason of the ending that was passed in. An acquire that does
 * not wait and a release fail as soon as it is over; what they sent may arrive.
 */
export interface LeaseWire {
  /**
   * Asks for a grant, waiting in line for up to `waitMs`. The call takes `callMs`, if that is given and less: then the
   * answer may be `waiting`, and the same request goes on at its place.
   */
  acquire(
    request: AcquireRequest,
    waitMs: number,
    ending: Ending,
    callMs?: number,
  ): Promise<AcquireAnswer>;
  /** Makes sure that the attempt holds nothing, whatever its outcome was. */
  giveUp(request: AcquireRequest, ending: Ending): Promise<void>;
  /**
   * One call for leases of one datacenter, by default the controller's own. The answer may lack
   * some of the leases.
   */
  heartbeat(
    renewals: readonly GrantRef[],
    ending: Ending,
    datacenter?: string,
  ): Promise<LeaseRenewResult[]>;
  /** Releases a lease of that datacenter, by default the controller's own. */
  release(request: ReleaseRequest, ending: Ending, datacenter?: string): Promise<ReleaseOutcome>;
  /** Replaces the metadata of a lease of that datacenter, by default the controller's own. */
  update(request: UpdateRequest, ending: Ending, datacenter?: string): Promise<UpdateOutcome>;
  /** Shares a lease of that datacenter, by default the controller's own, which is held alone. */
  downgrade(ref: GrantRef, ending: Ending, datacenter?: string): Promise<UpdateOutcome>;
  /** Why nothing sent since that moment can have arrived; undefined if it can. */
  unreachableSince(momentMs: number): UnreachableError | undefined;
}

/** The call of an acquire of several leases; all others are those of single leases. */
export interface TogetherWire {
  /** As `acquire`, for the leases with these names; `request` names the first. */
  acquireAll(
    request: AcquireRequest,
    scopes: readonly Pick<AcquireRequest, 'namespace' | 'key' | 'mode'>[],
    how: { readonly waitMs: number; readonly callMs?: number | undefined; readonly ending: Ending },
  ): Promise<AcquireAllAnswer>;
}

// The two faces on the wire: see {@link LeaseWire}.

interface WireDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly reachability: Reachability;
}

/**
 * Leases: acquires that do not wait are sent together, as are releases. One that waits is sent alone.
 * Calls for another datacenter are sent separately, so that an unreachable one holds up no other.
 */
export function createLeaseWire(deps: WireDeps): LeaseWire & TogetherWire {
  const { api, machine } = deps;
  const acquiresOf = byDatacenter(() =>
    createBatches<AcquireRequest, AcquireAnswer>(
      machine,
      ACQUIRES_PER_CALL_MAX,
      async (requests) => {
        const localTimeMs = machine.clock.nowMs();
        const items = requests.map(itemOf);
        const { results } = await api.leases.acquireMany.mutate({ localTimeMs, items });
        return results.some(isFailed) ? results.map(answerOf) : (results as AcquireAnswer[]);
      },
    ),
  );
  const releasesOf = byDatacenter((datacenter) =>
    createBatches<ReleaseRequest, ReleaseOutcome>(machine, RELEASES_PER_CALL_MAX, async (items) => {
      const { results } = await api.leases.releaseMany.mutate({ items: [...items], datacenter });
      return results.map((result): ReleaseOutcome | Promise<ReleaseOutcome> =>
        result.outcome === 'failed' ? failed(result) : result.outcome,
      );
    }),
  );
  return {
    ...sharedCalls(api.leases, deps),
    acquire(request, waitMs, ending, callMs) {
      if (waitMs <= 0) return acquiresOf(request.datacenter).submit(request, ending);
      const localTimeMs = machine.clock.nowMs();
      const wholeMs = Math.ceil(waitMs);
      return api.leases.acquire.mutate(
        {
          ...itemOf(request),
          localTimeMs,
          waitMs: wholeMs,
          callMs,
          confirms: request.confirms,
        },
        ending,
      );
    },
    acquireAll(request, scopes, { waitMs, callMs, ending }) {
      const localTimeMs = machine.clock.nowMs();
      const names = scopes.map(({ namespace, key, mode }) => ({
        namespace: [...namespace],
        key,
        mode,
      }));
      const acquired = api.leases.acquireAll.mutate(
        {
          ...withoutName(itemOf(request)),
          scopes: names,
          localTimeMs,
          waitMs: Math.ceil(waitMs),
          callMs,
          confirms: request.confirms,
        },
        { signal: ending.signal },
      );
      return unlessOver(ending, acquired);
    },
    release: (request, ending, datacenter) => releasesOf(datacenter).submit(request, ending),
    downgrade: ({ leaseId, fencingToken }, { signal }, datacenter) =>
      api.leases.downgrade.mutate({ leaseId, fencingToken, datacenter }, { signal }),
  };
}

/** Environments: few are taken at a time. One that waits is sent as a call of its own kind. */
export function createEnvironmentWire(deps: WireDeps): LeaseWire {
  const { api, machine } = deps;
  return {
    ...sharedCalls(api.environments, deps),
    downgrade: () => Promise.reject(heldAlone()),
    acquire(request, waitMs, ending, callMs) {
      const { order, supersede, again, ...asked } = request;
      const { namespace, key, ttlMs, action = '', confirms, ...rest } = asked;
      const localTimeMs = machine.clock.nowMs();
      const environment = [...namespace, key];
      const named = { environment, action, localTimeMs, durationMs: ttlMs, mode: undefined };
      const wanted = { ...rest, ...named };
      const { signal } = ending;
      if (waitMs <= 0) {
        return unlessOver(ending, api.environments.tryAcquire.mutate(wanted, { signal }));
      }
      const waiting = { waitMs: Math.ceil(waitMs), callMs, confirms, order, supersede, again };
      return api.environments.acquire.mutate({ ...wanted, ...waiting }, { signal });
    },
    async release(request, ending, datacenter) {
      const released = api.environments.release.mutate(
        { ...request, datacenter },
        { signal: ending.signal },
      );
      return (await unlessOver(ending, released)).outcome;
    },
  };
}

/** What the holder of an environment is told that wants to share it: there is no call for that. */
export function heldAlone(): LeaseholdCallError {
  return new LeaseholdCallError('request.invalid', {
    message: 'mode must be exclusive: an environment has one holder at a time, and is not shared',
    details: { field: 'mode' },
  });
}

/** Fails as soon as the ending is over: not every transport ends a call then. */
function unlessOver<T>(ending: Ending, call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    ending.onEnd(reject);
    call.then(resolve, reject);
  });
}

/** The calls that both faces make in the same way. */
function sharedCalls(
  face: ControllerApi['leases' | 'environments'],
  { machine, reachability }: WireDeps,
): Pick<LeaseWire, 'giveUp' | 'heartbeat' | 'update' | 'unreachableSince'> {
  return {
    unreachableSince: (momentMs) => reachability.unreachableSince(momentMs),
    async giveUp({ idempotencyKey, datacenter }, ending) {
      await face.cancel.mutate({ idempotencyKey, datacenter }, ending);
    },
    update: (request, { signal }, datacenter) =>
      face.update.mutate({ ...request, datacenter }, { signal }),
    async heartbeat(renewals, ending, datacenter) {
      const localTimeMs = machine.clock.nowMs();
      const { results } = await face.heartbeat.mutate(
        { localTimeMs, renewals: [...renewals], datacenter },
        ending,
      );
      // A renewal that is not well-formed gets no answer here.
      return results.filter((result) => result.outcome !== 'failed');
    },
  };
}

/** Makes one object for each datacenter that is named; a service names a handful. */
function byDatacenter<Batches>(
  make: (datacenter: string | undefined) => Batches,
): (datacenter: string | undefined) => Batches {
  const made = new Map<string | undefined, Batches>();
  return (datacenter) => {
    let batches = made.get(datacenter);
    if (batches === undefined) made.set(datacenter, (batches = make(datacenter)));
    return batches;
  };
}

type AcquireItem = Parameters<ControllerApi['leases']['acquireMany']['mutate']>[0]['items'][number];

/** What is sent of a request: usually the request itself, because a copy of each would cost more than to send it. */
function itemOf(request: AcquireRequest): AcquireItem {
  if (request.ttlMs === undefined) throw new LeaseholdCallError('lease.ttl_out_of_range');
  const isItem = request.action === undefined && request.confirms === undefined;
  return (isItem ? request : withoutOthers(request)) as AcquireItem;
}

function withoutOthers({ action: _action, confirms: _, ...item }: AcquireRequest) {
  return item;
}

function withoutName({ namespace: _namespace, key: _, ...item }: AcquireItem) {
  return item;
}

/** This many acquires with the largest metadata and comment fit into the largest message. */
const ACQUIRES_PER_CALL_MAX = 40;
/** Leases that were acquired together are released by one call. */
const RELEASES_PER_CALL_MAX = LIMITS.leasesTogetherMax;
const CALLS_IN_FLIGHT_MAX = 4;
const QUEUE_MAX = 100_000;
const CALL_MS = 5_000;

/** An item of a batch that failed by itself, as it is sent on the wire. */
interface FailedItem {
  readonly outcome: 'failed';
  readonly error: Pick<
    LeaseholdCallError,
    'code' | 'message' | 'retryable' | 'details' | 'incidentId'
  >;
}

/**
 * Joins many calls of this process into few calls on the wire: see the coalescer. A batch that has no answer in time
 * is not waited for; its items have ended before it.
 */
function createBatches<Item, Answer>(
  machine: Machine,
  batchSizeMax: number,
  send: (items: readonly Item[]) => Promise<readonly (Answer | Promise<Answer>)[]>,
): Coalescer<Item, Answer> {
  return createCoalescer<Item, Answer>({
    run: (items) => callWithin(machine, { ms: CALL_MS }, () => send(items)),
    failureOf: batchFailureOf,
    batchSizeMax,
    inFlightMax: CALLS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
    origins: TRACE_ORIGINS,
  });
}

function isFailed(result: { readonly outcome: string }): result is FailedItem {
  return result.outcome === 'failed';
}

function answerOf(result: AcquireAnswer | FailedItem): AcquireAnswer | Promise<AcquireAnswer> {
  return isFailed(result) ? failed(result) : result;
}

/** Nobody may wait for it any more: an answer that comes too late must not end the process. */
function failed({ error }: FailedItem): Promise<never> {
  const failure = Promise.reject(codedError(error.code, error));
  failure.catch(() => undefined);
  return failure;
}

/** A wrong item must not fail the others; retries are up to the waiting caller. */
function batchFailureOf(thrown: unknown): BatchFailure | undefined {
  const error = callErrorOf(thrown);
  const isOfAnItem =
    error instanceof LeaseholdCallError &&
    (error.code === 'request.invalid' || error.code === 'request.too_large');
  return isOfAnItem ? 'data' : undefined;
}
