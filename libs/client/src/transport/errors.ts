/**
 * The errors of the client library. A class exists for each case that services handle separately.
 * `code` is the code of the registry (`error-codes.ts`), which is the same in all versions and
 * processes. All other errors are a {@link LeaseholdCallError} with their code.
 */
import type { AppRouter } from '@leasehold/api';
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import {
  areWrongAddresses,
  failuresText,
  firstCauseOf,
  NoControllerAnswers,
  NotAController,
  wasNeverSent,
  type ConnectionFailures,
} from '@leasehold/service-kit/controllers';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import { tap } from '@trpc/server/observable';

/** Node prints an object by the method of this name. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom');

export interface CallErrorOptions {
  readonly message?: string | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly retryable?: boolean | undefined;
  /** Names the entry in the controller's log. */
  readonly incidentId?: string | null | undefined;
  readonly cause?: unknown;
  /** The controllers that were asked; by default those of the cause. */
  readonly url?: string | undefined;
  /** Instead of what the registry says of the code. */
  readonly hint?: string | undefined;
}

/** A call that failed. */
export class LeaseholdCallError extends Error {
  override readonly name: string = 'LeaseholdCallError';
  /** Of the registry; a newer controller may know more codes than this client. */
  readonly code: ErrorCode;
  /** Whether the same request may succeed if it is sent again unchanged. */
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>>;
  readonly incidentId: string | null;
  /** The controllers that were asked, separated by commas; null if that is not known. */
  readonly url: string | null;
  /** What to do about it, or what it means; null for a code that this version does not know. */
  readonly hint: string | null;

