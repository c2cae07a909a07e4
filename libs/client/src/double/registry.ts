/**
 * The leases of a test, in memory. Who gets what is decided by `LeaseModel`: the rules that the statements of
 * a controller are compared with, in any order, by the model-based test of the kernel.
 */
import {
  deadlinesFrom,
  LIMITS,
  serviceLadder,
  UNCONFIRMED_LADDER,
  type Face,
  type GrantRef,
  type ReleaseOutcome,
  type UpdateOutcome,
} from '@leasehold/keys-core';
import type {
  AcquireAnswer,
  GrantedLease,
  HeldAnswer,
  LeaseDeadlines,
  LeaseRenewResult,
  RevocationNotice,
} from '@leasehold/keys-core/leases';
import { LeaseModel, type ModelAsk, type ModelGrant } from '@leasehold/keys-core/model';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { ttlRangeText } from '../inputs.ts';
import type { AcquireRequest } from '../lease/lease-wire.ts';
import type { LeaseScope } from '../lease/lease.ts';
import type { ObservedScope, ObservedState } from '../observing.ts';
import {
  EnvironmentFrozenError,
  EnvironmentSupersededError,
  LeaseholdCallError,
} from '../transport/errors.ts';

/** The double has one holder of a lease at a time. */
export function oneAtATime(): LeaseholdCallError {
  return new LeaseholdCallError('request.invalid', {
    message:
      'mode must be exclusive here: permits and shared leases are not part of the test double; use a controller',
    details: { field: 'mode' },
  });
}

export type TestFace = LeaseScope['face'];
/** The clock of the database. */
type RegistryClock = Pick<TickingClock, 'nowMs' | 'onTick'>;

/** What a holder, or a caller in line, has told of itself. */
export interface TestHolding {
  readonly holder: string;
  readonly fencingToken: string;
  readonly comment: string | null;
  readonly metadata: unknown;
  /** Whether it is renewed; false after `blockRenewal` or a graceful revoke. */
  readonly isRenewable: boolean;
  /** Until its expiry, without a renewal. */
  readonly remainingMs: number;
}

export interface TestEvent {
  /** `granted`, `taken_over`, `released`, `failed`, `expired`, `revoked`, `renewal_blocked`, `renewal_allowed`, `updated`. */
  readonly kind: string;
  readonly leaseId: string;
  readonly fencingToken: string;
}

/** A call for a grant, as it arrived. */
export interface Arrival {
  readonly face: TestFace;
  readonly request: AcquireRequest;
  readonly waitMs: number;
  /** How long the call takes, if that is less. */
  readonly callMs?: number | undefined;
  readonly localTimeMs: number;
  /** Whether its caller can still be answered. */
  readonly isThere: () => boolean;
}

interface Ticket extends Arrival {
  readonly id: string;
  /** Whether it was not granted at once. */
  hasWaited: boolean;
  /** Whether its call has been answered, and the next one of its wait has not come. */
  isBetweenCalls: boolean;
  readonly untilMs: number;
  readonly answer: (answer: AcquireAnswer) => void;
  readonly refuse: (error: Error) => void;
}

/** All clients of a test have the same credentials. */
const PRINCIPAL = 'test';
const ENVIRONMENT_TTL_MS = 60_000;
/** The database's clock when the monotonic one is at 0. Tokens are at least as large. */
const EPOCH_MS = Date.parse('2030-01-01T00:00:00Z');

export class TestRegistry {
  readonly #clock: RegistryClock;
  readonly #onRevoked: (notice: RevocationNotice) => void;
  readonly #model = new LeaseModel(EPOCH_MS);
  readonly #lines = new Map<string, Ticket[]>();
  readonly #asked = new Map<string, { readonly arrival: Arrival; readonly grantedAtMs: number }>();
  /** By idempotency key. */
  readonly #attempts = new Map<string, ModelGrant>();
  readonly #givenUp = new Set<string>();
  readonly #superseded = new Map<string, EnvironmentSupersededError>();
  /** In which order requests came, by idempotency key. */
  readonly #arrivals = new Map<string, number>();
  /** The newest request that superseded others, by the id of its environment and its action. */
  readonly #supersedings = new Map<string, { number: number; error: EnvironmentSupersededError }>();
  readonly #observers = new Set<() => void>();
  #isTelling = false;
  /** By the id of an environment. */
  readonly #freezes = new Map<string, { readonly reason: string; readonly untilMs: number }>();
  #grantsCount = 0;

