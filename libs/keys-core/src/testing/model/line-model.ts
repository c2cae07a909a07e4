/**
 * The rules of lines, permits, shared leases, several leases at once and environments, written a second time and
 * without a database: the oracle of `lines.model.pg.test.ts`, and a part of the simulator. It decides; who takes what
 * it has decided gives the token.
 *
 * One rule holds for all: who is before a request in a line takes first what it wants, granted or not yet.
 */
import { type Resource, resourceKey } from '../../kernel/resource.ts';

/** How a lease is held: by one, beside others that share it, or as one of a number. */
export type ModelMode = 'alone' | 'shared' | 'permit';

/** A part of a request: one for each lease that it wants. */
export interface ModelPart {
  readonly resource: Resource;
  readonly leaseId: string;
  readonly mode: ModelMode;
}

export interface LineAsk {
  /** Never empty; all are granted or none. */
  readonly parts: readonly ModelPart[];
  readonly holder: string;
  readonly ttlMs: number;
  /** What an environment is for. */
  readonly action: string;
  readonly priority: number;
  readonly isNewestFirst: boolean;
}

export interface ModelTicket {
  readonly number: number;
  readonly ask: LineAsk;
  validUntil: number;
}

/** Of one lease. It is kept after its end. */
export interface ModelHold {
  readonly resource: Resource;
  readonly leaseId: string;
  readonly holder: string;
  readonly ttlMs: number;
  readonly action: string;
  readonly token: bigint;
  /** Of its grant, among all grants and supersedings. */
  readonly order: number;
  mode: ModelMode;
  expiresAt: number;
  isRenewable: boolean;
  /** Whether it was revoked by what supersedes. */
  isSuperseded: boolean;
  isEnded: boolean;
}

export interface ModelPermits {
  readonly perKey: number;
  readonly total: number | null;
}

/** A freeze of an environment from now on. */
export interface ModelFreeze {
  readonly key: string;
  /** Undefined: any. */
  readonly action: string | undefined;
  readonly untilMs: number;
}

/** A request that has superseded others. */
interface ModelSuperseding extends Pick<LineAsk, 'action' | 'priority'> {
  readonly key: string;
  readonly order: number;
}

/** `refused`: somebody holds it, or is before it in a line; `invalid`: it wants more permits than there are. */
export type Decision = 'granted' | 'refused' | 'frozen' | 'invalid';

const TICKET_MS = 500;
const ENVIRONMENT_TICKET_MS = 30_000;
/** A place in the line for an environment is prolonged when this much of it is used up. */
const ENVIRONMENT_TICKET_USED_MS = 5_000;

export class LineModel {
  nowMs: number;
  readonly permits = new Map<string, ModelPermits>();
  readonly holds: ModelHold[] = [];
  /** Of each lease the largest token that was given. */
  readonly largest = new Map<string, bigint>();
  freezes: ModelFreeze[] = [];
  tickets: ModelTicket[] = [];
  #ticketCount = 0;
  #orderCount = 0;
  readonly #supersedings: ModelSuperseding[] = [];
  /** The leases that several hold. */
  readonly #pools = new Set<string>();

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  isInForce({ isEnded, expiresAt }: ModelHold): boolean {
    return !isEnded && this.nowMs < expiresAt;
  }

  holdersOf(resource: Resource): ModelHold[] {
    const key = resourceKey(resource);
    return this.holds.filter((hold) => this.isInForce(hold) && resourceKey(hold.resource) === key);
  }

