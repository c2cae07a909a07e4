/**
 * A controller and its database in one object, behind the interface between the library and the network:
 * it grants, renews and releases by a clock of its own, and loses what a test tells it to lose.
 */
import {
  serviceLadder,
  UNCONFIRMED_LADDER,
  type GrantRef,
  type ReleaseOutcome,
} from '@leasehold/keys-core';
import type { AcquireAnswer, LeaseDeadlines, LeaseRenewResult } from '@leasehold/keys-core/leases';
import {
  DatacenterUnreachableError,
  OutcomeUnknownError,
  UnreachableError,
} from '../transport/call-errors.ts';
import type { AcquireRequest, LeaseWire, ReleaseRequest } from '../lease/wire/lease-wire.ts';
import type { Ending } from '../signals.ts';

interface Row {
  readonly leaseId: string;
  readonly token: number;
  readonly holder: string;
  readonly ttlMs: number;
  readonly key: string;
  expiresAtMs: number;
  isUnconfirmed: boolean;
  end: 'released' | 'revoked' | undefined;
  isBlocked: boolean;
}

/**
 * What the network does with calls: `lose_reply` carries them out without a reply; with
 * `out_of_reach` the controller answers that their datacenter cannot be reached.
 */
export type Weather = 'fine' | 'lose_request' | 'lose_reply' | 'silent' | 'out_of_reach';

export class SimulatedWire implements LeaseWire {
  readonly #localNowMs: () => number;
  readonly #databaseNowMs: () => number;
  readonly #rows = new Map<string, Row>();
  readonly #attempts = new Map<string, AcquireAnswer | 'given_up'>();
  readonly heartbeats: (readonly GrantRef[])[] = [];
  /** Called with each heartbeat's number before it travels. */
  beforeHeartbeat: (count: number) => void = () => undefined;
  /** The datacenter that each heartbeat named. */
  readonly heartbeatDatacenters: (string | undefined)[] = [];
  readonly releases: ReleaseRequest[] = [];
  readonly acquires: AcquireRequest[] = [];
  weather: Weather = 'fine';
  isReachable = true;
  #lastToken = 0;

  constructor(clock: { nowMs(): number }, databaseNowMs: () => number = () => clock.nowMs()) {
    this.#localNowMs = () => clock.nowMs();
    this.#databaseNowMs = databaseNowMs;
  }

  /** Who holds the key by the database's clock. */
  holderOf(key: string): string | undefined {
    return this.#unexpired(key)?.holder;
  }

  /** How many attempts were granted. */
  get grantsCount(): number {
    return [...this.#attempts.values()].filter(
      (answer) => answer !== 'given_up' && answer.outcome === 'granted',
    ).length;
  }

  expiresAtMs(key: string): number {
    return this.#rows.get(key)?.expiresAtMs ?? -Infinity;
  }

  /** Ends the grant of the key as an operator does. */
  revoke(key: string): void {
    const row = this.#rows.get(key);
    if (row !== undefined) row.end = 'revoked';
  }

  blockRenewal(key: string, isBlocked = true): void {
    const row = this.#rows.get(key);
    if (row !== undefined) row.isBlocked = isBlocked;
  }

  acquire(request: AcquireRequest, _waitMs: number, ending: Ending): Promise<AcquireAnswer> {
    this.acquires.push(request);
    return this.#travel(ending, (localTimeMs) => this.#acquire(request, localTimeMs));
  }

  giveUp({ idempotencyKey }: AcquireRequest, ending: Ending): Promise<void> {
    return this.#travel(ending, () => {
      const answer = this.#attempts.get(idempotencyKey);
      if (answer !== undefined && answer !== 'given_up' && answer.outcome === 'granted') {
        this.#release(answer.lease);
      }
      this.#attempts.set(idempotencyKey, 'given_up');
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
      renewals.map(({ leaseId }) => this.#renew(leaseId, localTimeMs)),
    );
  }

  release(request: ReleaseRequest, ending: Ending): Promise<ReleaseOutcome> {
    this.releases.push(request);
    return this.#travel(ending, () => this.#release(request));
  }

  unreachableSince(): UnreachableError | undefined {
    return this.isReachable ? undefined : new UnreachableError();
  }

