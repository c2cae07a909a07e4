import {
  callErrorOf,
  isUnreachable,
  LeaseholdCallError,
  leaseholdErrorOf,
  OutcomeUnknownError,
  UnreachableError,
} from '@leasehold/client';
import {
  ERROR_CODES,
  LeaseError,
  type CommandErrorCode,
  type ErrorCode,
} from '@leasehold/keys-core';
import { CommanderError } from 'commander';
import { durationText, indentedLines, likeIn, printable } from './output/text.ts';

/**
 * What a command ends with when it could not do what was asked: a sentence that says what is wrong,
 * and a hint that says what to do about it. `code` is what programs read; `exitCode` is one of
 * {@link EXIT_CODES}, or one of the other exit codes of `leases run`.
 */
export class CliFailure extends Error {
  readonly code: FailureCode;
  readonly exitCode: number;
  readonly hint: string | undefined;
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>>;
  readonly incidentId: string | undefined;

  constructor(
    message: string,
    failure: {
      code: FailureCode;
      exitCode: number;
      hint?: string | undefined;
      retryable?: boolean | undefined;
      details?: Readonly<Record<string, unknown>> | undefined;
      incidentId?: string | undefined;
      cause?: unknown;
    },
  ) {
    super(message, { cause: failure.cause });
    this.name = 'CliFailure';
    this.code = failure.code;
    this.exitCode = failure.exitCode;
    this.hint = failure.hint;
    this.retryable = failure.retryable ?? false;
    this.details = failure.details ?? {};
    this.incidentId = failure.incidentId;
  }
}

/** The command line, or a value in the environment or in a file, is wrong. */
export function usageFailure(message: string, hint?: string): CliFailure {
  return new CliFailure(message, { code: 'cli.usage', exitCode: EXIT_CODES.usage, hint });
}

/** Leasehold, or this machine, refused what was asked. */
export function refusal(code: FailureCode, message: string, hint?: string): CliFailure {
  return new CliFailure(message, {
    code,
    exitCode: exitCodeFor(code),
    hint,
    retryable: isErrorCode(code) && ERROR_CODES[code].retryable,
  });
}

/** Whether the same request may succeed a moment later: no controller answered, or one refused it for now only. */
export function isPassing(error: unknown): boolean {
  return isUnreachable(error) || leaseholdErrorOf(error)?.retryable === true;
}

/** Nobody answered. */
export function unreachable(message: string, hint: string, cause?: unknown): CliFailure {
  return new CliFailure(message, {
    code: 'cli.unreachable',
    exitCode: EXIT_CODES.unreachable,
    hint,
    retryable: true,
    cause,
  });
}

/** One of the codes of either registry. */
type FailureCode = ErrorCode | CommandErrorCode;

/** What the exit code of every command means. Scripts rely on it. */
export const EXIT_CODES = {
  /** It was done, or shown. */
  done: 0,
  /** Leasehold answered, and refused: an error code, or a check that found something wrong. */
  refused: 1,
  /** The command line, or a value in the environment, is wrong. Nothing was sent. */
  usage: 2,
  /** No controller answered, or what it needs did not: its database, etcd, another datacenter. */
  unreachable: 3,
  /** What was named does not exist, or may not be seen. */
  notFound: 4,
  /** The token was refused, or its role, its namespaces or its programs do not allow this. */
  notAllowed: 5,
  /** Somebody else holds it, the one that held it has not gone yet, or it is frozen. */
  held: 6,
} as const;

/** For `--help`. */
export const EXIT_CODES_HELP =
  'Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable, 4 not found, 5 not allowed, 6 held by others.';

type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** Error codes with another exit code than `refused`; all `….not_found` have `notFound`. */
const EXIT_CODE_OF: Partial<Record<FailureCode, ExitCode>> = {
  'request.invalid': EXIT_CODES.usage,
  'config.invalid': EXIT_CODES.usage,
  'store.unavailable': EXIT_CODES.unreachable,
  'controller.stopping': EXIT_CODES.unreachable,
  'controller.overloaded': EXIT_CODES.unreachable,
  'request.deadline': EXIT_CODES.unreachable,
  'request.outcome_unknown': EXIT_CODES.unreachable,
  'reservation.datacenter_unreachable': EXIT_CODES.unreachable,
  'reservation.store_unreachable': EXIT_CODES.unreachable,
  'peer.refused': EXIT_CODES.unreachable,
  'reservation.unknown_datacenter': EXIT_CODES.notFound,
  'auth.required': EXIT_CODES.notAllowed,
  'auth.forbidden': EXIT_CODES.notAllowed,
  'auth.csrf': EXIT_CODES.notAllowed,
  'drone.not_allowed': EXIT_CODES.notAllowed,
  'spawn.not_allowed': EXIT_CODES.notAllowed,
  'lease.held': EXIT_CODES.held,
  'lease.wait_timeout': EXIT_CODES.held,
  'key.terminating': EXIT_CODES.held,
  'key.holder_unreachable': EXIT_CODES.held,
  'key.tag_mismatch': EXIT_CODES.held,
  'reservation.key_held': EXIT_CODES.held,
  'environment.frozen': EXIT_CODES.held,
  'environment.superseded': EXIT_CODES.held,
};