  constructor(code: ErrorCode, options: CallErrorOptions = {}) {
    const known = ERROR_CODES[code] as { text: string; retryable: boolean } | undefined;
    super(options.message ?? known?.text ?? code, { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? known?.retryable ?? false;
    this.details = options.details ?? {};
    this.incidentId = options.incidentId ?? null;
    this.url = options.url ?? askedUrlOf(options.cause);
    this.hint = options.hint ?? hintOf(code);
  }

  /** How Node prints it: not with its causes, which are parts of connections. They are in `cause`. */
  [INSPECT](): string {
    return shownError(this);
  }
}

/** What the registry says of a code; null for one that this version does not know. */
function hintOf(code: ErrorCode): string | null {
  return (ERROR_CODES[code] as { doc: string } | undefined)?.doc ?? null;
}

/** Nothing answers at the controller's address: nothing was sent. */
export class UnreachableError extends LeaseholdCallError {
  override readonly name = 'UnreachableError';

  constructor(options: CallErrorOptions = {}) {
    super('request.unreachable', options);
  }
}

/** With why, by address, in a second line. */
export function unreachableBy(failures: ConnectionFailures, url?: string): UnreachableError {
  const { text } = ERROR_CODES['request.unreachable'];
  if (failures.size === 0) {
    const where = url === undefined ? '' : `\n${url}: no answer`;
    return new UnreachableError({ message: `${text}${where}`, url });
  }
  const isWrong = areWrongAddresses(failures);
  return new UnreachableError({
    message: isWrong ? failuresText(failures) : `${text}\n${failuresText(failures)}`,
    url,
    hint: isWrong ? WRONG_ADDRESS_HINT : undefined,
    cause: firstCauseOf([...failures.values()][0]),
  });
}

const WRONG_ADDRESS_HINT =
  'Nothing was done. Correct the address: it is that of a controller, by default `http://HOST:4600`, not of the console or the gateway.';

/** The answer was lost: the request may have been carried out or not. */
export class OutcomeUnknownError extends LeaseholdCallError {
  override readonly name = 'OutcomeUnknownError';

  constructor(options: CallErrorOptions = {}) {
    super('request.outcome_unknown', {
      message: 'The answer of the controller was lost; the outcome is unknown.',
      ...options,
    });
  }
}

/**
 * The controller cannot reach the datacenter of the request: nothing was sent to it. Its keys stay
 * there, and are served there.
 */
export class DatacenterUnreachableError extends LeaseholdCallError {
  override readonly name = 'DatacenterUnreachableError';

  constructor(options: CallErrorOptions = {}) {
    super('reservation.datacenter_unreachable', options);
  }

  /** Its name; undefined if the controller did not send it. */
  get datacenter(): string | undefined {
    return textOf(this.details['datacenter']);
  }
}

/** Nobody may acquire the environment now; until when and why is in it. */
export class EnvironmentFrozenError extends LeaseholdCallError {
  override readonly name = 'EnvironmentFrozenError';

  constructor(options: CallErrorOptions = {}) {
    super('environment.frozen', options);
  }

  get freezeId(): string {
    return textOf(this.details['freezeId']) ?? '';
  }

  get reason(): string {
    return textOf(this.details['reason']) ?? '';
  }

  /** When the present window of the freeze ends. */
  get until(): Date {
    return new Date(textOf(this.details['until']) ?? '');
  }

  /** Who may override it. */
  get allow(): { readonly roles: readonly string[]; readonly people: readonly string[] } {
    return { roles: textsOf(this.details['roles']), people: textsOf(this.details['people']) };
  }
}

/** A newer request for the environment has taken the place of this one in its line. */
export class EnvironmentSupersededError extends LeaseholdCallError {
  override readonly name = 'EnvironmentSupersededError';

  constructor(options: CallErrorOptions = {}) {
    super('environment.superseded', options);
  }

  /** The holder of the newer request. */
  get by(): string {
    return textOf(this.details['by']) ?? '';
  }

  /** When it came. */
  get since(): Date {
    return new Date(textOf(this.details['since']) ?? '');
  }
}

/** The home of a fresh key cannot be decided now. Keys whose home is known still work. */
export class ReservationStoreUnreachableError extends LeaseholdCallError {
  override readonly name = 'ReservationStoreUnreachableError';

  constructor(options: CallErrorOptions = {}) {
    super('reservation.store_unreachable', options);
  }
}

/** A held key does not move. */
export class ReservationKeyHeldError extends LeaseholdCallError {
  override readonly name = 'ReservationKeyHeldError';

  constructor(options: CallErrorOptions = {}) {
    super('reservation.key_held', options);
  }

  /** The drone that holds it; undefined if the controller did not send it. */
  get holder(): string | undefined {
    return textOf(this.details['holder']);
  }

  /** The time until its expiry, without a renewal. Milliseconds. */
  get remainingMs(): number | undefined {
    const { remainingMs } = this.details;
    return typeof remainingMs === 'number' ? remainingMs : undefined;
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

/**
 * The error of this library for an error of a call: the `LeaseLost` itself if that ended it. Anything else, such as
 * the reason of an aborted signal, is returned unchanged.
 */
export function callErrorOf(thrown: unknown): unknown {
  // Refused here, before anything was sent: too many calls wait, for example.
  if (thrown instanceof LeaseError) {
    const { code, message, details } = thrown;
    return codedError(code, { message, details, cause: thrown });
  }
  if (!(thrown instanceof TRPCClientError)) return thrown;
  if (thrown.cause instanceof LeaseholdCallError) return thrown.cause;
  const reason: unknown = thrown.cause?.cause;
  if (reason instanceof NoControllerAnswers) {
    return unreachableBy(reason.failures, askedUrlOf(thrown) ?? undefined);
  }
  if (isUnreachable(thrown)) return new UnreachableError({ cause: thrown });
  const error = leaseholdErrorOf(thrown);
  if (error === undefined) return thrown;
  return codedError(error.code, { ...error, cause: thrown, hint: lostQueryHint(thrown) });
}

/** Codes that have their own class. */
const CLASS_OF: Partial<Record<ErrorCode, new (options: CallErrorOptions) => LeaseholdCallError>> =
  {
    'environment.frozen': EnvironmentFrozenError,
    'environment.superseded': EnvironmentSupersededError,
    'request.outcome_unknown': OutcomeUnknownError,
    'request.unreachable': UnreachableError,
    'reservation.datacenter_unreachable': DatacenterUnreachableError,
    'reservation.store_unreachable': ReservationStoreUnreachableError,
    'reservation.key_held': ReservationKeyHeldError,
  };

/** The error for a code of the registry, in its own class if it has one. */
export function codedError(code: ErrorCode, options: CallErrorOptions): LeaseholdCallError {
  const Own = CLASS_OF[code];
  return Own === undefined ? new LeaseholdCallError(code, options) : new Own(options);
}

/** What a controller answered instead of a result. */
export interface LeaseholdError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly incidentId: string | null;
  readonly details: Readonly<Record<string, unknown>>;
}

/**
 * The error of the registry for a failed call. It is `request.outcome_unknown` if the connection broke,
 * the time limit passed, or a proxy answered: the call may have been carried out. Undefined if it was
 * certainly not carried out (see {@link isUnreachable}), if the caller cancelled it, and for errors that
 * are not failures of a call.
 */
export function leaseholdErrorOf(error: unknown): LeaseholdError | undefined {
  if (!(error instanceof TRPCClientError)) return undefined;
  const { cause } = error;
  if (cause instanceof LeaseError || cause instanceof LeaseholdCallError) {
    const { code, message, retryable, details } = cause;
    const incidentId = cause instanceof LeaseholdCallError ? cause.incidentId : null;
    return { code, message, retryable, incidentId, details };
  }
  const data: unknown = error.data;
  if (typeof data === 'object' && data !== null && 'leaseholdCode' in data) {
    return answeredError(error.message, { ...data });
  }
  const turnedAway = turnedAwayWith(cause);
  if (turnedAway !== undefined) return errorOf(turnedAway);
  if (isUnreachable(error) || isGivenUp(cause)) return undefined;
  const message = lostText(error, isOfQuery(error));
  return { ...errorOf('request.outcome_unknown'), message };
}

/** How an answer was lost, with the address and the first cause in a second line. */
function lostText(error: Error, isQuery: boolean): string {
  const first = firstCauseOf(error.cause);
  const why = first instanceof Error ? (first.message.split('\n', 1)[0] ?? '') : '';
  // A page of a proxy, for example.
  const how =
    first instanceof NotAController
      ? 'What answered is no controller'
      : 'The connection to the controller broke';
  const text = isQuery ? `${how}: there is no answer.` : `${how}; the outcome is unknown.`;
  if (why === '') return text;
  const url = askedUrlOf(error);
  // With several it is not known which one was asked.
  const isOne = url !== null && URL.canParse(url) && !url.includes(',');
  return `${text}\n${isOne ? failuresText(new Map([[url, first]])) : why}`;
}

/** What to do about a lost answer to a query; undefined for other errors. */
export function lostQueryHint(error: unknown): string | undefined {
  if (!isOfQuery(error) || leaseholdErrorOf(error)?.code !== 'request.outcome_unknown') {
    return undefined;
  }
  return 'Nothing was changed: ask again. If it goes on, check that this is the address of a controller, and that it runs.';
}

/**
 * The code with which a controller refused this connection before it carried anything out: the reason
 * with which the WebSocket was closed.
 */
function turnedAwayWith(cause: unknown): ErrorCode | undefined {
  for (const event of [cause, cause instanceof Error ? cause.cause : undefined]) {
    if (typeof event !== 'object' || event === null || !('reason' in event)) continue;
    const { reason } = event;
    if (typeof reason === 'string' && reason in ERROR_CODES) return reason as ErrorCode;
  }
  return undefined;
}

function errorOf(code: ErrorCode): LeaseholdError {
  const { text, retryable } = ERROR_CODES[code];
  return { code, message: text, retryable, incidentId: null, details: {} };
}

function answeredError(message: string, data: Record<string, unknown>): LeaseholdError {
  const { leaseholdCode, retryable, incidentId, details } = data;
  return {
    // A newer controller may know codes that this client does not; they stay unchanged.
    code: leaseholdCode as ErrorCode,
    message,
    retryable: retryable === true,
    incidentId: typeof incidentId === 'string' ? incidentId : null,
    details:
      typeof details === 'object' && details !== null ? (details as Record<string, unknown>) : {},
  };
}

function isGivenUp(cause: unknown): boolean {
  return cause instanceof Error && cause.name === 'AbortError';
}

/** Whether a call failed because nothing answers at the controller's address: nothing was sent. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof TRPCClientError && wasNeverSent(error.cause);
}

// How errors are printed: two lines, and nothing of what a connection is made of.

const ASKED_URL = Symbol('asked url');
/** On an error of a query: it changes nothing, so there is nothing that may have been done. */
const IS_QUERY = Symbol('is query');

interface Printed {
  readonly name: string;
  readonly message: string;
  readonly code: string;
  readonly url: string | null;
  readonly hint: string | null;
}

/**
 * `LeaseholdCallError: A valid token is required. (auth.required)`, and in a second line the address and
 * what to do.
 */
function shownError({ name, message, code, url, hint }: Printed): string {
  const [first = '', ...rest] = message.split('\n');
  const where = rest.length > 0 ? rest.join('; ') : url;
  const second = [where, hint].filter((part) => part !== null).join('. ');
  return `${name}: ${first} (${code})${second === '' ? '' : `\n    ${second}`}`;
}

/** The controllers that a failed call had asked; null for other errors. */
function askedUrlOf(error: unknown): string | null {
  if (!(error instanceof TRPCClientError) || !(ASKED_URL in error)) return null;
  return String(error[ASKED_URL]);
}

/** Adds the address to errors of calls, and makes them print in two lines. */
export function shownErrorsLink(urls: readonly string[]): TRPCLink<AppRouter> {
  const url = urls.join(', ');
  return () =>
    ({ op, next }) =>
      next(op).pipe(
        tap({
          error(error) {
            if (op.type === 'query') Object.defineProperty(error, IS_QUERY, { value: true });
            showError(error, url);
          },
        }),
      );
}

function isOfQuery(error: unknown): boolean {
  return error instanceof TRPCClientError && IS_QUERY in error;
}

/** Adds the address to an error of a call, and makes it print in two lines. */
export function showError(error: TRPCClientError<AppRouter>, url: string): void {
  Object.defineProperty(error, ASKED_URL, { value: url });
  Object.defineProperty(error, INSPECT, { value: () => shownCallError(error, url) });
}

function shownCallError(error: TRPCClientError<AppRouter>, url: string): string {
  const { name } = error;
  const known = leaseholdErrorOf(error);
  const called = callErrorOf(error);
  if (called instanceof UnreachableError && called.message !== error.message) {
    const { code, message, hint } = called;
    return shownError({ name, message, code, url, hint });
  }
  if (known === undefined) {
    const [first = ''] = error.message.split('\n', 1);
    return shownError({ name, message: first, code: 'request.unreachable', url, hint: null });
  }
  const { code, message } = known;
  return shownError({ name, message, code, url, hint: lostQueryHint(error) ?? hintOf(code) });
}