  /** `onRevoked` tells all clients of what a newer request has revoked. */
  constructor(clock: RegistryClock, onRevoked: (notice: RevocationNotice) => void) {
    this.#clock = clock;
    this.#onRevoked = onRevoked;
    clock.onTick(() => {
      this.#now();
      this.#serveAll();
    });
  }

  acquire(arrival: Arrival): Promise<AcquireAnswer> {
    const { request, waitMs } = arrival;
    assertTimes(arrival);
    if (request.mode !== undefined && request.mode !== 'exclusive') throw oneAtATime();
    if (this.#givenUp.has(request.idempotencyKey)) throw cancelledError();
    const again = this.#grantedBefore(arrival);
    if (again !== undefined) return Promise.resolve(again);
    const id = idOf({ face: arrival.face, ...request });
    this.#assertNotSuperseded(id, request);
    if (request.override === undefined) this.#assertNotFrozen(id, waitMs);
    const line = this.#lines.get(id) ?? [];
    this.#lines.set(id, line);
    const { idempotencyKey } = request;
    const before = line.find((one) => one.request.idempotencyKey === idempotencyKey);
    if (before === undefined && request.supersede !== undefined) this.#supersede(id, line, request);
    const untilMs = this.#clock.nowMs() + waitMs;
    return new Promise((answer, refuse) => {
      const fresh = { ...arrival, id, hasWaited: false, isBetweenCalls: false, untilMs };
      const ticket: Ticket = { ...fresh, answer, refuse };
      // The next call of a wait has the place of the one before.
      if (before?.isBetweenCalls === true) line.splice(line.indexOf(before), 1, ticket);
      else if (request.order === 'newest') line.unshift(ticket);
      else line.push(ticket);
      this.#serve(line);
      ticket.hasWaited = true;
    });
  }

  /** The answer to a request that was granted before, as long as its grant is in force: its caller missed it. */
  #grantedBefore({ request, localTimeMs }: Arrival): AcquireAnswer | undefined {
    this.#now();
    const grant = this.#attempts.get(request.idempotencyKey);
    if (grant === undefined || !this.#model.isUnexpired(grant)) return undefined;
    return { outcome: 'granted', waitedMs: 0, lease: this.#leaseOf(grant, request, localTimeMs) };
  }

  #leaseOf(
    { leaseId, givenToken }: ModelGrant,
    { namespace, key }: AcquireRequest,
    localTimeMs: number,
  ): GrantedLease {
    return {
      leaseId,
      fencingToken: String(givenToken),
      namespace: [...namespace],
      key,
      deadlines: this.deadlines(leaseId, localTimeMs),
    };
  }

  /** Until a moment of the database's clock in so many milliseconds; 0 ends it. */
  freeze(scope: LeaseScope, reason: string, forMs: number): void {
    this.#freezes.set(idOf(scope), { reason, untilMs: this.#clock.nowMs() + forMs });
  }

  /** Nobody runs after a newer request that has superseded it, also if it asks again. */
  #assertNotSuperseded(id: string, { idempotencyKey, action, again = '' }: AcquireRequest): void {
    if (!this.#arrivals.has(idempotencyKey)) {
      this.#arrivals.set(idempotencyKey, this.#arrivals.size);
      const newest = this.#supersedings.get(supersedingId(id, action));
      if (newest !== undefined && newest.number > (this.#arrivals.get(again) ?? Infinity)) {
        this.#superseded.set(idempotencyKey, newest.error);
      }
    }
    const superseded = this.#superseded.get(idempotencyKey);
    if (superseded !== undefined) throw superseded;
  }

  /** Ends those that wait for the same action, and what runs for it if the request asks for that. */
  #supersede(id: string, line: Ticket[], request: AcquireRequest): void {
    const { action, holder, supersede, idempotencyKey } = request;
    const nowMs = this.#now();
    const details = { by: holder, since: new Date(nowMs).toISOString() };
    const error = new EnvironmentSupersededError({ details });
    const number = this.#arrivals.get(idempotencyKey) ?? 0;
    this.#supersedings.set(supersedingId(id, action), { number, error });
    for (const old of line.filter(({ request: { action: its } }) => its === action)) {
      line.splice(line.indexOf(old), 1);
      this.#superseded.set(old.request.idempotencyKey, error);
      old.refuse(error);
    }
    const grant = this.#model.rows.get(id);
    if (supersede !== 'running' || grant === undefined || !this.#model.isUnexpired(grant)) return;
    if (this.#asked.get(grant.leaseId)?.arrival.request.action !== action) return;
    this.#model.revoke(grant, 'graceful', false);
    const notice = { leaseId: grant.leaseId, kind: 'revoking' as const };
    this.#onRevoked({
      ...notice,
      reason: `superseded by ${holder}`,
      stopsByMs: grant.expiresAt - nowMs,
    });
  }