/** The exit code of a command that failed with this code. */
function exitCodeFor(code: FailureCode): ExitCode {
  // A procedure that does not exist is no thing that somebody named.
  const isNotFound = code.endsWith('.not_found') && code !== 'request.not_found';
  return EXIT_CODE_OF[code] ?? (isNotFound ? EXIT_CODES.notFound : EXIT_CODES.refused);
}

/**
 * More exit codes of `leasehold leases run`: otherwise its exit code is that of the command.
 * `timeout`, `env` and shells use the same codes for the same things.
 */
export const RUN_EXIT_CODES = {
  /** The command was stopped, or cannot be trusted to have stopped in time, because of its lease. */
  lost: 125,
  notExecutable: 126,
  notFound: 127,
} as const;

/** The exit code of a process that a signal has ended is this plus the signal's number, as in shells. */
export const SIGNAL_EXIT_CODE = 128;

/** Hints that say more here, at a command line, than the registry does. */
const HINT_OF: Partial<Record<ErrorCode, string | undefined>> = {
  // The message names the field and what is allowed.
  'request.invalid': undefined,
  // The message names the role, or the namespace; which token was used is less plain.
  'auth.forbidden':
    'If LEASEHOLD_TOKEN is set, this command used it. Where `leasehold up` runs, unset it to act as the administrator.',
  'auth.required':
    'The token was refused. Set LEASEHOLD_TOKEN to a valid one; an administrator makes it with `leasehold tokens create`.',
  'key.unheld':
    'Add `--program NAME` to start a backend; `leasehold drones ls` shows what is offered.',
  'backend.failed':
    '`leasehold backends logs BACKEND` shows all that its drone keeps. The next connect starts it again; from the third failure within ten minutes on it waits before, unless `leasehold keys reset-failures KEY` allows it at once.',
  'key.terminating': 'Wait, or pass a larger `--wait`, such as `--wait 1m`.',
  'key.holder_unreachable':
    'Its backend may still run, so the key is not granted again before it expires. See `leasehold drones ls`.',
  'spawn.no_drone':
    'A drone that offers the program has to be reachable, not draining, with free capacity, and in the datacenter of the key: see `leasehold drones ls`.',
  'reservation.give_up_early':
    'Something there may still act on them. Wait, or be certain that its machines are off, and abandon what may run there.',
  'environment.frozen':
    '`--wait` waits for the end of a freeze that is within it. With `--override REASON` it is passed, if it allows that: see `leasehold env freeze ls`.',
  'environment.superseded':
    'Nothing was started: what it was for is done by the newer one. `--held-exit N` gives another exit code.',
  'config.invalid': 'Nothing was done.',
  'reservation.datacenter_unreachable':
    'It stays there. `leasehold datacenters ls` shows which datacenters can be reached.',
  'reservation.key_held':
    'Revoke it with `leasehold keys revoke`, or wait, and move it when it is free.',
  'reservation.same_datacenter': 'There is nothing to move: it is done.',
  'reservation.store_unreachable':
    'Keys whose home is known still work. `leasehold datacenters ls` shows the state of the store.',
};

/** The controllers that a command asked, and where their addresses and its token are from. */
interface Asked {
  readonly urls: readonly string[];
  readonly from?: { readonly urls: string; readonly token: string };
}

/** Any error that a command threw, as the failure that it ends with. Nothing of it is hidden from people. */
export function failureOf(error: unknown, asked?: Asked): CliFailure {
  if (error instanceof CliFailure) return error;
  if (error instanceof CommanderError) return usageFailure(error.message.replace(/^error: /u, ''));
  const answered = answeredFailure(error, asked);
  if (answered !== undefined) return answered;
  if (isUnanswered(error)) return unansweredFailure(error, asked);
  return new CliFailure(messageOf(error), {
    code: 'cli.unexpected',
    exitCode: EXIT_CODES.refused,
    cause: error,
  });
}

function unansweredFailure(error: unknown, asked: Asked | undefined): CliFailure {
  const said = callErrorOf(error);
  const [text, why] = said instanceof UnreachableError ? said.message.split('\n', 2) : [];
  // Without a second line, which says why by address, the first says what is wrong with the address.
  if (said instanceof UnreachableError && said.hint !== null && why === undefined) {
    const from = asked?.from === undefined ? '' : `\nThe address is from ${asked.from.urls}.`;
    return unreachable(`${text ?? ''}.${from}`, said.hint, error);
  }
  const place = asked === undefined ? 'its address' : placeText(asked);
  return unreachable(
    `No controller answers at ${place}.${why === undefined ? '' : `\n${why}`}`,
    'Is it running? `leasehold up` starts one here; `leasehold doctor` shows more.',
    error,
  );
}

function placeText({ urls, from }: Asked): string {
  return `${urls.join(', ')}${from === undefined ? '' : ` (${from.urls})`}`;
}