  /** Whether all parts of the request may be granted now, from its place in line if it has one. */
  decide(ask: LineAsk, ticket?: ModelTicket): Decision {
    const isEnvironment = ask.parts[0]?.resource.face === 'environment';
    if (isEnvironment && this.isFrozen(ask)) return 'frozen';
    const before = this.#before(ticket);
    for (const part of ask.parts) this.#open(part, before);
    if (this.#isMoreThanAll(ask)) return 'invalid';
    // Each takes its permit before the next one of the same request.
    const isForAll = ask.parts.every((part, place) =>
      this.#isFor(part, [...before, ...ask.parts.slice(0, place)]),
    );
    return isForAll ? 'granted' : 'refused';
  }

  /** Whether a freeze stops it now, and for at least so long from now on. */
  isFrozen({ parts, action }: LineAsk, lastsMs = 1): boolean {
    return this.freezes.some(
      (freeze) =>
        freeze.untilMs - this.nowMs >= lastsMs &&
        (freeze.action ?? action) === action &&
        parts.some(({ resource }) => resourceKey(resource) === freeze.key),
    );
  }

  /** Whether it wants more permits of a namespace than that has in all. */
  #isMoreThanAll({ parts }: LineAsk): boolean {
    return [...this.permits].some(([namespace, { total }]) => {
      const wanted = parts.filter(({ resource }) => resource.namespace === namespace);
      return total !== null && wanted.length > total;
    });
  }