  /** The freeze that keeps it back; null without one. */
  #freezeOf({ id, request }: Ticket): { readonly until: string; readonly reason: string } | null {
    const freeze = request.override === undefined ? this.#freezes.get(id) : undefined;
    if (freeze === undefined || freeze.untilMs <= this.#clock.nowMs()) return null;
    return { until: new Date(EPOCH_MS + freeze.untilMs).toISOString(), reason: freeze.reason };
  }

  #assertNotFrozen(id: string, waitMs: number): void {
    const freeze = this.#freezes.get(id);
    if (freeze === undefined || freeze.untilMs <= this.#clock.nowMs()) return;
    if (freeze.untilMs < this.#clock.nowMs() + waitMs) return;
    const { reason, untilMs } = freeze;
    const until = new Date(EPOCH_MS + untilMs).toISOString();
    throw new EnvironmentFrozenError({
      message: `The environment is frozen until ${until}: ${reason}`,
      details: { freezeId: 'test', reason, until, roles: ['operator', 'admin'], people: [] },
    });
  }

  giveUp(idempotencyKey: string): void {
    this.#now();
    this.#givenUp.add(idempotencyKey);
    const grant = this.#attempts.get(idempotencyKey);
    if (grant !== undefined) this.#release(grant);
    for (const line of this.#lines.values()) {
      const ticket = line.find(({ request }) => request.idempotencyKey === idempotencyKey);
      if (ticket !== undefined) line.splice(line.indexOf(ticket), 1);
      ticket?.refuse(cancelledError());
    }
    this.#serveAll();
  }

  /** Renews, with deadlines in the clock of the holder, who asked at `localTimeMs`. */
  renewal(face: TestFace, ref: GrantRef, localTimeMs: number): LeaseRenewResult {
    this.#now();
    const { leaseId } = ref;
    const reason = this.#model.renew({ ...ref, face, principal: PRINCIPAL });
    if (reason !== undefined) return { leaseId, outcome: 'refused', reason };
    return { leaseId, outcome: 'renewed', deadlines: this.deadlines(leaseId, localTimeMs) };
  }

  release(face: TestFace, ref: GrantRef, result: 'ok' | 'failed'): ReleaseOutcome {
    this.#now();
    const outcome = this.#model.release({ ...ref, face, principal: PRINCIPAL }, result);
    this.#serveAll();
    return outcome;
  }

  update(face: TestFace, ref: GrantRef, metadata: unknown): UpdateOutcome {
    this.#now();
    return this.#model.update({ ...ref, face, principal: PRINCIPAL }, metadata);
  }

  /** The deadlines of a grant in the clock of its holder. */
  deadlines(leaseId: string, localTimeMs: number): LeaseDeadlines {
    const grant = this.#model.grants.find((one) => one.leaseId === leaseId);
    if (grant === undefined) throw new Error(`There is no grant ${leaseId}.`);
    const ladder = grant.isUnconfirmed ? UNCONFIRMED_LADDER : grant.ladder;
    const remainingMs = grant.expiresAt - this.#now();
    const { renewAtMs, hardTerminateAtMs } = deadlinesFrom(ladder, localTimeMs, remainingMs);
    return { renewAtMs, loseAtMs: hardTerminateAtMs };
  }

  /** @throws {Error} if nobody holds it. */
  revoke(scope: LeaseScope, mode: 'graceful' | 'force', reason: string | null): RevocationNotice {
    const grant = this.#held(scope);
    const stopsByMs = grant.expiresAt - this.#now();
    this.#model.revoke(grant, mode, false);
    this.#serveAll();
    const kind = mode === 'force' ? 'revoked' : 'revoking';
    return { leaseId: grant.leaseId, kind, reason, stopsByMs };
  }

  /** @throws {Error} if nobody holds it. */
  setRenewable(scope: LeaseScope, isRenewable: boolean): void {
    this.#model.setRenewable(this.#held(scope), isRenewable);
  }

  holdingOf(scope: LeaseScope): TestHolding | undefined {
    const nowMs = this.#now();
    const grant = this.#model.rows.get(idOf(scope));
    if (grant === undefined || !this.#model.isUnexpired(grant)) return undefined;
    return {
      holder: grant.holder,
      fencingToken: String(grant.givenToken),
      comment: this.#asked.get(grant.leaseId)?.arrival.request.comment ?? null,
      metadata: grant.metadata,
      isRenewable: grant.renewable,
      remainingMs: grant.expiresAt - nowMs,
    };
  }

  /** Tells who holds it, now and after whatever may have changed that. @returns a function that ends it. */
  observe(scope: ObservedScope, tell: (state: ObservedState) => void): () => void {
    const { face = 'lease', namespace, key } = scope;
    const tellNow = (): void => tell(this.#observed(idOf({ face, namespace, key })));
    this.#observers.add(tellNow);
    this.tellObservers();
    return () => this.#observers.delete(tellNow);
  }

  tellObservers(): void {
    this.#now();
  }

  /** The holders in line, the next one first. */
  waitersOf(scope: LeaseScope): string[] {
    return (this.#lines.get(idOf(scope)) ?? []).map(({ request }) => request.holder);
  }

  historyOf(scope: LeaseScope): TestEvent[] {
    this.#now();
    return (this.#model.events.get(idOf(scope)) ?? []).map((line) => {
      const [kind = '', leaseId = '', fencingToken = ''] = line.split(' ');
      return { kind, leaseId, fencingToken };
    });
  }

  #release({ resource, leaseId, givenToken }: ModelGrant): void {
    const ref = { leaseId, fencingToken: String(givenToken) };
    this.#model.release({ ...ref, face: resource.face, principal: PRINCIPAL }, 'failed');
  }

  /** Moves the database's clock on, and writes down what has expired. */
  #now(): number {
    this.#model.nowMs = EPOCH_MS + this.#clock.nowMs();
    this.#model.reap();
    if (!this.#isTelling && this.#observers.size > 0) {
      this.#isTelling = true;
      queueMicrotask(() => this.#tell());
    }
    return this.#model.nowMs;
  }

  /** After what changes now. */
  #tell(): void {
    this.#isTelling = false;
    for (const tellNow of this.#observers) tellNow();
  }

  #observed(id: string): ObservedState {
    const grant = this.#model.rows.get(id);
    if (grant === undefined || !this.#model.isUnexpired(grant)) return null;
    const { holder, leaseId, givenToken, metadata } = grant;
    const grantedAtMs = this.#asked.get(leaseId)?.grantedAtMs ?? EPOCH_MS;
    const since = new Date(grantedAtMs).toISOString();
    return { holder, leaseId, fencingToken: String(givenToken), metadata, since };
  }

  #serveAll(): void {
    for (const line of this.#lines.values()) this.#serve(line);
  }

  /** Grants to the first in line, refuses those whose time is over, and skips who is gone. */
  #serve(line: Ticket[]): void {
    // Who has an override passes those whom a freeze keeps back.
    const first = (): Ticket | undefined =>
      line.find((one) => !one.isThere() || this.#freezeOf(one) === null);
    for (let head = first(); head !== undefined && this.#serveHead(head); head = first()) {
      line.splice(line.indexOf(head), 1);
    }
    const nowMs = this.#clock.nowMs();
    for (const late of line.filter(({ untilMs }) => nowMs >= untilMs)) {
      late.answer(this.#heldAnswer(late, line));
      line.splice(line.indexOf(late), 1);
    }
    for (const [index, ticket] of line.entries()) {
      const { localTimeMs, callMs = Infinity, isBetweenCalls } = ticket;
      if (isBetweenCalls || nowMs < localTimeMs + callMs) continue;
      ticket.isBetweenCalls = true;
      const held = this.#heldAnswer(ticket, line);
      ticket.answer({
        ...held,
        outcome: 'waiting',
        place: index + 1,
        frozen: this.#freezeOf(ticket),
      });
    }
  }

  /** @returns whether its turn is over. */
  #serveHead(ticket: Ticket): boolean {
    if (!ticket.isThere()) return true;
    if (ticket.isBetweenCalls) return false;
    const nowMs = this.#now();
    const made = this.#model.grant(this.#askOf(ticket));
    if ('heldBy' in made) return false;
    const { granted } = made;
    this.#asked.set(granted.leaseId, { arrival: ticket, grantedAtMs: nowMs });
    this.#attempts.set(ticket.request.idempotencyKey, granted);
    const waitedMs = this.#clock.nowMs() - ticket.localTimeMs;
    const lease = this.#leaseOf(granted, ticket.request, this.#clock.nowMs());
    ticket.answer({ outcome: 'granted', waitedMs, lease });
    return true;
  }

  #askOf({ face, request, waitMs, hasWaited }: Ticket): ModelAsk {
    this.#grantsCount += 1;
    const { namespace, key, holder, metadata, ttlMs = ENVIRONMENT_TTL_MS } = request;
    // One that may wait confirms what it has waited for.
    const confirms = request.confirms === true && (hasWaited || waitMs === 0);
    return {
      resource: { face, namespace: namespace.join('.'), name: key },
      leaseId: `00000000-0000-4000-8000-${String(this.#grantsCount).padStart(12, '0')}`,
      holder,
      metadata,
      principal: PRINCIPAL,
      confirms,
      ladder: serviceLadder(ttlMs),
    };
  }

  /** Who has it, or who is first in line. */
  #heldAnswer(ticket: Ticket, line: readonly Ticket[]): HeldAnswer {
    const nowMs = this.#now();
    const grant = this.#model.rows.get(ticket.id);
    const isHeld = grant !== undefined && this.#model.isUnexpired(grant);
    const asked = isHeld ? this.#asked.get(grant.leaseId) : undefined;
    const first = asked?.arrival ?? line[0] ?? ticket;
    return {
      outcome: 'held',
      by: first.request.holder,
      since: new Date(asked?.grantedAtMs ?? EPOCH_MS + first.localTimeMs).toISOString(),
      remainingMs: isHeld ? grant.expiresAt - nowMs : 0,
      waitedMs: this.#clock.nowMs() - ticket.localTimeMs,
      comment: first.request.comment ?? null,
      action: ticket.face === 'environment' ? (first.request.action ?? '') : null,
      waiters: line.filter((one) => one !== ticket).length,
    };
  }

