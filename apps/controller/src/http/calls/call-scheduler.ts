/**
 * Decides which call of which connection is begun next. Messages wait unread in a short queue of their
 * connection; one turn of the event loop begins calls for a few milliseconds and leaves the rest to the
 * next turn, so that however much arrives, sockets are read, answers are written and timers run in
 * between.
 *
 * What a call does after it was begun is not seen here, but it makes the turn longer. So the number of
 * calls that a turn begins is halved after a long turn, and grows after a short one. A few calls of each
 * principal are begun in any case: nobody pays for the long turns of another. Reading a message, and handing
 * the gate a call that it keeps back, begin nothing: what is to be refused must not wait for a turn.
 *
 * - Connections of drones come first. Within a connection, renewals, heartbeats, releases and ends of streams do.
 * - Principals take turns, whatever each of them has sent over however many connections.
 * - A connection whose queue is full, or whose principal has sent too many calls, is paused: the rest stays
 *   with the sender. One whose principal does not read its answers is read on, but pauses after each refusal, and only
 *   its renewals, heartbeats, releases and ends of streams are begun.
 */
import { isGrantingCall, isUrgentCall } from '@leasehold/api';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import { FairQueue } from '@leasehold/service-kit/fair-queue';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';
import { overloaded } from '../../fair-use/pacing.ts';
import {
  callsIn,
  Inbox,
  peekedCall,
  refusableCall,
  type ScheduledConnection,
  type WireCall,
} from './inbox.ts';

// Keeps calls that ask for grants back while more of them wait for the database than it carries out,
// and refuses what has waited too long: a caller learns within a tenth of a second that it has to try
// later, and what is carried out is answered as soon as ever. Renewals, releases and reads pass.
//
// A queue that is bounded in time, and not in length, is from "Fail at Scale" (Ben Maurer, ACM Queue 13.8).

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

interface GrantingGateDeps {
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
function isGranting({ params }: WireCall): boolean {
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

/** How long one turn of the event loop begins calls for. */
const SLICE_MS = 4;
/** For how much longer it hands the gate calls that it keeps back: they would be refused too late. */
const KEEPING_MS = 12;
/** In this part of it, drones are served before all others. */
const URGENT_SLICE_MS = 2;
/** A turn that took longer began too many calls: what arrives meanwhile waits for its end. */
const TURN_MS_MAX = 20;
/** How many calls a turn may begin: at first, at most. */
const BEGUN_FIRST = 32;
const BEGUN_MAX = 2_000;
/** Each turn may begin this many calls of a principal, however long others make the turns. */
const BEGUN_OF_EACH_MIN = 4;
/** The longest pause of a connection that has sent too much. */
const REFUSED_PAUSE_MS_MAX = 250;
/** So many calls of one message are refused in one step: their answers cost as much as others. */
const REFUSED_AT_ONCE = 20;
/** How soon a connection whose answers were not read is checked again. */
const BEHIND_PAUSE_MS = 25;

export interface CallScheduler {
  /** Schedules what a connection receives. @returns functions that take its messages and end it. */
  add(connection: ScheduledConnection): {
    readonly receive: (message: string) => void;
    readonly close: () => void;
  };
  /** Connections with calls that wait to be begun, for metrics. */
  readonly waitingCount: number;
}

/** @param nowMs a monotonic reading, in milliseconds. */
export function createCallScheduler(nowMs: () => number, gate: GrantingGate): CallScheduler {
  return new Scheduler(nowMs, gate);
}

class Scheduler implements CallScheduler {
  readonly #nowMs: () => number;
  readonly #gate: GrantingGate;
  readonly #urgent = new FairQueue<Inbox>();
  readonly #ordinary = new FairQueue<Inbox>();
  /** When the part of this turn for beginning calls ends; undefined between turns. */
  #sliceEndMs: number | undefined;
  #isWorking = false;
  /** Calls that this turn has begun and may begin; urgent ones do not count, and drones are not limited. */
  #begunCount = 0;
  #begunMax = BEGUN_FIRST;
  readonly #begunBy = new Map<string, number>();

  constructor(nowMs: () => number, gate: GrantingGate) {
    this.#nowMs = nowMs;
    this.#gate = gate;
  }

  get waitingCount(): number {
    return this.#urgent.size + this.#ordinary.size;
  }

  add(connection: ScheduledConnection): ReturnType<CallScheduler['add']> {
    const inbox = new Inbox(connection);
    return {
      receive: (message) => {
        inbox.messages.push({ text: message, atMs: this.#nowMs() });
        inbox.queuedBytes += message.length;
        inbox.updatePause();
        this.#schedule(inbox);
      },
      close: () => {
        inbox.isClosed = true;
        inbox.messages.length = 0;
        inbox.urgentCalls.length = 0;
        inbox.calls.length = 0;
        inbox.refused.length = 0;
        this.#gate.forget(connection);
      },
    };
  }

  #schedule(inbox: Inbox): void {
    if (inbox.isScheduled || !inbox.hasWork) return;
    inbox.isScheduled = true;
    const queue = inbox.isUrgent ? this.#urgent : this.#ordinary;
    queue.push(inbox.connection.use.principal, inbox);
    if (this.#isWorking) return;
    if (this.#sliceEndMs === undefined) this.#beginTurn();
    else this.#work();
  }

  /** What arrives in one turn of the event loop shares one slice, and the rest gets the next one. */
  #beginTurn(): void {
    const beganAtMs = this.#nowMs();
    this.#sliceEndMs = beganAtMs + SLICE_MS;
    this.#begunCount = 0;
    this.#begunBy.clear();
    this.#gate.beginTurn();
    setImmediate(() => {
      this.#adapt(this.#nowMs() - beganAtMs);
      this.#sliceEndMs = undefined;
      if (this.waitingCount > 0) this.#beginTurn();
    });
    this.#work();
  }

  #adapt(tookMs: number): void {
    if (tookMs > TURN_MS_MAX) this.#begunMax = Math.max(BEGUN_OF_EACH_MIN, this.#begunCount >> 1);
    else if (this.#begunCount >= this.#begunMax) {
      this.#begunMax = Math.min(BEGUN_MAX, this.#begunMax + (this.#begunMax >> 2) + 1);
    }
  }

  #work(): void {
    this.#isWorking = true;
    this.#workUntilEnd();
    this.#isWorking = false;
  }

  #workUntilEnd(): void {
    const endMs = this.#sliceEndMs ?? 0;
    const urgentEndMs = endMs - SLICE_MS + URGENT_SLICE_MS;
    while (this.waitingCount > 0) {
      const atMs = this.#nowMs();
      if (atMs >= endMs + KEEPING_MS) return;
      const isForUrgent = atMs < urgentEndMs || (atMs < endMs && this.#ordinary.size === 0);
      const inbox = (isForUrgent ? this.#urgent.shift() : undefined) ?? this.#next(atMs < endMs);
      if (inbox === undefined) return;
      inbox.isScheduled = false;
      this.#step(inbox);
      inbox.updatePause();
      this.#schedule(inbox);
    }
  }

  #next(isBeginning: boolean): Inbox | undefined {
    if (!isBeginning) return this.#ordinary.shift((_principal, inbox) => this.#isKept(inbox));
    const mayServe = (principal: string, inbox: Inbox): boolean =>
      this.#mayBegin(principal) || inbox.hasUnbegun || this.#isKept(inbox);
    return this.#ordinary.shift(mayServe) ?? this.#urgent.shift();
  }

  /** Whether the next step for a connection only hands the gate a call that it keeps back. */
  #isKept({ messages: [message], calls: [next], areCallsHeld }: Inbox): boolean {
    const first = areCallsHeld ? undefined : next?.call;
    const call = first ?? (message && peekedCall(message.text));
    return call !== undefined && this.#gate.wouldKeep(call);
  }

  #mayBegin(principal: string): boolean {
    return (
      this.#begunCount < this.#begunMax || (this.#begunBy.get(principal) ?? 0) < BEGUN_OF_EACH_MIN
    );
  }

