/** The input of a connection that the scheduler has not begun yet. */
import { assertBound, assertMayCallOneOf, messageBound, roleBound } from '@leasehold/api';
import { LeaseError, type Role } from '@leasehold/keys-core';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';

/** A connection with this much unread input is paused, and read again when half of it is gone. */
const QUEUED_BYTES_MAX = 512 * 1_024;
const QUEUED_CALLS_MAX = 2_000;

/** A call as it is sent. */
export interface WireCall {
  readonly id?: unknown;
  readonly jsonrpc?: unknown;
  readonly method?: unknown;
  readonly params?: { readonly path?: unknown; readonly input?: unknown };
  /** What it belongs to, as the client library writes it. */
  readonly trace?: unknown;
  /** Its message, if that has not been parsed: its input is unknown. */
  readonly unread?: string | undefined;
}

/** From here on a caller that may not call its procedure is refused before its input is parsed. */
export const LARGE_BYTES = 4 * 1_024;

/**
 * The calls in a message that a caller of this role has sent.
 * @throws {LeaseError} `request.invalid`, `request.too_large`, `auth.forbidden`.
 */
export function callsIn(text: string, role: Role): WireCall[] {
  const isList = text.startsWith('[');
  const peeked = isList ? [] : pathsIn(text);
  if (text.length >= LARGE_BYTES) assertMayCallOneOf(peeked, role);
  assertBound(isList ? roleBound(role) : messageBound(peeked, role), {
    bytes: text.length,
    json: text,
  });
  const calls = parsedCalls(text);
  // What a message names at its ends is not always what it calls.
  const paths = calls.map(({ params }) => (typeof params?.path === 'string' ? params.path : ''));
  assertBound(messageBound(paths, role), { bytes: text.length });
  return calls;
}

function parsedCalls(text: string): WireCall[] {
  try {
    const parsed: unknown = JSON.parse(text);
    const calls = (Array.isArray(parsed) ? parsed : [parsed]).filter(isCall);
    if (calls.length > 0) return calls;
  } catch (cause) {
    throw new LeaseError('request.invalid', undefined, { cause });
  }
  throw new LeaseError('request.invalid');
}

function isCall(value: unknown): value is WireCall {
  return typeof value === 'object' && value !== null;
}

const PATH = /"path"\s*:\s*"([A-Za-z.]{1,50})"/u;
const ID = /"id"\s*:\s*(\d{1,15})[,}]/u;
/** Where a message has the id and the path of its call, at either end: before or behind its input. */
const BEGIN_LENGTH = 200;

function pathsIn(text: string): string[] {
  return ends(text).flatMap((end) => PATH.exec(end)?.[1] ?? []);
}

/** As much of a call as its refusal needs, of a message that is not parsed. */
export function refusableCall(text: string): WireCall | undefined {
  if (!text.startsWith('{')) return undefined;
  const [id] = ends(text).flatMap((end) => ID.exec(end)?.[1] ?? []);
  return id === undefined ? undefined : { id: Number(id) };
}

function ends(text: string): string[] {
  return [text.slice(0, BEGIN_LENGTH), text.slice(-END_LENGTH)];
}

/** How our clients write a call that is alone in its message: its input is between these. */
const CALL_BEGINS = /^\{"id":(\d{1,15}),"method":"mutation","params":\{"input":\{/u;
const CALL_ENDS = /\},"path":"([A-Za-z.]{1,50})"\}\}$/u;
const END_LENGTH = 64;

/**
 * The call in a message, by both ends of it: enough to refuse it. To parse the input of a call that is
 * refused costs more than all else of it. Undefined for what is written in another way.
 */
export function peekedCall(text: string): WireCall | undefined {
  const id = CALL_BEGINS.exec(text)?.[1];
  const path = CALL_ENDS.exec(text.slice(-END_LENGTH))?.[1];
  if (id === undefined || path === undefined) return undefined;
  return { id: Number(id), method: 'mutation', params: { path }, unread: text };
}

/** The connection whose calls are scheduled. */
export interface ScheduledConnection {
  readonly use: PrincipalUse;
  /** Begins a call, which then runs by itself. */
  begin(call: WireCall): void;
  /** Answers calls that are not begun. `call` is undefined for a message that cannot be parsed. */
  refuse(call: WireCall | undefined, error: LeaseError): void;
  /** Stops or resumes reading from the network. */
  setPaused(isPaused: boolean): void;
}

/** The input of one connection that waits. */
export class Inbox {
  readonly connection: ScheduledConnection;
  readonly messages: { readonly text: string; readonly atMs: number }[] = [];
  readonly urgentCalls: WireCall[] = [];
  /** With the time at which each arrived. */
  readonly calls: { readonly call: WireCall; readonly atMs: number; readonly bytes: number }[] = [];
  /** Of the message that was read last: what is still to be refused. */
  readonly refused: { readonly call: WireCall | undefined; readonly refusal: LeaseError }[] = [];
  /** Of messages, and of calls that were in them. */
  queuedBytes = 0;
  isScheduled = false;
  isClosed = false;
  /** Whether something other than the length of its queue keeps it from being read. */
  isHeld = false;
  /** Whether its ordinary calls are not begun for a while. It is read on: renewals may follow them. */
  areCallsHeld = false;
  isPaused = false;

  constructor(connection: ScheduledConnection) {
    this.connection = connection;
  }

  get isUrgent(): boolean {
    const { role } = this.connection.use;
    return role === 'drone' || role === 'gateway';
  }

  /** Whether there is something to read or to refuse: that begins nothing. */
  get hasUnbegun(): boolean {
    return this.messages.length > 0 || this.refused.length > 0;
  }

  get hasWork(): boolean {
    const hasCalls = this.calls.length > 0 && !this.areCallsHeld;
    const hasSome = this.hasUnbegun || this.urgentCalls.length > 0 || hasCalls;
    return hasSome && !this.isClosed && !this.isHeld;
  }

  updatePause(): void {
    const isFull = this.queuedBytes > QUEUED_BYTES_MAX || this.calls.length > QUEUED_CALLS_MAX;
    const isLow =
      this.queuedBytes <= QUEUED_BYTES_MAX / 2 && this.calls.length <= QUEUED_CALLS_MAX / 2;
    const shallPause = this.isHeld || isFull || (this.isPaused && !isLow);
    if (shallPause === this.isPaused || this.isClosed) return;
    this.isPaused = shallPause;
    this.connection.setPaused(shallPause);
  }
}
