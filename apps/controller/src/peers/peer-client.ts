import {
  callerOf,
  FORWARDED_ROLES,
  isRepeatable,
  type AppRouter,
  type ForwardedCall,
} from '@leasehold/api';
import {
  ERROR_CODES,
  LeaseError,
  LIMITS,
  type Caller,
  type Clock,
  type ErrorCode,
} from '@leasehold/keys-core';
import { offerOf } from '@leasehold/keys-core/fleet';
import type { Peer, PeerProbe } from '@leasehold/keys-core/reservations';
import { NEVER_CONNECTED } from '@leasehold/service-kit/controllers';
import { traceField } from '@leasehold/service-kit/tracing';
import { createTRPCClient, httpLink, TRPCClientError } from '@trpc/client';
import { Agent, fetch as fetchWith, type RequestInit } from 'undici';
import { FROM_HEADER, TO_HEADER, type PeerConfig } from './peers-config.ts';

/** To make a connection: less than any call is given, so that it is known to be the reason. */
const CONNECT_MS_MAX = 1_500;
/** For requests that take the other datacenter no time. */
const SHORT_MS_MAX = 2_000;
/**
 * For requests that write there or ask the reservation store, besides their wait. That store is given up
 * after about six seconds, and the caller must get that answer instead of none.
 */
const MARGIN_MS = 8_000;
/** For reads: their database has ten seconds, and a drone less. A silent datacenter is found out by probes, sooner. */
const READ_MS_MAX = 12_000;
/** For reads of several datacenters, which may be asked one after the other: the others must not wait for a slow one. */
const ONE_OF_SEVERAL_MS_MAX = 2_000;
/** A connection that the other end has closed fails within this time. */
const CLOSED_MS_MAX = 500;
/** A move asks the reservation store, and twice the datacenter that the key moves to. */
const MOVE_MS_MAX = 30_000;
const ANSWER_BYTES_MAX = 64 * 1_024 * 1_024;

/** Another datacenter's controllers, over HTTP. */
interface PeerClient extends Peer, PeerProbe {
  /** Carries a procedure out there. Throws what it throws there, and as `Peer` does. */
  call(call: ForwardedCall): Promise<unknown>;
  /** Finds out whether it can be reached, once for all callers that ask meanwhile. Never throws. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

interface PeerClientDeps {
  /** This datacenter's name. */
  readonly from: string;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly reachability: PeerReachability;
  readonly onCall: (outcome: CallOutcome) => void;
}

const SHORT: Terms = { timeoutMs: SHORT_MS_MAX, isRepeatable: true };
const PROBE: Terms = { ...SHORT, isProbe: true };
/** What follows from no answer is final, so that a slow datacenter gets more time than it should need. */
const LAST_QUESTION: Terms = { timeoutMs: MARGIN_MS, isRepeatable: true, isPatient: true };
/** It changes something, but a second time it changes nothing more. */
const STATUS: Terms = { timeoutMs: MARGIN_MS, isRepeatable: true };

export function createPeerClient(config: PeerConfig, deps: PeerClientDeps): PeerClient {
  const { name: datacenter } = config;
  const { reachability } = deps;
  const { api, close } = openApi(config, deps.from);
  const make = createCallMaker({
    datacenter,
    reachability,
    onCall: deps.onCall,
    onLate: () => void probes.probe(),
  });
  const probes = createProbes(deps, (terms) =>
    make(terms, (options) => api.peer.ping.query(undefined, options)),
  );

  return {
    datacenter,
    assertReachable: () => reachability.assertReachable(),
    async connect(input, caller, signal) {
      reachability.assertReachable();
      // It waits for the key, and then for the backend.
      const readyMs = input.waitFor === 'ready' ? LIMITS.waitMsMax : 0;
      const waitMs = input.waitMs + readyMs;
      const sent = { input: input as Sent<typeof input>, caller: sentCaller(caller, null) };
      return make({ timeoutMs: waitMs + MARGIN_MS, isRepeatable: false, signal }, (options) =>
        api.peer.connect.mutate(sent, options),
      );
    },
    async offered() {
      reachability.assertReachable();
      return offerOf(await make(SHORT, (options) => api.peer.offers.query(undefined, options)));
    },
    roundTripMs: () => reachability.roundTripMs,
    async reservationStatus(reservationId, key) {
      reachability.assertReachable();
      return make(STATUS, (options) =>
        api.peer.resolve.mutate({ reservationId, key: [...key] }, options),
      );
    },
    async move({ key, ...rest }, caller, source = null) {
      reachability.assertReachable();
      const sent = { input: { ...rest, key: [...key] }, caller: sentCaller(caller, source) };
      return make({ timeoutMs: MOVE_MS_MAX, isRepeatable: false }, (options) =>
        api.peer.move.mutate(sent, options),
      );
    },
    async call({ procedure, input, waitMs, isOneOfSeveral, access, source, signal }) {
      reachability.assertReachable();
      const sent = { procedure, input, caller: sentCaller(callerOf(access), source) };
      const readMs = isOneOfSeveral === true ? ONE_OF_SEVERAL_MS_MAX : READ_MS_MAX;
      const terms = isRepeatable(procedure)
        ? { timeoutMs: readMs, isRepeatable: true, signal }
        : { timeoutMs: (waitMs ?? 0) + MARGIN_MS, isRepeatable: false, signal };
      return make<unknown>(terms, (options) => api.peer.carryOut.mutate(sent, options));
    },
    ...probes,
    close,
  };
}