  /** Begins one call of a connection, refuses some, or reads one of its messages. */
  #step(inbox: Inbox): void {
    if (inbox.isClosed) return;
    const { connection } = inbox;
    const urgent = inbox.urgentCalls.shift();
    if (urgent !== undefined) {
      connection.begin(urgent);
      return;
    }
    if (inbox.refused.length > 0) {
      this.#refuseSome(inbox);
      return;
    }
    const message = this.#comesFirst(inbox) ? undefined : inbox.messages.shift();
    if (message !== undefined) {
      inbox.queuedBytes -= message.text.length;
      this.#read(inbox, message);
      return;
    }
    if (inbox.areCallsHeld) return;
    if (connection.use.isBehind()) {
      this.#holdCalls(inbox);
      return;
    }
    const next = inbox.calls.shift();
    if (next === undefined) return;
    inbox.queuedBytes -= next.bytes;
    if (!this.#gate.begin(connection, next.call, next.atMs)) return;
    const { principal } = connection.use;
    this.#begunCount += 1;
    this.#begunBy.set(principal, (this.#begunBy.get(principal) ?? 0) + 1);
  }

  /**
   * A call that asks for grants is handed over before another message is read: the gate has to see it, so
   * that it is refused in time, and that what is behind it is not parsed if it is to be refused as well.
   */
  #comesFirst({ calls: [next], connection, areCallsHeld }: Inbox): boolean {
    if (next === undefined || areCallsHeld || !isGranting(next.call)) return false;
    return this.#gate.wouldKeep(next.call) || this.#mayBegin(connection.use.principal);
  }

  #read(inbox: Inbox, { text, atMs }: Inbox['messages'][number]): void {
    const { connection } = inbox;
    const peeked = peekedCall(text);
    if (peeked !== undefined && this.#gate.wouldKeep(peeked)) {
      this.#admit(inbox, [peeked], { atMs, bytes: text.length });
      return;
    }
    let calls: WireCall[];
    try {
      calls = callsIn(text, connection.use.role);
    } catch (error) {
      this.#refuseUnread(inbox, refusableCall(text), error as LeaseError);
      return;
    }
    const called = calls.filter((call) => !isStop(call));
    this.#admit(inbox, called.filter(isServedFirst), undefined);
    this.#admit(
      inbox,
      called.filter((call) => !isServedFirst(call)),
      { atMs, bytes: text.length },
    );
    this.#stop(inbox, calls.filter(isStop), atMs);
  }

  /**
   * Stops come first and are never refused, or the stream of one would go on. They are counted: who sends too many is
   * read later. One whose stream has not begun yet waits behind it.
   */
  #stop(inbox: Inbox, stops: readonly WireCall[], atMs: number): void {
    if (stops.length === 0) return;
    const waiting = new Set(inbox.calls.map(({ call }) => call.id));
    for (const call of stops) {
      if (waiting.has(call.id)) inbox.calls.push({ call, atMs, bytes: 0 });
      else inbox.urgentCalls.push(call);
    }
    const { use } = inbox.connection;
    const refusal = refusalBy(() => use.countCalls(stops.length, true));
    if (refusal !== undefined) this.#holdAfter(inbox, refusal);
  }

  /** Counts calls that came together, and refuses them or queues them. Of urgent ones nothing waits. */
  #admit(
    inbox: Inbox,
    calls: readonly WireCall[],
    waiting: { readonly atMs: number; readonly bytes: number } | undefined,
  ): void {
    if (calls.length === 0) return;
    const refusal = refusalOf(inbox.connection.use, calls.length, waiting === undefined);
    if (refusal !== undefined) this.#refuse(inbox, calls, refusal);
    else if (waiting === undefined) inbox.urgentCalls.push(...calls);
    else {
      const bytes = waiting.bytes / calls.length;
      for (const call of calls) inbox.calls.push({ call, atMs: waiting.atMs, bytes });
      inbox.queuedBytes += waiting.bytes;
    }
  }

  /** What is no valid call counts as one, and is held back as one: its answer costs as much. */
  #refuseUnread(inbox: Inbox, call: WireCall | undefined, error: LeaseError): void {
    this.#refuse(inbox, [call], refusalOf(inbox.connection.use, 1, false) ?? error);
  }

  #refuse(inbox: Inbox, calls: readonly (WireCall | undefined)[], refusal: LeaseError): void {
    for (const call of calls) inbox.refused.push({ call, refusal });
    this.#refuseSome(inbox);
  }

  /** Nothing more is read before all are refused, and for a caller that does not read its answers not at once. */
  #refuseSome(inbox: Inbox): void {
    const { connection, refused } = inbox;
    const some = refused.splice(0, REFUSED_AT_ONCE);
    for (const { call, refusal } of some) connection.refuse(call, refusal);
    const last = some.at(-1);
    if (refused.length === 0 && last !== undefined) this.#holdAfter(inbox, last.refusal);
    if (connection.use.isBehind()) this.#hold(inbox, BEHIND_PAUSE_MS);
  }

  #holdAfter(inbox: Inbox, refusal: LeaseError): void {
    const retryAfterMs = Number(refusal.details['retryAfterMs'] ?? 0);
    if (retryAfterMs > 0) this.#hold(inbox, Math.min(retryAfterMs, REFUSED_PAUSE_MS_MAX));
  }

  /**
   * Begins nothing but urgent calls of a connection for a while. Its principal may be behind on another one, of another
   * process: this one is read on, for its renewals.
   */
  #holdCalls(inbox: Inbox): void {
    inbox.areCallsHeld = true;
    const timer = setTimeout(() => {
      inbox.areCallsHeld = false;
      this.#schedule(inbox);
    }, BEHIND_PAUSE_MS);
    timer.unref();
  }

  /** Reads and begins nothing of a connection for a while. */
  #hold(inbox: Inbox, ms: number): void {
    if (inbox.isHeld) return;
    inbox.isHeld = true;
    inbox.updatePause();
    const timer = setTimeout(() => {
      inbox.isHeld = false;
      inbox.updatePause();
      this.#schedule(inbox);
    }, ms);
    timer.unref();
  }
}

/** Whether a call is served before others. */
function isServedFirst({ params }: WireCall): boolean {
  return typeof params?.path === 'string' && isUrgentCall(params.path);
}

/** Whether a call ends a stream: that is not answered. Without an id it is a call like others, which costs an answer. */
function isStop({ id, method }: WireCall): boolean {
  return method === 'subscription.stop' && (typeof id === 'number' || typeof id === 'string');
}

/** Counts so many calls that came together. @returns why they are refused; undefined when they are not. */
function refusalOf(use: PrincipalUse, count: number, isUrgent: boolean): LeaseError | undefined {
  return refusalBy(() => {
    use.countCalls(count, isUrgent);
    use.assertBatch(count);
  });
}

function refusalBy(count: () => void): LeaseError | undefined {
  try {
    count();
    return undefined;
  } catch (error) {
    return error instanceof LeaseError ? error : new LeaseError('internal.error');
  }
}
