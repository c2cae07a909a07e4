/**
 * A controller and its database in one object, behind the interface between the library and the network. Who
 * gets what is decided as in the test double; it loses what a test tells it to lose.
 */
import type { GrantRef, ReleaseOutcome, UpdateOutcome } from '@leasehold/keys-core';
import type { AcquireAnswer, LeaseRenewResult } from '@leasehold/keys-core/leases';
import { oneAtATime, TestRegistry, type TestHolding } from '../double/registry.ts';
import type {
  AcquireRequest,
  LeaseWire,
  ReleaseRequest,
  UpdateRequest,
} from '../lease/lease-wire.ts';
import type { LeaseScope } from '../lease/lease.ts';
import type { Ending } from '../signals.ts';
import {
  DatacenterUnreachableError,
  LeaseholdCallError,
  OutcomeUnknownError,
  UnreachableError,
} from '../transport/errors.ts';

/**
 * What the network does with calls: `lose_reply` carries them out without a reply; with `busy` the controller
 * refuses them for now; with
 * `out_of_reach` the controller answers that their datacenter cannot be reached.
 */
export type Weather = 'fine' | 'busy' | 'lose_request' | 'lose_reply' | 'silent' | 'out_of_reach';

export class SimulatedWire implements LeaseWire {
  readonly #localNowMs: () => number;
  readonly #databaseNowMs: () => number;
  readonly #registry: TestRegistry;
  /** By idempotency key. */
  readonly #answers = new Map<string, AcquireAnswer>();
  readonly heartbeats: (readonly GrantRef[])[] = [];
  /** Called with each heartbeat's number before it travels. */
  beforeHeartbeat: (count: number) => void = () => undefined;
  /** The datacenter that each heartbeat named. */
  readonly heartbeatDatacenters: (string | undefined)[] = [];
  readonly releases: (ReleaseRequest & { readonly datacenter: string | undefined })[] = [];
  readonly acquires: AcquireRequest[] = [];
  /** Whether what a caller that may wait is granted is a grant that it has waited for. */
  isWaitedFor = false;
  weather: Weather = 'fine';
  isReachable = true;

  constructor(clock: { nowMs(): number }, databaseNowMs: () => number = () => clock.nowMs()) {
    this.#localNowMs = () => clock.nowMs();
    // In whole milliseconds, as tokens are.
    this.#databaseNowMs = () => Math.floor(databaseNowMs());
    // Nobody waits in line, so nothing happens by itself.
    const onTick = () => () => undefined;
    this.#registry = new TestRegistry({ nowMs: this.#databaseNowMs, onTick }, () => undefined);
  }

  /** Who holds the key by the database's clock. */
  holderOf(key: string): string | undefined {
    return this.#holdingOf(key)?.holder;
  }

  /** How many attempts were granted. */
  get grantsCount(): number {
    return [...this.#answers.values()].filter(({ outcome }) => outcome === 'granted').length;
  }

  /** By the database's clock; -Infinity if nobody holds it. */
  expiresAtMs(key: string): number {
    return this.#databaseNowMs() + (this.#holdingOf(key)?.remainingMs ?? -Infinity);
  }

  metadataOf(key: string): unknown {
    return this.#holdingOf(key)?.metadata;
  }

  /** Ends the grant of the key as an operator does, if there is one. */
  revoke(key: string): void {
    if (this.holderOf(key) !== undefined) this.#registry.revoke(this.#scopeOf(key), 'force', null);
  }

  blockRenewal(key: string, isBlocked = true): void {
    this.#registry.setRenewable(this.#scopeOf(key), !isBlocked);
  }

  acquire(request: AcquireRequest, _waitMs: number, ending: Ending): Promise<AcquireAnswer> {
    this.acquires.push(request);
    return this.#travel(ending, (localTimeMs) => this.#acquire(request, localTimeMs));
  }

  giveUp({ idempotencyKey }: AcquireRequest, ending: Ending): Promise<void> {
    return this.#travel(ending, () => {
      this.#answers.delete(idempotencyKey);
      this.#registry.giveUp(idempotencyKey);
    });
  }

  heartbeat(
    renewals: readonly GrantRef[],
    ending: Ending,
    datacenter?: string,
  ): Promise<LeaseRenewResult[]> {
    this.heartbeats.push(renewals);
    this.heartbeatDatacenters.push(datacenter);
    this.beforeHeartbeat(this.heartbeats.length);
    return this.#travel(ending, (localTimeMs) =>
      renewals.map((ref) => this.#registry.renewal('lease', ref, localTimeMs)),
    );
  }

  release(request: ReleaseRequest, ending: Ending, datacenter?: string): Promise<ReleaseOutcome> {
    this.releases.push({ ...request, datacenter });
    return this.#travel(ending, () => this.#registry.release('lease', request, request.result));
  }

  update(
    { metadata, ...ref }: UpdateRequest,
    ending: Ending,
    _datacenter?: string,
  ): Promise<UpdateOutcome> {
    return this.#travel(ending, () => this.#registry.update('lease', ref, metadata));
  }

  downgrade(): Promise<UpdateOutcome> {
    return Promise.reject(oneAtATime());
  }

  unreachableSince(): UnreachableError | undefined {
    return this.isReachable ? undefined : new UnreachableError();
  }

  async #travel<T>(ending: Ending, carryOut: (localTimeMs: number) => T | Promise<T>): Promise<T> {
    const localTimeMs = this.#localNowMs();
    const { weather } = this;
    if (weather === 'fine') return carryOut(localTimeMs);
    if (weather === 'busy') throw new LeaseholdCallError('controller.overloaded');
    if (weather === 'silent') return silence(ending);
    if (weather === 'out_of_reach') throw new DatacenterUnreachableError();
    if (weather === 'lose_reply') await carryOut(localTimeMs);
    throw new OutcomeUnknownError();
  }

  /** An attempt that is repeated gets the answer that it has had. */
  async #acquire(request: AcquireRequest, localTimeMs: number): Promise<AcquireAnswer> {
    const known = this.#answers.get(request.idempotencyKey);
    if (known !== undefined && known.outcome !== 'granted') return known;
    const isReplay = known?.lease.fencingToken === this.#holdingOf(request.key)?.fencingToken;
    const arrival = {
      face: 'lease',
      request: { ...request, confirms: request.confirms === true && this.isWaitedFor },
      waitMs: 0,
      localTimeMs,
      isThere: () => true,
    } as const;
    const answer = known !== undefined && isReplay ? known : await this.#registry.acquire(arrival);
    this.#answers.set(request.idempotencyKey, answer);
    if (answer.outcome !== 'granted') return answer;
    const deadlines = this.#registry.deadlines(answer.lease.leaseId, localTimeMs);
    return { ...answer, lease: { ...answer.lease, deadlines } };
  }

  #holdingOf(key: string): TestHolding | undefined {
    return this.#registry.holdingOf(this.#scopeOf(key));
  }

  #scopeOf(key: string): LeaseScope {
    const request = this.acquires.findLast((one) => one.key === key);
    return { face: 'lease', namespace: request?.namespace ?? [], key };
  }
}

function silence({ signal }: Ending): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
  });
}
