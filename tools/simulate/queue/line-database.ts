/**
 * The line of a lease and the records of idempotency keys, as `grants/line/sql` and
 * `grants/idempotency/sql` keep them, and the grant that looks at both.
 */
import type { GrantOutcome, GrantRequest } from '../../../libs/keys-core/src/kernel/lease.ts';
import { resourceKey, type Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import type { ClockBelief } from '../../../libs/keys-core/src/postgres/clock/clock-watch.ts';
import type { LeaseDatabase } from '../database/lease-database.ts';
import type { World } from '../engine/world.ts';

/** As in `grants/sql/line.ts`. */
const TICKET_MS = 500;

export interface TicketRow extends Resource {
  readonly ticketId: string;
  readonly number: number;
  readonly waiter: string;
  validUntil: number;
}

export interface RequestRow {
  readonly leaseId: string | null;
  answer: unknown;
  readonly resource: string | null;
  readonly fingerprint: string | null;
  isRepeated: boolean;
}

export class LineDatabase {
  readonly leases: LeaseDatabase;
  readonly tickets = new Map<string, TicketRow>();
  readonly requests = new Map<string, RequestRow>();
  /** The keys of requests that were given up, and answered so. */
  readonly givenUp = new Set<string>();
  readonly #world: World;
  #ticketCount = 0;

  constructor(world: World, leases: LeaseDatabase) {
    this.#world = world;
    this.leases = leases;
  }

  join(resource: Resource, of: { readonly ticketId: string; readonly waiter: string }): TicketRow {
    const { ticketId, waiter } = of;
    const validUntil = this.leases.now() + TICKET_MS;
    const known = this.tickets.get(ticketId);
    if (known !== undefined) {
      known.validUntil = validUntil;
      return known;
    }
    const number = (this.#ticketCount += 1);
    const ticket = { ...resource, ticketId, waiter, number, validUntil };
    this.tickets.set(ticketId, ticket);
    this.#world.trace(() => `${waiter} takes ticket ${String(number)} for ${resource.name}`);
    return ticket;
  }

  /** @returns whether it is there. */
  prolong(ticketId: string): boolean {
    const ticket = this.tickets.get(ticketId);
    if (ticket !== undefined) ticket.validUntil = this.leases.now() + TICKET_MS;
    return ticket !== undefined;
  }

  /** The tickets for a resource that count, first in line first. */
  live(resource: Resource): TicketRow[] {
    const nowMs = this.leases.now();
    const key = resourceKey(resource);
    return [...this.tickets.values()]
      .filter((ticket) => ticket.validUntil > nowMs && resourceKey(ticket) === key)
      .sort((a, b) => a.number - b.number);
  }

  nextTicketId(resource: Resource): string | null {
    return this.live(resource)[0]?.ticketId ?? null;
  }

  grant(request: GrantRequest, requestKey: string, belief: ClockBelief): GrantOutcome {
    const isQueued = request.isQueued === true;
    const ticket = this.tickets.get(request.leaseId);
    const wasGranted = this.leases.past(request.leaseId) !== undefined;
    if (isQueued ? ticket === undefined || wasGranted : this.#isUsed(requestKey)) {
      return { outcome: 'recorded' };
    }
    const ahead = this.#ahead(request, ticket?.number);
    const head = ahead[0];
    if (head !== undefined) {
      const waiterCount = this.live(request).length;
      const by = this.leases.isHeld(request) ? this.leases.read(request) : undefined;
      if (by !== undefined) return { outcome: 'held', by, waiterCount, doubtMs: 0 };
      const lapsesInMs = head.validUntil - this.leases.now();
      const shown = { waiter: head.waiter, createdAt: 0, lapsesInMs };
      return { outcome: 'queued', head: shown, waiterCount };
    }
    this.#check(request, requestKey, ticket);
    const granting = this.leases.grant(request, belief);
    if ('heldBy' in granting) {
      const doubtMs = granting.heldBy.asOf < granting.heldBy.expiresAt ? 0 : DOUBT_MS;
      return { outcome: 'held', by: granting.heldBy, waiterCount: 0, doubtMs };
    }
    this.tickets.delete(request.leaseId);
    if (!isQueued) this.requests.set(requestKey, newRequest(request));
    return { outcome: 'granted', grant: granting.granted };
  }

  #isUsed(requestKey: string): boolean {
    const isForgotten = this.#world.has('giving-up-forgotten') && this.givenUp.has(requestKey);
    return this.requests.has(requestKey) && !isForgotten;
  }

  #ahead(request: GrantRequest, number = Infinity): TicketRow[] {
    if (this.#world.has('waiter-overtakes')) return [];
    const tickets = this.#world.has('ticket-immortal')
      ? [...this.tickets.values()].filter((one) => resourceKey(one) === resourceKey(request))
      : this.live(request);
    return tickets.filter((one) => one.number < number);
  }

  /** What must hold of a grant that is about to be made; nothing if somebody else still has the lease. */
  #check(request: GrantRequest, requestKey: string, ticket: TicketRow | undefined): void {
    if (this.leases.isHeld(request)) return;
    const passed = this.live(request).find((one) => one.number < (ticket?.number ?? Infinity));
    const { holder, name } = request;
    if (passed !== undefined) {
      this.#world.fail('I9 waiters in order', `${holder} passes ${passed.waiter} for ${name}`);
    }
    if (this.givenUp.has(requestKey)) {
      this.#world.fail('I9 none is granted after giving up', `${holder} for ${name}`);
    }
  }
}

/** When to ask again about an expiry that is not believed yet. */
const DOUBT_MS = 200;

function newRequest({ leaseId, fingerprint, face, namespace, name }: GrantRequest): RequestRow {
  const resource = [face, namespace, name].join('\u001f');
  return { leaseId, answer: null, resource, fingerprint: fingerprint ?? null, isRepeated: false };
}