  /** Carries out what was decided. @param tokens of the parts, in their order. */
  take(ask: LineAsk, tokens: readonly bigint[], ticket?: ModelTicket): ModelHold[] {
    this.tickets = this.tickets.filter((one) => one !== ticket);
    return ask.parts.map(({ resource, leaseId, mode }, place) => {
      const token = tokens[place] ?? 0n;
      const hold: ModelHold = {
        ...{ resource, leaseId, mode, token },
        ...{ holder: ask.holder, ttlMs: ask.ttlMs, action: ask.action },
        order: (this.#orderCount += 1),
        isSuperseded: false,
        expiresAt: this.nowMs + ask.ttlMs,
        isRenewable: true,
        isEnded: false,
      };
      this.holds.push(hold);
      this.largest.set(resourceKey(resource), token);
      return hold;
    });
  }

  join(ask: LineAsk): ModelTicket {
    this.#ticketCount += 1;
    const ticket = { number: this.#ticketCount, ask, validUntil: 0 };
    ticket.validUntil = this.nowMs + ticketMs(ask);
    this.tickets.push(ticket);
    return ticket;
  }

  /** @returns whether it is there. */
  rejoin(ticket: ModelTicket): boolean {
    if (!this.tickets.includes(ticket)) return false;
    ticket.validUntil = this.nowMs + ticketMs(ticket.ask);
    return true;
  }

  prolong(ticket: ModelTicket): void {
    const isFresh =
      ticketMs(ticket.ask) === ENVIRONMENT_TICKET_MS &&
      ticket.validUntil >= this.nowMs + ENVIRONMENT_TICKET_MS - ENVIRONMENT_TICKET_USED_MS;
    if (!isFresh) this.rejoin(ticket);
  }

  leave(ticket: ModelTicket): void {
    this.tickets = this.tickets.filter((one) => one !== ticket);
  }

  /** Ends those that wait for the same action with no higher priority; with `running` what runs is not renewed again. */
  supersede(by: ModelTicket, what: 'waiting' | 'running'): void {
    const { parts, action, priority } = by.ask;
    const [part] = parts;
    if (part === undefined) return;
    const key = resourceKey(part.resource);
    this.#supersedings.push({ key, action, priority, order: (this.#orderCount += 1) });
    this.tickets = this.tickets.filter(
      ({ ask, number }) =>
        number === by.number ||
        ask.action !== action ||
        ask.priority > priority ||
        ask.parts.every(({ resource }) => resourceKey(resource) !== key),
    );
    if (what === 'waiting') return;
    for (const hold of this.holdersOf(part.resource)) {
      if (hold.action !== action || !hold.isRenewable) continue;
      hold.isRenewable = false;
      hold.isSuperseded = true;
    }
  }

  /** Whether one that had this, and asks again, would come after a newer one that has superseded it. */
  isSupersededSince(
    { resource, action, order, isSuperseded }: ModelHold,
    priority: number,
  ): boolean {
    const key = resourceKey(resource);
    const isNewer = (one: ModelSuperseding): boolean =>
      one.key === key && one.action === action && one.priority >= priority && one.order > order;
    return isSuperseded || this.#supersedings.some(isNewer);
  }

  renew(hold: ModelHold): boolean {
    if (!this.isInForce(hold) || !hold.isRenewable) return false;
    hold.expiresAt = this.nowMs + hold.ttlMs;
    return true;
  }

  /** By its holder, or by force. @returns whether it was in force. */
  end(hold: ModelHold): boolean {
    const isInForce = this.isInForce(hold);
    if (isInForce) hold.isEnded = true;
    return isInForce;
  }

  /** Shares what was held alone. @returns whether it was in force. */
  downgrade(hold: ModelHold): boolean {
    if (!this.isInForce(hold)) return false;
    hold.mode = 'shared';
    this.#pools.add(resourceKey(hold.resource));
    return true;
  }

  /** One who shares what nobody holds, and is the first in its line, makes it a pool; one with permits is always one. */
  #open({ resource, mode }: ModelPart, before: readonly ModelPart[]): void {
    const key = resourceKey(resource);
    const isAwaited = before.some((one) => resourceKey(one.resource) === key);
    const isFree = this.holdersOf(resource).length === 0;
    if (mode === 'permit' || (mode === 'shared' && isFree && !isAwaited)) this.#pools.add(key);
  }

  #isFor(part: ModelPart, before: readonly ModelPart[]): boolean {
    const key = resourceKey(part.resource);
    const holders = this.holdersOf(part.resource);
    const ahead = before.filter((one) => resourceKey(one.resource) === key);
    if (part.mode !== 'alone' && !this.#pools.has(key)) return false;
    switch (part.mode) {
      case 'alone':
        return holders.length === 0 && ahead.length === 0;
      case 'shared':
        return [...holders, ...ahead].every(({ mode }) => mode !== 'alone');
      case 'permit':
        return this.#hasPermit(part, before);
    }
  }

  /** Whether there is room, in its key and in all, when those who are before it have what they want. */
  #hasPermit(part: ModelPart, before: readonly ModelPart[]): boolean {
    const { namespace } = part.resource;
    const { perKey, total } = this.permits.get(namespace) ?? { perKey: 0, total: null };
    const inForce = this.holds.filter(
      (hold) => this.isInForce(hold) && hold.resource.namespace === namespace,
    );
    const taken = new Map<string, number>();
    for (const { resource } of inForce) {
      const key = resourceKey(resource);
      taken.set(key, (taken.get(key) ?? 0) + 1);
    }
    let takenOfAll = inForce.length;
    let isItsTurn = false;
    for (const one of [...before, part]) {
      const key = resourceKey(one.resource);
      // Of a key that nobody has asked for yet, none is taken.
      if (one.resource.namespace !== namespace || !this.#pools.has(key)) continue;
      const takenOfKey = (taken.get(key) ?? 0) + 1;
      taken.set(key, takenOfKey);
      const hasRoom = takenOfKey <= perKey;
      if (hasRoom) takenOfAll += 1;
      isItsTurn = hasRoom && (total === null || takenOfAll <= total);
    }
    return isItsTurn;
  }

  /** What those want who are before a request in a line, the first first: all who wait if it has no place itself. */
  #before(own: ModelTicket | undefined): ModelPart[] {
    return this.tickets
      .filter((one) => one !== own && this.nowMs < one.validUntil)
      .filter((one) => own === undefined || placeOf(one) < placeOf(own))
      .filter(({ ask }) => !this.isFrozen(ask))
      .sort((a, b) => placeOf(a) - placeOf(b))
      .flatMap(({ ask }) => ask.parts);
  }
}

function ticketMs({ parts }: LineAsk): number {
  return parts[0]?.resource.face === 'environment' ? ENVIRONMENT_TICKET_MS : TICKET_MS;
}

/** The smallest is the first: of those with the highest priority, and of them those that are to be the newest first. */
function placeOf({ number, ask }: ModelTicket): number {
  return (ask.isNewestFirst ? -number : number) - ask.priority * 2 ** 40;
}