/** Questions that ask only for an answer. */
function createProbes(
  { clock, reachability }: Pick<PeerClientDeps, 'clock' | 'reachability'>,
  ping: (terms: Terms) => Promise<unknown>,
): Pick<PeerClient, 'probe' | 'isSilent'> {
  let probing: Promise<void> | undefined;
  const probeOnce = async (): Promise<void> => {
    const end = reachability.probing();
    const startedAtMs = clock.nowMs();
    try {
      await ping(PROBE);
      reachability.answered(clock.nowMs() - startedAtMs);
    } catch {
      // Recorded by `reachability`, and reported from there.
    } finally {
      end();
    }
  };
  return {
    probe() {
      probing ??= probeOnce().finally(() => {
        probing = undefined;
      });
      return probing;
    },
    async isSilent() {
      // Not `reachability`: what it remembers may be a refusal, or one connection that broke.
      const isUnanswered = (): Promise<boolean> =>
        ping(LAST_QUESTION).then(() => false, isNoAnswer);
      const askedAtMs = clock.nowMs();
      if (!(await isUnanswered())) return false;
      // Once more: the first connection may be an old one, which was closed at the other end. That shows at once.
      return clock.nowMs() - askedAtMs > CLOSED_MS_MAX || (await isUnanswered());
    },
  };
}

/** The type on the wire, with mutable lists. */
type Sent<Value> = Value extends readonly (infer Item)[]
  ? Sent<Item>[]
  : Value extends object
    ? { -readonly [Field in keyof Value]: Sent<Value[Field]> }
    : Value;

function openApi(
  { name, url, secret }: PeerConfig,
  from: string,
): {
  readonly api: ReturnType<typeof createTRPCClient<AppRouter>>;
  readonly close: () => Promise<void>;
} {
  const dispatcher = new Agent({
    connect: { timeout: CONNECT_MS_MAX },
    // Each call has a deadline of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: ANSWER_BYTES_MAX,
  });
  const fixed = { authorization: `Bearer ${secret}`, [FROM_HEADER]: from, [TO_HEADER]: name };
  const api = createTRPCClient<AppRouter>({
    links: [
      httpLink({
        url: `${url}/trpc`,
        // What the call belongs to goes with it, if this controller sends traces.
        headers: () => ({ ...traceField().trace, ...fixed }),
        fetch: (address, init) =>
          fetchWith(String(address), { ...(init as RequestInit), dispatcher, redirect: 'error' }),
      }),
    ],
  });
  return { api, close: () => dispatcher.destroy() };
}

function sentCaller({ principal, actor, role, namespaces: limits }: Caller, source: string | null) {
  const namespaces = limits === null ? null : [...limits];
  return { principal, actor, role: forwardedRole(role), namespaces, source };
}

/** Nobody is an administrator in another datacenter. @throws {LeaseError} `auth.forbidden`. */
function forwardedRole(role: string): (typeof FORWARDED_ROLES)[number] {
  const found = role === 'admin' ? 'operator' : FORWARDED_ROLES.find((known) => known === role);
  if (found !== undefined) return found;
  throw new LeaseError('auth.forbidden', `The role ${role} may not call other datacenters.`);
}

/** How a call is made. */
interface Terms {
  readonly timeoutMs: number;
  /** Whether a second execution changes nothing more. */
  readonly isRepeatable: boolean;
  /** Of the caller; ends the call when the caller is gone. */
  readonly signal?: AbortSignal | undefined;
  /** It asks only for an answer: a missing one means that the datacenter is unreachable. */
  readonly isProbe?: boolean;
  /** It waits for all of its time, whatever a probe has found out meanwhile. */
  readonly isPatient?: boolean;
}