/** An error that has a code of the registry; {@link isUnanswered} is checked after it. */
function answeredFailure(error: unknown, asked: Asked | undefined): CliFailure | undefined {
  if (error instanceof LeaseError) {
    const { details, cause } = error;
    const message = `${error.message}${moreIn(details)}`;
    return ofCode(error.code, message, { details, cause, asked });
  }
  const answered = error instanceof LeaseholdCallError ? error : leaseholdErrorOf(error);
  if (answered === undefined || !isErrorCode(answered.code)) return undefined;
  if (answered.code === 'request.unreachable') return undefined;
  const called = callErrorOf(error);
  return ofCode(answered.code, `${answered.message}${moreIn(answered.details)}`, {
    details: answered.details,
    incidentId: answered.incidentId ?? undefined,
    cause: error,
    asked,
    hint: called instanceof OutcomeUnknownError ? (called.hint ?? undefined) : undefined,
  });
}

/** What the details add to the sentence, for people. */
function moreIn(details: Readonly<Record<string, unknown>>): string {
  return `${offeredIn(details)}${outputIn(details)}`;
}

/** What a backend wrote before it failed, below the sentence that says how it did. */
function outputIn({ output }: Readonly<Record<string, unknown>>): string {
  if (typeof output !== 'string' || output === '') return '';
  return `\n\nIts last lines:\n${indentedLines(output)}\n`;
}

/** How many programs a refusal names in a text. */
const OFFERED_SHOWN_MAX = 10;

/** Which programs are offered instead, and the one that was probably meant. */
function offeredIn({ program, offered }: Readonly<Record<string, unknown>>): string {
  const names = Array.isArray(offered) ? offered.map(String) : [];
  if (names.length === 0) return '';
  const more = names.length - OFFERED_SHOWN_MAX;
  const shown = names.slice(0, OFFERED_SHOWN_MAX).map(printable).join(', ');
  const like = likeIn(names, String(program));
  return (
    ` Offered: ${shown}${more > 0 ? ` and ${String(more)} more` : ''}.` +
    (like === undefined ? '' : `\n(Did you mean ${printable(like)}?)`)
  );
}

function isUnanswered(error: unknown): boolean {
  return error instanceof UnreachableError || isUnreachable(error) || isConnectionError(error);
}

function ofCode(
  code: ErrorCode,
  message: string,
  more: {
    details?: unknown;
    incidentId?: string | undefined;
    cause?: unknown;
    asked: Asked | undefined;
    /** Instead of that of the code. */
    hint?: string | undefined;
  },
): CliFailure {
  return new CliFailure(message, {
    code,
    exitCode: exitCodeFor(code),
    hint: tokenHint(code, more.asked) ?? more.hint ?? hintOf(code, more.details),
    retryable: ERROR_CODES[code].retryable,
    details: (more.details ?? {}) as Record<string, unknown>,
    incidentId: more.incidentId,
    cause: more.cause,
  });
}

/** What to do about a token, with where it is from; undefined where {@link HINT_OF} says it all. */
function tokenHint(code: ErrorCode, asked: Asked | undefined): string | undefined {
  const source = asked?.from?.token;
  if (source === undefined || source === 'LEASEHOLD_TOKEN') return undefined;
  if (code === 'auth.forbidden') return `This command used the token of ${source}.`;
  if (code !== 'auth.required') return undefined;
  return (
    `The token of ${source} was refused. ` +
    '`leasehold tokens create` makes another; `leasehold context add --replace` keeps it.'
  );
}

/** What to do, with the backend that it is about. */
function hintOf(code: ErrorCode, details: unknown): string | undefined {
  const known = (details ?? {}) as Readonly<Record<string, unknown>>;
  const hint = code in HINT_OF ? HINT_OF[code] : withoutDetails(ERROR_CODES[code].doc, known);
  const { backendId } = known;
  return typeof backendId === 'string' ? hint?.replaceAll('BACKEND', backendId) : hint;
}

/** A text for callers of the API, for a reader who does not see the details: durations are told, other fields are not. */
function withoutDetails(
  doc: string,
  details: Readonly<Record<string, unknown>>,
): string | undefined {
  const told = doc.replaceAll(/`details\.(\w+Ms)`/gu, (field, name: string) => {
    const ms = details[name];
    return typeof ms === 'number' ? durationText(ms) : field;
  });
  const sentences = told.split(/(?<=[.;]) (?=[A-Z`])/u);
  const left = sentences.filter((sentence) => !/`details[.`]/u.test(sentence)).join(' ');
  return left === '' ? undefined : left;
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What the runtime throws, somewhere in the chain of causes, when nobody listens or answers. */
const CONNECTION_ERROR =
  /ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|UND_ERR|fetch failed|other side closed/u;

/** Whether an error says that there was no answer, rather than a bad one. */
function isConnectionError(error: unknown): boolean {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const code = 'code' in cause ? String(cause.code) : '';
    if (CONNECTION_ERROR.test(code) || CONNECTION_ERROR.test(cause.message)) return true;
  }
  return false;
}
