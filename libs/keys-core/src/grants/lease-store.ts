/**
 * The kernel's transitions as one caller uses them: each goes through its coalescer into a batch
 * statement and comes back with its own answer. Faces are built on this and on nothing below it.
 */
import { LeaseError } from '../kernel/errors.ts';
import type { GrantOutcome, GrantRequest, ReleaseOutcome, RenewOutcome } from '../kernel/lease.ts';
import { RequestsInProgress } from '../kernel/requests.ts';
import { type Face, type Resource, resourceKey } from '../kernel/resource.ts';
import type { KernelStore, StatementKind } from '../postgres/kernel-store.ts';
import { createCoalescer } from './coalesce.ts';
import { createRefusalReader, createSlowLane, grantBatch, type PlainOutcome } from './granting.ts';
import { createPools, inPool, isForSlot } from './pooling.ts';
import { releaseBatch } from './releasing.ts';
import { observeRenewals, type RenewAnswer, renewBatch } from './renewing.ts';
import type { ReleaseRequest } from './sql/release.ts';
import type { RenewRequest } from './sql/renew.ts';
import { keyText } from './sql/requests.ts';

const GRANTS_PER_STATEMENT_MAX = 200;
const RENEWALS_PER_STATEMENT_MAX = 1_000;
const RELEASES_PER_STATEMENT_MAX = 500;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;
/** More grants than this wait only when more are asked for than PostgreSQL carries out. */
const PRESSED_COUNT = 1_000;
const PRESSED_MS = 25;

// Gathering: the items of one call arrive one after the other and must go into one statement.
const COMMON = {
  inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
  queueMax: QUEUE_MAX,
  isGathering: true,
};

export interface LeaseStore {
  /** Whether so many grants wait for their statement that another one would only wait longer. */
  isPressed(): boolean;
  /** Whether a grant of the resource is being requested here: another request would only delay it. */
  isAsked(resource: Resource): boolean;
  /**
   * Grants the resource, or reports who holds it.
   * @throws {LeaseError} `grant.hold_off`, `grant.contended`, `request.outcome_unknown`.
   */
  grant(request: GrantRequest, signal?: AbortSignal): Promise<GrantOutcome>;
  /**
   * Why the resource would not be granted now, by a plain read, which is much cheaper; undefined when it may be.
   * @throws {LeaseError} `grant.hold_off`.
   */
  refusal(request: GrantRequest, signal?: AbortSignal): Promise<GrantOutcome | undefined>;
  /** @throws {LeaseError} `grant.contended` when the row is kept locked: try again. */
  renew(face: Face, request: RenewRequest): Promise<RenewOutcome>;
  /**
   * Renews many that came in one call, in as few statements; answers in their order. A renewal whose
   * row is kept locked has no answer and does not delay the others.
   */
  renewAll(face: Face, requests: readonly RenewRequest[]): Promise<RenewAnswer[]>;
  release(face: Face, request: ReleaseRequest): Promise<ReleaseOutcome>;
}

export function createLeaseStore(store: KernelStore): LeaseStore {
  const counted = (kind: StatementKind) => (size: number) => store.observer.batch(kind, size);
  const lanes = { renew: { fullUntilMs: 0 }, release: { fullUntilMs: 0 } };
  const renewals = perFace((face) =>
    createCoalescer<RenewRequest, RenewAnswer>({
      ...COMMON,
      run: (requests) => renewBatch(store, face, requests, lanes.renew),
      keysOf: (request) => [request.leaseId],
      batchSizeMax: RENEWALS_PER_STATEMENT_MAX,
      onBatch: counted('renew'),
    }),
  );
  const releases = perFace((face) =>
    createCoalescer<ReleaseRequest, ReleaseOutcome>({
      ...COMMON,
      run: (requests) => releaseBatch(store, face, requests, lanes.release),
      keysOf: (request) => [request.leaseId],
      batchSizeMax: RELEASES_PER_STATEMENT_MAX,
      onBatch: counted('release'),
    }),
  );
  return {
    ...createGrants(store),
    async renew(face, request) {
      const outcome = await renewals[face].submit(request);
      observeRenewals(store, face, [request], [outcome]);
      if (outcome === undefined) throw new LeaseError('grant.contended');
      return outcome;
    },
    async renewAll(face, requests) {
      const outcomes = await renewals[face].submitAll(requests);
      observeRenewals(store, face, requests, outcomes);
      return outcomes;
    },
    async release(face, request) {
      const outcome = await releases[face].submit(request);
      store.observer.release(face, outcome);
      return outcome;
    },
  };
}

/** Asks for grants, of slots of pools too. */
function createGrants(
  store: KernelStore,
): Pick<LeaseStore, 'isPressed' | 'isAsked' | 'refusal' | 'grant'> {
  const askAlone = createSlowLane(store);
  const grants = createCoalescer<GrantRequest, PlainOutcome>({
    ...COMMON,
    run: (requests) => grantBatch(store, requests, askAlone),
    keysOf: grantKeys,
    batchSizeMax: GRANTS_PER_STATEMENT_MAX,
    nowMs: () => store.clock.nowMs(),
    onBatch: (size) => store.observer.batch('grant', size),
  });
  const pools = createPools(store);
  const readRefusal = createRefusalReader(store);
  const asked = new RequestsInProgress<PlainOutcome>();
  return {
    isPressed() {
      const { count, oldestMs } = grants.backlog();
      return count > PRESSED_COUNT && oldestMs > PRESSED_MS;
    },
    isAsked: (resource) => asked.has(resourceKey(resource)),
    refusal(request, signal) {
      if (isForSlot(request)) return pools.refusal(request, signal);
      return readRefusal(request, signal).then((refused) =>
        inPool(request, refused, (slot) => pools.refusal(slot, signal)),
      );
    },
    grant(request, signal) {
      if (isForSlot(request)) return pools.grant(request, signal);
      const key = resourceKey(request);
      const ask = (): Promise<GrantOutcome> =>
        asked
          .run(key, () => grants.submit(request, signal))
          .then((outcome) => inPool(request, outcome, (slot) => pools.grant(slot, signal)));
      // A statement grants a resource once, so a crowd would be served one by one, and the caller whose
      // turn it is in line last: so a caller that is not the first does a plain read before.
      if (!asked.has(key) || request.isQueued === true) return ask();
      return readRefusal(request, signal).then((refused) =>
        refused === undefined
          ? ask()
          : inPool(request, refused, (slot) => pools.grant(slot, signal)),
      );
    },
  };
}

function perFace<T>(make: (face: Face) => T): Record<Face, T> {
  return { key: make('key'), lease: make('lease'), environment: make('environment') };
}

/** A statement grants each resource at most once, and answers each idempotency key at most once. */
function grantKeys(request: GrantRequest): string[] {
  const { principal, idempotencyKey } = request;
  const keys = [resourceKey(request)];
  if (idempotencyKey !== undefined) keys.push(keyText({ principal, idempotencyKey }));
  return keys;
}