/** `refused`: it answered with an error. `unknown`: it may have been carried out. */
export type CallOutcome = 'answered' | 'refused' | 'unreachable' | 'unknown';

/** Makes one call to a datacenter, within its time, and records what it shows of the datacenter. */
type MakeCall = <Answer>(
  terms: Terms,
  send: (options: { readonly signal: AbortSignal }) => Promise<Answer>,
) => Promise<Answer>;

function createCallMaker(deps: {
  readonly datacenter: string;
  readonly reachability: PeerReachability;
  readonly onCall: (outcome: CallOutcome) => void;
  /** Called when a call took longer than its time, because of itself or of the datacenter. */
  readonly onLate: () => void;
}): MakeCall {
  const { datacenter, reachability, onCall } = deps;
  return async (terms, send) => {
    const { timeoutMs, isRepeatable, isPatient = false, signal: caller } = terms;
    caller?.throwIfAborted();
    const deadline = AbortSignal.timeout(timeoutMs);
    const silence = new AbortController();
    const ends = [deadline, silence.signal, ...(caller === undefined ? [] : [caller])];
    const unwatch = reachability.onSilence(() => {
      if (!isPatient) silence.abort();
    });
    try {
      const answer = await send({ signal: AbortSignal.any(ends) });
      reachability.answered();
      onCall('answered');
      return answer;
    } catch (thrown) {
      // A caller that has gone shows nothing of the datacenter.
      caller?.throwIfAborted();
      const { error, kind } = peerFailure(thrown, { datacenter, isRepeatable });
      const isLate = deadline.aborted && kind === 'unanswered';
      onCall(outcomeOf(error, kind));
      if (kind === 'answered') reachability.answered();
      else if (kind === 'unanswered' && terms.isProbe === true) reachability.silent(error.code);
      // One slow call need not be a slow datacenter: a probe finds out.
      else if (isLate) deps.onLate();
      else if (!silence.signal.aborted) reachability.failed(error.code);
      throw error;
    } finally {
      unwatch();
    }
  };
}

function outcomeOf(error: LeaseError, kind: PeerFailure['kind']): CallOutcome {
  if (kind === 'answered') return 'refused';
  return error.code === 'request.outcome_unknown' ? 'unknown' : 'unreachable';
}

// What a failed call to another datacenter means for the caller of this one.

export interface PeerFailure {
  readonly error: LeaseError;
  /**
   * What it shows of the datacenter: that it is reachable, for it answered; that it refuses this one;
   * or that it did not answer.
   */
  readonly kind: 'answered' | 'refused' | 'unanswered';
}

/**
 * @param call.isRepeatable whether a second execution of the call changes nothing more: then a lost
 * answer is only a missing answer.
 */
export function peerFailure(
  thrown: unknown,
  call: { readonly datacenter: string; readonly isRepeatable: boolean },
): PeerFailure {
  const { datacenter, isRepeatable } = call;
  const answered = answerOf(thrown);
  if (answered !== undefined) return answeredFailure(answered, { datacenter, cause: thrown });
  const options = { details: { datacenter }, cause: thrown };
  if (isRepeatable || wasNeverSent(thrown)) {
    const text = `The datacenter "${datacenter}" cannot be reached.`;
    return {
      error: new LeaseError('reservation.datacenter_unreachable', text, options),
      kind: 'unanswered',
    };
  }
  const text = `The answer of the datacenter "${datacenter}" was lost; the outcome is unknown.`;
  return { error: new LeaseError('request.outcome_unknown', text, options), kind: 'unanswered' };
}

/** Whether a repeatable call failed because nobody answered: what was answered names its sender, or is a refusal. */
function isNoAnswer(error: unknown): boolean {
  if (!(error instanceof LeaseError) || error.from !== undefined) return false;
  return error.code === 'reservation.datacenter_unreachable';
}

interface Answer {
  readonly code: string;
  readonly message: string;
  readonly incidentId: unknown;
  readonly details: Record<string, unknown>;
}

/** The error that the peer answered; undefined when something else went wrong. */
function answerOf(thrown: unknown): Answer | undefined {
  if (!(thrown instanceof TRPCClientError)) return undefined;
  const data: unknown = thrown.data;
  if (isObject(data)) return answerIn(data, thrown.message);
  // A refusal from before tRPC lacks some of what tRPC wants of an error, so tRPC leaves it unread.
  const body: unknown = thrown.meta?.['responseJSON'];
  const error = isObject(body) ? body['error'] : undefined;
  if (!isObject(error) || !isObject(error['data'])) return undefined;
  return answerIn(error['data'], String(error['message']));
}

