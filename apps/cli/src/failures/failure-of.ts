import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import {
  callErrorOf,
  isUnreachable,
  LeaseholdCallError,
  leaseholdErrorOf,
  UnreachableError,
} from '@leasehold/client';
import { CommanderError } from 'commander';
import { EXIT_CODES, exitCodeFor } from './exit-codes.ts';
import { indentedLines } from '../output/printable.ts';
import { CliFailure, unreachable, usageFailure } from './failure.ts';

/** Hints that say more here, at a command line, than the registry does. */
const HINT_OF: Partial<Record<ErrorCode, string | undefined>> = {
  // The message names the field and what is allowed.
  'request.invalid': undefined,
  // The message names the role, or the namespace; which token was used is less plain.
  'auth.forbidden':
    'If LEASEHOLD_TOKEN is set, this command used it. Where `leasehold up` runs, unset it to act as the administrator.',
  'auth.required':
    'The token was refused. Set LEASEHOLD_TOKEN to a valid one; `leasehold tokens ls` lists them.',
  'key.unheld':
    'Add `--program NAME` to start a backend; `leasehold drones ls` shows what is offered.',
  'backend.failed':
    '`leasehold backends logs BACKEND` shows all that its drone keeps. The next connect starts it again.',
  'key.terminating': 'Wait, or pass a larger `--wait`, such as `--wait 1m`.',
  'key.holder_unreachable':
    'Its backend may still run, so the key is not granted again before it expires. See `leasehold drones ls`.',
  'config.invalid': 'Nothing was started.',
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
  if (isUnanswered(error)) {
    const place = asked === undefined ? 'its address' : placeText(asked);
    const said = callErrorOf(error);
    // The second line of its message says why, by address.
    const [, why] = said instanceof UnreachableError ? said.message.split('\n', 2) : [];
    return unreachable(
      `No controller answers at ${place}.${why === undefined ? '' : `\n${why}`}`,
      'Is it running? `leasehold up` starts one here; `leasehold doctor` shows more.',
      error,
    );
  }
  return new CliFailure(messageOf(error), {
    code: 'cli.unexpected',
    exitCode: EXIT_CODES.refused,
    cause: error,
  });
}

function placeText({ urls, from }: Asked): string {
  return `${urls.join(', ')}${from === undefined ? '' : ` (${from.urls})`}`;
}

/** An error that has a code of the registry; {@link isUnanswered} is checked after it. */
function answeredFailure(error: unknown, asked: Asked | undefined): CliFailure | undefined {
  if (error instanceof LeaseError) {
    const { details, cause } = error;
    return ofCode(error.code, error.message, { details, cause, asked });
  }
  const answered = error instanceof LeaseholdCallError ? error : leaseholdErrorOf(error);
  if (answered === undefined || !isErrorCode(answered.code)) return undefined;
  if (answered.code === 'request.unreachable') return undefined;
  return ofCode(answered.code, `${messageOf(error)}${outputIn(answered.details)}`, {
    details: answered.details,
    incidentId: answered.incidentId ?? undefined,
    ...{ cause: error, asked },
  });
}

/** What a backend wrote before it failed, below the sentence that says how it did. */
function outputIn({ output }: Readonly<Record<string, unknown>>): string {
  if (typeof output !== 'string' || output === '') return '';
  return `\n\nIts last lines:\n${indentedLines(output)}\n`;
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
  },
): CliFailure {
  return new CliFailure(message, {
    code,
    exitCode: exitCodeFor(code),
    hint: tokenHint(code, more.asked) ?? hintOf(code, more.details),
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
  const hint = code in HINT_OF ? HINT_OF[code] : ERROR_CODES[code].doc;
  const { backendId } = (details ?? {}) as { readonly backendId?: unknown };
  return typeof backendId === 'string' ? hint?.replaceAll('BACKEND', backendId) : hint;
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
