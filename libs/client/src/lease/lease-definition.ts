/** A kind of lease: declared once, acquired for many keys. */
import { errorText } from '@leasehold/keys-core';
import { assertAcquire, assertDefinition, assertWork, plainMetadata } from '../inputs.ts';
import type { AcquireIntent, LeaseAttempt, LeaseTaker } from './acquire.ts';
import { reasonOf } from './calls.ts';
import type { HeldLease } from './held-lease.ts';
import { LeaseholdCallError } from '../transport/errors.ts';
import { LeaseLost, type Lease } from './lease.ts';

export interface LeaseDefinitionOptions {
  /** How long a grant lasts without a renewal: 1 s to 24 h; by default 30 s. */
  readonly ttlMs?: number | undefined;
  /** How long to wait in line: up to 7 days; by default 5 s. */
  readonly waitMs?: number | undefined;
  /** Shown to people with the namespace. */
  readonly description?: string | undefined;
  /**
   * How many may hold one key at once, each with a lease of its own; and, with `total`, how many may hold keys
   * of this namespace together. Up to 1,000. Without it nothing is declared, and what is in force stays: where permits
   * were declared, or an operator has set them, each lease takes one. Elsewhere one holds a key at a time.
   */
  readonly permits?: number | LeasePermits | undefined;
}

/** How many may hold leases at once. */
export interface LeasePermits {
  readonly perKey: number;
  /** All keys together; by default without a limit. */
  readonly total?: number | undefined;
}

export interface TryAcquireOptions {
  readonly ttlMs?: number | undefined;
  /** Cancels the attempt when it aborts; a grant of this attempt is released. */
  readonly signal?: AbortSignal | undefined;
  /** Shown to callers that are refused. */
  readonly comment?: string | undefined;
  /** Any JSON up to 16 KiB, shown to people. */
  readonly metadata?: unknown;
  /**
   * `shared`: beside all others that share the key, while nobody holds it alone. Callers that wait to hold it
   * alone come before those that ask later to share it. `permit`: with one of the number of permits that another
   * service has declared, or an operator has set; a definition with `permits` needs no mode, and is neither shared nor
   * held alone. `exclusive`: alone, and refused where permits are in force. By default with a permit where they are in
   * force, and otherwise alone.
   */
  readonly mode?: 'shared' | 'permit' | 'exclusive' | undefined;
  /** The holder; by default that of the client. */
  readonly holder?: string | undefined;
  /**
   * The datacenter of the lease; by default the controller's. Callers that must exclude each other must
   * name the same one, because the same scope in two datacenters is two leases. The controller forwards
   * the calls. While it cannot reach the datacenter, callers that wait ask again until their `waitMs` is over; then,
   * and without a wait at once, they fail with `reservation.datacenter_unreachable`.
   */
  readonly datacenter?: string | undefined;
}

export interface AcquireOptions extends TryAcquireOptions {
  readonly waitMs?: number | undefined;
}

/** Made by `leasehold.defineLease`. */
export interface LeaseDefinition {
  readonly namespace: readonly string[];
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly description: string | undefined;
  readonly permits: LeasePermits | undefined;
  /**
   * Acquires the lease of a key, and waits in line for up to `waitMs`.
   * @throws {LeaseWaitTimeoutError} if it did not become free in time, or `LeaseHeldError` with `waitMs`
   * 0; `LeaseSelfDeadlockError` if this work holds it; `UnreachableError`; `OutcomeUnknownError`;
   * the reason of the signal; `LeaseholdCallError` with another code of the registry, such as
   * `lease.permits_differ` if another service has declared another number of permits.
   */
  acquire(key: string, options?: AcquireOptions): Promise<Lease>;
  /** Acquires it if it is free now; otherwise the holder is in the result. @throws as {@link acquire}. */
  tryAcquire(key: string, options?: TryAcquireOptions): Promise<LeaseAttempt>;
  /**
   * Acquires the lease, runs `work` with it in its context, and releases it: with result `failed` if
   * `work` throws. Use `lease.signal` to stop, and `lease.assertHeld()` before guarded acts.
   * @throws as {@link acquire}; what `work` throws; {@link LeaseLost} if the lease was lost before `work`
   * was done, because then its effects may not have been guarded: by the signal, by the clock, or by the
   * answer to the release. Its `result` is what `work` returned.
   */
  run<T>(key: string, work: (lease: Lease) => T | Promise<T>, options?: AcquireOptions): Promise<T>;
}

const TTL_MS = 30_000;
const WAIT_MS = 5_000;
const NO_OPTIONS: AcquireOptions = {};

