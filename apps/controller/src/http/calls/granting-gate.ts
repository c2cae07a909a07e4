/**
 * Keeps calls that ask for grants back while more of them wait for the database than it carries out,
 * and refuses what has waited too long: a caller learns within a tenth of a second that it has to try
 * later, and what is carried out is answered as soon as ever. Renewals, releases and reads pass.
 *
 * A queue that is bounded in time, and not in length, is from "Fail at Scale" (Ben Maurer, ACM Queue 13.8).
 */
import { isGrantingCall } from '@leasehold/api';
import { LIMITS, type LeaseError } from '@leasehold/keys-core';
import { FairQueue } from '@leasehold/service-kit/fair-queue';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';
import { overloaded } from '../../fair-use/rates.ts';
import { callsIn, type ScheduledConnection, type WireCall } from './inbox.ts';

/** A call that was kept back for this long is refused. */
const KEPT_MS_MAX = 20;
/**
 * With fewer grants than this the turns of the event loop are too full: the end of a burst is let through. Principals
 * have equal shares: nobody is refused because another one asks for much, or makes the turns long.
 */
const BURST_ITEMS_MAX = 2_000;
/** About as many as a short key and holder take. */
const CHARACTERS_OF_AN_ITEM = 90;
/** For how long it may be kept back, at most. */
const BURST_MS_MAX = 1_000;
/** How often the gate is looked after under pressure; without it, in each turn of the event loop. */
const LOOK_MS = 2;
/**
 * So many grants are let through in one turn of the event loop: a turn should be short, and whether the
 * database keeps up shows a moment later.
 */
const ITEMS_OF_A_TURN = 200;

/** What the gate needs of a connection. */
export type GatedConnection = Pick<ScheduledConnection, 'begin' | 'refuse'> & {
  readonly use: Pick<PrincipalUse, 'principal' | 'role'>;
};

interface KeptCall {
  readonly connection: GatedConnection;
  readonly call: WireCall;
  readonly itemCount: number;
  readonly atMs: number;
}

export interface GrantingGate {
  /** Begins a call that has arrived at `atMs`, now or later, or refuses it. @returns whether it has begun. */
  begin(connection: GatedConnection, call: WireCall, atMs: number): boolean;
  /** Whether {@link begin} would keep this call back now: that costs nearly nothing. */
  wouldKeep(call: WireCall): boolean;
  /** A turn of the event loop begins. */
  beginTurn(): void;
  /** Forgets the calls of a connection that is closed. */
  forget(connection: GatedConnection): void;
}

export interface GrantingGateDeps {
  /** A monotonic reading, in milliseconds. */
  readonly nowMs: () => number;
  /** Whether another grant would only wait longer. */
  readonly isPressed: () => boolean;
  /** Calls `look` once, after some milliseconds, or in the next turn of the event loop. */
  readonly after: (ms: number, look: () => void) => void;
  /** Called for each refusal, for metrics. */
  readonly onRefusal: (connection: GatedConnection) => void;
}

export function createGrantingGate(deps: GrantingGateDeps): GrantingGate {
  return new Gate(deps);
}

class Gate implements GrantingGate {
  readonly #deps: GrantingGateDeps;
  readonly #kept = new FairQueue<KeptCall>();
  #isWatched = false;
  #turnItemCount = 0;
  /** By principal; none is 0. */
  readonly #keptItemCounts = new Map<string, number>();

  constructor(deps: GrantingGateDeps) {
    this.#deps = deps;
  }

  begin(connection: GatedConnection, call: WireCall, atMs: number): boolean {
    if (!isGranting(call)) {
      connection.begin(call);
      return true;
    }
    const asked = { connection, call, itemCount: itemsOf(call), atMs };
    if (!this.#isShut) {
      this.#begin(asked);
      return true;
    }
    this.#kept.push(connection.use.principal, asked);
    this.#count(asked, 1);
    this.#watch();
    return false;
  }

  wouldKeep(call: WireCall): boolean {
    return isGranting(call) && this.#isShut;
  }

  beginTurn(): void {
    this.#turnItemCount = 0;
  }

  forget(connection: GatedConnection): void {
    this.#drop((kept) => kept.connection === connection);
  }

  #watch(): void {
    if (this.#isWatched || this.#kept.size === 0) return;
    this.#isWatched = true;
    this.#deps.after(this.#deps.isPressed() ? LOOK_MS : 0, () => {
      this.#isWatched = false;
      this.#look();
      this.#watch();
    });
  }

  #look(): void {
    const nowMs = this.#deps.nowMs();
    const share = this.#deps.isPressed() ? 0 : BURST_ITEMS_MAX / this.#keptItemCounts.size;
    const isOver = ({ connection, atMs }: KeptCall): boolean => {
      const isBurst = (this.#keptItemCounts.get(connection.use.principal) ?? 0) < share;
      return atMs <= nowMs - (isBurst ? BURST_MS_MAX : KEPT_MS_MAX);
    };
    for (const { connection, call } of this.#drop(isOver)) {
      this.#deps.onRefusal(connection);
      connection.refuse(call, overloaded());
    }
    this.beginTurn();
    while (!this.#isFull) {
      const next = this.#kept.shift();
      if (next === undefined) return;
      this.#count(next, -1);
      this.#begin(next);
    }
  }

  #drop(isOver: (kept: KeptCall) => boolean): KeptCall[] {
    const dropped = this.#kept.drop(isOver);
    for (const call of dropped) this.#count(call, -1);
    return dropped;
  }

  #count({ connection, itemCount }: KeptCall, times: 1 | -1): void {
    const { principal } = connection.use;
    const count = (this.#keptItemCounts.get(principal) ?? 0) + times * itemCount;
    if (count > 0) this.#keptItemCounts.set(principal, count);
    else this.#keptItemCounts.delete(principal);
  }

  get #isShut(): boolean {
    return this.#kept.size > 0 || this.#isFull;
  }

  get #isFull(): boolean {
    return this.#turnItemCount >= ITEMS_OF_A_TURN || this.#deps.isPressed();
  }

  #begin({ connection, call, itemCount }: KeptCall): void {
    this.#turnItemCount += itemCount;
    if (call.unread === undefined) {
      connection.begin(call);
      return;
    }
    try {
      for (const one of callsIn(call.unread, connection.use.role)) connection.begin(one);
    } catch (error) {
      connection.refuse(call, error as LeaseError);
    }
  }
}

/** Whether a call asks for grants. */
export function isGranting({ params }: WireCall): boolean {
  return typeof params?.path === 'string' && isGrantingCall(params.path);
}

/**
 * How many grants a call asks for, as far as can be seen before it is checked. One that has more items than a call may
 * have asks for none: its input is refused.
 */
function itemsOf({ params, unread }: WireCall): number {
  if (unread !== undefined) {
    return Math.min(Math.ceil(unread.length / CHARACTERS_OF_AN_ITEM), LIMITS.acquiresPerCallMax);
  }
  const input = params?.input as { readonly items?: unknown } | null | undefined;
  const count = Array.isArray(input?.items) ? input.items.length : 1;
  return count > LIMITS.acquiresPerCallMax ? 1 : Math.max(1, count);
}