  async #travel<T>(ending: Ending, carryOut: (localTimeMs: number) => T): Promise<T> {
    const localTimeMs = this.#localNowMs();
    const { weather } = this;
    if (weather === 'fine') return Promise.resolve(carryOut(localTimeMs));
    if (weather === 'silent') return silence(ending);
    if (weather === 'out_of_reach') throw new DatacenterUnreachableError();
    if (weather === 'lose_reply') carryOut(localTimeMs);
    throw new OutcomeUnknownError();
  }

  #unexpired(key: string): Row | undefined {
    const row = this.#rows.get(key);
    const isOver =
      row === undefined || row.end !== undefined || this.#databaseNowMs() >= row.expiresAtMs;
    return isOver ? undefined : row;
  }

  #acquire(request: AcquireRequest, localTimeMs: number): AcquireAnswer {
    const known = this.#attempts.get(request.idempotencyKey);
    if (known === 'given_up') throw new Error('granted to nobody');
    if (known?.outcome === 'held') return known;
    const held = this.#unexpired(request.key);
    const isReplay = known !== undefined && held?.leaseId === known.lease.leaseId;
    const answer = isReplay
      ? this.#grantedAnswer(held, localTimeMs)
      : held === undefined
        ? this.#grantedAnswer(this.#grant(request), localTimeMs)
        : heldAnswer(held.holder, held.expiresAtMs - this.#databaseNowMs());
    this.#attempts.set(request.idempotencyKey, answer);
    return answer;
  }

  #grant({ key, holder, ttlMs = 60_000, confirms = false }: AcquireRequest): Row {
    this.#lastToken += 1;
    const firstMs = confirms ? UNCONFIRMED_LADDER.ttlMs : ttlMs;
    const row: Row = {
      leaseId: `00000000-0000-4000-8000-${String(this.#lastToken).padStart(12, '0')}`,
      token: this.#lastToken,
      expiresAtMs: this.#databaseNowMs() + firstMs,
      isUnconfirmed: confirms,
      end: undefined,
      isBlocked: false,
      ...{ key, holder, ttlMs },
    };
    this.#rows.set(key, row);
    return row;
  }

  #grantedAnswer(row: Row, localTimeMs: number): AcquireAnswer {
    return {
      outcome: 'granted',
      waitedMs: 0,
      lease: {
        leaseId: row.leaseId,
        fencingToken: String(row.token),
        namespace: [],
        key: row.key,
        deadlines: this.#deadlines(row, localTimeMs),
      },
    };
  }

  #deadlines(row: Row, localTimeMs: number): LeaseDeadlines {
    const ladder = row.isUnconfirmed ? UNCONFIRMED_LADDER : serviceLadder(row.ttlMs);
    const expiresAtMs =
      localTimeMs + Math.min(ladder.ttlMs, row.expiresAtMs - this.#databaseNowMs());
    return {
      renewAtMs: expiresAtMs - (ladder.ttlMs - ladder.renewAfterMs),
      loseAtMs: expiresAtMs - (ladder.ttlMs - ladder.hardAfterMs),
    };
  }

  #renew(leaseId: string, localTimeMs: number): LeaseRenewResult {
    const row = [...this.#rows.values()].find((candidate) => candidate.leaseId === leaseId);
    if (row === undefined) return { leaseId, outcome: 'refused', reason: 'superseded' };
    if (row.end !== undefined) return { leaseId, outcome: 'refused', reason: row.end };
    if (this.#databaseNowMs() >= row.expiresAtMs) {
      return { leaseId, outcome: 'refused', reason: 'expired' };
    }
    if (row.isBlocked) return { leaseId, outcome: 'refused', reason: 'renewal_blocked' };
    row.expiresAtMs = this.#databaseNowMs() + row.ttlMs;
    row.isUnconfirmed = false;
    return { leaseId, outcome: 'renewed', deadlines: this.#deadlines(row, localTimeMs) };
  }

  #release({ leaseId }: GrantRef): ReleaseOutcome {
    const row = [...this.#rows.values()].find((candidate) => candidate.leaseId === leaseId);
    if (row === undefined) return 'superseded';
    if (row.end !== undefined) return row.end === 'released' ? 'already_released' : 'revoked';
    if (this.#databaseNowMs() >= row.expiresAtMs) return 'expired';
    row.end = 'released';
    return 'released';
  }
}

function heldAnswer(by: string, remainingMs: number): AcquireAnswer {
  return {
    outcome: 'held',
    since: '2030-01-01T00:00:00.000Z',
    waitedMs: 0,
    comment: null,
    action: null,
    waiters: 0,
    ...{ by, remainingMs },
  };
}

function silence({ signal }: Ending): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
  });
}