  #held(scope: LeaseScope): ModelGrant {
    this.#now();
    const grant = this.#model.rows.get(idOf(scope));
    if (grant !== undefined && this.#model.isUnexpired(grant)) return grant;
    throw new Error(`Nobody holds the ${scope.face} ${[...scope.namespace, scope.key].join('.')}.`);
  }
}

function idOf({
  face,
  namespace,
  key,
}: Omit<LeaseScope, 'face'> & { readonly face: Face }): string {
  return `${face}\0${namespace.join('.')}\0${key}`;
}

function supersedingId(id: string, action = ''): string {
  return `${id}\0${action}`;
}

function cancelledError(): LeaseholdCallError {
  return new LeaseholdCallError('lease.wait_cancelled');
}

/** @throws {LeaseholdCallError} `lease.ttl_out_of_range`, `request.invalid`. */
function assertTimes({ request: { ttlMs = ENVIRONMENT_TTL_MS }, waitMs }: Arrival): void {
  if (!isWithin(ttlMs, LIMITS.ttlMsMin, LIMITS.ttlMsMax)) {
    throw new LeaseholdCallError('lease.ttl_out_of_range', {
      message: ttlRangeText(ttlMs),
      details: { ttlMs },
    });
  }
  if (!isWithin(waitMs, 0, LIMITS.waitMsInLineMax)) {
    const message = `waitMs must be a whole number from 0 to ${String(LIMITS.waitMsInLineMax)}`;
    throw new LeaseholdCallError('request.invalid', { message, details: { waitMs } });
  }
}

function isWithin(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max;
}
