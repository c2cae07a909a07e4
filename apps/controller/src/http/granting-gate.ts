/**
 * Keeps calls that ask for grants back while more of them wait for the database than it carries out,
 * and refuses what has waited too long: a caller learns within a tenth of a second that it has to try
 * later, and what is carried out is answered as soon as ever. Renewals, releases and reads pass.
 *
 * A queue that is bounded in time, and not in length, is from "Fail at Scale" (Ben Maurer, ACM Queue 13.8).
 */
import { isGrantingCall } from '@leasehold/api';
import { FairQueue } from '../fair-use/fair-queue.ts';
import type { PrincipalUse } from '../fair-use/fair-use.ts';
import { overloaded } from '../fair-use/refusals.ts';
import type { ScheduledConnection, WireCall } from './inbox.ts';

/** A call that was kept back for this long is refused. */
const KEPT_MS_MAX = 20;
/** How often the gate is looked after while calls are kept back. */
const LOOK_MS = 2;
/** So many grants are let through at once: whether the database keeps up shows a moment later. */
const ITEMS_AT_ONCE = 500;

/** What the gate needs of a connection. */
export type GatedConnection = Pick<ScheduledConnection, 'begin' | 'refuse'> & {
  readonly use: Pick<PrincipalUse, 'principal' | 'role'>;
};

interface KeptCall {
  readonly connection: GatedConnection;
  readonly call: WireCall;
  readonly atMs: number;
}

export interface GrantingGate {
  /** Begins a call that has arrived at `atMs`, now or later, or refuses it. */
  begin(connection: GatedConnection, call: WireCall, atMs: number): void;
  /** Forgets the calls of a connection that is closed. */
  forget(connection: GatedConnection): void;
}

export interface GrantingGateDeps {
  /** A monotonic reading, in milliseconds. */
  readonly nowMs: () => number;
  /** Whether another grant would only wait longer. */
  readonly isPressed: () => boolean;
  /** Calls `look` once, after some milliseconds. */
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

  constructor(deps: GrantingGateDeps) {
    this.#deps = deps;
  }

  begin(connection: GatedConnection, call: WireCall, atMs: number): void {
    const { path } = call.params ?? {};
    const isKept =
      typeof path === 'string' &&
      isGrantingCall(path) &&
      (this.#kept.size > 0 || this.#deps.isPressed());
    if (!isKept) {
      connection.begin(call);
      return;
    }
    this.#kept.push(connection.use.principal, { connection, call, atMs });
    this.#watch();
  }

  forget(connection: GatedConnection): void {
    this.#kept.drop((kept) => kept.connection === connection);
  }

  #watch(): void {
    if (this.#isWatched || this.#kept.size === 0) return;
    this.#isWatched = true;
    this.#deps.after(LOOK_MS, () => {
      this.#isWatched = false;
      this.#look();
      this.#watch();
    });
  }

  #look(): void {
    const sinceMs = this.#deps.nowMs() - KEPT_MS_MAX;
    for (const late of this.#kept.drop(({ atMs }) => atMs <= sinceMs)) this.#refuse(late);
    for (let itemCount = 0; itemCount < ITEMS_AT_ONCE && !this.#deps.isPressed();) {
      const next = this.#kept.shift();
      if (next === undefined) return;
      next.connection.begin(next.call);
      itemCount += itemsOf(next.call);
    }
  }

  #refuse({ connection, call }: KeptCall): void {
    this.#deps.onRefusal(connection);
    connection.refuse(call, overloaded());
  }
}

/** How many grants a call asks for, as far as can be seen before it is checked. */
function itemsOf({ params }: WireCall): number {
  const input = params?.input as { readonly items?: unknown } | null | undefined;
  return Array.isArray(input?.items) ? Math.max(1, input.items.length) : 1;
}