/** Asks once their numbers of permits are declared, for what is then left to do: see `Declarations`. */
export type WhenDeclared = <T>(
  definitions: readonly LeaseDefinition[],
  intent: AcquireIntent,
  ask: (declared: AcquireIntent) => Promise<T>,
) => Promise<T>;

type DefinitionInput = { readonly namespace: readonly string[] } & LeaseDefinitionOptions;

/** @throws {LeaseholdCallError} `request.invalid` if the namespace or an option is not valid. */
export function createLeaseDefinition(
  taker: LeaseTaker,
  holder: string,
  { namespace: given, ...options }: DefinitionInput,
  whenDeclared: WhenDeclared,
): LeaseDefinition {
  assertDefinition(given, options);
  const { ttlMs = TTL_MS, waitMs = WAIT_MS, description } = options;
  // What the caller changes later was not checked.
  const namespace = Object.freeze([...given]);
  const permits = permitsOf(options);

  const intentFor = (key: string, wanted: AcquireOptions, mayWaitMs: number): AcquireIntent => {
    const wantedTtlMs = wanted.ttlMs ?? ttlMs;
    assertAcquire(key, wanted, wantedTtlMs);
    return {
      scope: { face: 'lease', namespace, key },
      ttlMs: wantedTtlMs,
      holder: wanted.holder ?? holder,
      mode: modeOf(wanted, permits),
      action: undefined,
      comment: wanted.comment,
      metadata: plainMetadata(wanted.metadata),
      datacenter: wanted.datacenter,
      signal: wanted.signal,
      waitMs: mayWaitMs,
      renews: true,
    };
  };

  const acquire = (key: string, wanted: AcquireOptions = NO_OPTIONS): Promise<HeldLease> => {
    try {
      const intent = intentFor(key, wanted, wanted.waitMs ?? waitMs);
      if (permits === undefined) return taker.acquire(intent);
      return whenDeclared([definition], intent, (declared) => taker.acquire(declared));
    } catch (error) {
      return Promise.reject(reasonOf(error));
    }
  };

  const definition: LeaseDefinition = {
    namespace,
    ttlMs,
    waitMs,
    description,
    permits,
    acquire,
    async tryAcquire(key, wanted = NO_OPTIONS) {
      const intent = intentFor(key, wanted, 0);
      if (permits === undefined) return taker.tryAcquire(intent);
      return whenDeclared([definition], intent, (declared) => taker.tryAcquire(declared));
    },
    async run(key, work, wanted) {
      assertWork(work);
      return runUnder(await acquire(key, wanted), work);
    },
  };
  return definition;
}

/** A copy of its own. */
function permitsOf({ permits }: LeaseDefinitionOptions): LeasePermits | undefined {
  if (permits === undefined) return undefined;
  return Object.freeze(typeof permits === 'number' ? { perKey: permits } : { ...permits });
}

/** @throws {LeaseholdCallError} `request.invalid` for a mode of a lease with permits. */
function modeOf(
  { mode }: AcquireOptions,
  permits: LeasePermits | undefined,
): AcquireIntent['mode'] {
  if (permits === undefined) return mode;
  if (mode === undefined || mode === 'permit') return 'permit';
  throw new LeaseholdCallError('request.invalid', {
    message: 'mode must be permit or absent: the lease has a number of permits',
    details: { field: 'mode' },
  });
}

/** Runs `work` under a lease and releases it with the outcome. @throws see {@link LeaseDefinition.run}. */
export async function runUnder<T>(
  lease: HeldLease,
  work: (lease: Lease) => T | Promise<T>,
): Promise<T> {
  let result: T;
  try {
    // A query of a builder runs when it is awaited: that must be within the context, too.
    result = await lease.run(async () => await work(lease));
  } catch (error) {
    await lease.release('failed', errorText(error));
    throw error;
  }
  const { signal } = lease;
  if (signal.aborted && signal.reason instanceof LeaseLost) {
    await lease.release('failed', signal.reason.message);
    throw signal.reason;
  }
  const lost = await lease.finish(result);
  if (lost !== undefined) throw lost;
  return result;
}

/** Shows in the compiler's error what is wrong with a literal segment. */
export interface InvalidSegment<Segment extends string> {
  readonly 'a segment must not be empty or contain "."': Segment;
}

/** A valid segment of a namespace. A `string` that is not a literal is checked at run time. */
export type ValidSegment<Segment extends string> = Segment extends '' | `${string}.${string}`
  ? string extends Segment
    ? Segment
    : InvalidSegment<Segment>
  : Segment;

/** A namespace whose literal segments are all valid. */
export type ValidNamespace<Namespace extends readonly string[]> = {
  readonly [Place in keyof Namespace]: ValidSegment<Namespace[Place]>;
};