function answerIn(data: Record<string, unknown>, message: string): Answer | undefined {
  const { leaseholdCode, incidentId, details } = data;
  if (typeof leaseholdCode !== 'string') return undefined;
  return { code: leaseholdCode, message, incidentId, details: isObject(details) ? details : {} };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Statuses that show the state of a datacenter, and not a mistake in the request. */
const STATES_OF_A_DATACENTER: ReadonlySet<number> = new Set([408, 429, 503]);

function answeredFailure(
  { code, message, incidentId, details }: Answer,
  { datacenter, cause }: { readonly datacenter: string; readonly cause: unknown },
): PeerFailure {
  // `auth.required`: it does not know the secret. A caller that may not do something gets another code,
  // and so is one whose request failed at a third datacenter: see `createPeerRouter`.
  if (code === 'auth.required' || code === 'peer.refused') {
    const text = `The datacenter "${datacenter}" refused the credentials of this one.`;
    const error = new LeaseError('peer.refused', text, { details: { datacenter }, cause });
    return { error, kind: 'refused' };
  }
  if (!isKnown(code) || ERROR_CODES[code].http === 500) {
    const text = `The datacenter "${datacenter}" failed: ${code}, incident ${String(incidentId)}.`;
    return {
      error: new LeaseError('internal.error', text, { cause, from: datacenter }),
      kind: 'answered',
    };
  }
  // The error may be about a third one, and then names it.
  const isState = STATES_OF_A_DATACENTER.has(ERROR_CODES[code].http);
  const told = isState ? { datacenter, ...details } : details;
  return {
    error: new LeaseError(code, message, { details: told, cause, from: datacenter }),
    kind: 'answered',
  };
}

/** A newer controller may know codes that this one does not. */
function isKnown(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

function wasNeverSent(thrown: unknown): boolean {
  if (!(thrown instanceof TRPCClientError)) return false;
  for (let cause: unknown = thrown.cause; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && NEVER_CONNECTED.has(String(cause.code))) return true;
  }
  return false;
}

/** How long after a failure nobody tries again. */
const REST_MS = 1_000;

/** Whether a datacenter can be reached, by the outcome of the last calls. */
interface PeerReachability {
  /** It answered, if only with an error. @param roundTripMs of a request that takes it no time. */
  answered(roundTripMs?: number): void;
  /** A connection could not be made or broke, or it refused the credentials. */
  failed(code: ErrorCode): void;
  /** It did not answer a probe: what is under way ends, for its answer would not come either. */
  silent(code: ErrorCode): void;
  /** @returns a function that ends it. */
  onSilence(end: () => void): () => void;
  /** A call of our own finds out, so nobody else needs to. @returns a function that ends it. */
  probing(): () => void;
  /** Since when it cannot be reached, and why; null while it can, or before it was ever asked. */
  away(): { readonly since: string; readonly code: ErrorCode } | null;
  readonly roundTripMs: number | null;
  /** @throws {LeaseError} `reservation.datacenter_unreachable` while trying would only take time. */
  assertReachable(): void;
}

export function createPeerReachability(options: {
  readonly datacenter: string;
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Called when it becomes unreachable, and when it is back. */
  readonly onChange: (code: ErrorCode | null) => void;
}): PeerReachability {
  const { datacenter, clock, onChange } = options;
  let away: { readonly since: string; readonly code: ErrorCode } | null = null;
  let failedAtMs = -Infinity;
  let probeCount = 0;
  let roundTripMs: number | null = null;
  const underWay = new Set<() => void>();
  const failed = (code: ErrorCode): void => {
    failedAtMs = clock.nowMs();
    const isNews = away?.code !== code;
    away = { since: away?.since ?? new Date().toISOString(), code };
    if (isNews) onChange(code);
  };
  return {
    answered(tookMs) {
      if (tookMs !== undefined) roundTripMs = Math.round(tookMs * 10) / 10;
      if (away === null) return;
      away = null;
      onChange(null);
    },
    failed,
    silent(code) {
      failed(code);
      for (const end of underWay) end();
    },
    onSilence(end) {
      underWay.add(end);
      return () => {
        underWay.delete(end);
      };
    },
    probing() {
      probeCount += 1;
      return () => {
        probeCount -= 1;
      };
    },
    away: () => away,
    get roundTripMs() {
      return roundTripMs;
    },
    assertReachable() {
      if (away === null) return;
      if (probeCount === 0 && clock.nowMs() - failedAtMs >= REST_MS) return;
      throw new LeaseError(
        'reservation.datacenter_unreachable',
        `The datacenter "${datacenter}" cannot be reached.`,
        { details: { datacenter, since: away.since } },
      );
    },
  };
}
