/**
 * The one file that knows `TRPCError`: how anything that was thrown becomes an answer. Every error
 * on the wire has a code of the registry; an error that is not meant for callers becomes
 * `internal.error` with an incident id, and its message stays in the log.
 */
import { randomUUID } from 'node:crypto';
import { TRPCError } from '@trpc/server';
import { TRPC_ERROR_CODES_BY_KEY } from '@trpc/server/rpc';
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import {
  databaseFailureOf,
  isDiskFull,
  isReadOnly,
  isOutOfConnections,
  type DatabaseFailure,
} from '@leasehold/keys-core/postgres';
import { ZodError, type core } from 'zod';
import { PROBLEMS_MAX } from './bounded-input.ts';

/** What a caller learns about an error. */
export interface ErrorAnswer {
  readonly leaseholdCode: ErrorCode;
  readonly message: string;
  readonly httpStatus: number;
  readonly retryable: boolean;
  /** In the controller's log beside the cause; null where the error explains itself. */
  readonly incidentId: string | null;
  readonly details: Readonly<Record<string, unknown>>;
}

type TrpcCode = TRPCError['code'];

/** The tRPC code of each status in the registry. A status without its own code has the nearest one. */
const TRPC_CODE_OF_STATUS: Record<(typeof ERROR_CODES)[ErrorCode]['http'], TrpcCode> = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  408: 'TIMEOUT',
  409: 'CONFLICT',
  410: 'NOT_FOUND',
  413: 'PAYLOAD_TOO_LARGE',
  429: 'TOO_MANY_REQUESTS',
  500: 'INTERNAL_SERVER_ERROR',
  502: 'BAD_GATEWAY',
  503: 'SERVICE_UNAVAILABLE',
  504: 'GATEWAY_TIMEOUT',
};

/** For requests that tRPC itself refuses before a procedure runs. The messages name no internals. */
const CODE_OF_TRPC: Partial<Record<TrpcCode, ErrorCode>> = {
  NOT_FOUND: 'request.not_found',
  METHOD_NOT_SUPPORTED: 'request.not_found',
  PARSE_ERROR: 'request.invalid',
  BAD_REQUEST: 'request.invalid',
  UNSUPPORTED_MEDIA_TYPE: 'request.invalid',
  PAYLOAD_TOO_LARGE: 'request.too_large',
  UNAUTHORIZED: 'auth.required',
  TOO_MANY_REQUESTS: 'request.rate_limited',
  CLIENT_CLOSED_REQUEST: 'request.deadline',
};

/** `data` is a defect of Leasehold: what a caller sends was checked before. */
const CODE_OF_DATABASE_FAILURE: Record<DatabaseFailure, ErrorCode> = {
  contention: 'grant.contended',
  timeout: 'request.deadline',
  unavailable: 'store.unavailable',
  lost: 'request.outcome_unknown',
  data: 'internal.error',
  other: 'internal.error',
};

/** One id per error, however often it is described: the answer and the log name the same. */
const incidentIds = new WeakMap<Error, string>();

function incidentIdOf(error: Error): string {
  const known = incidentIds.get(error);
  if (known !== undefined) return known;
  const incidentId = randomUUID();
  incidentIds.set(error, incidentId);
  return incidentId;
}

/** What a caller learns about anything that was thrown. */
export function describeError(thrown: unknown): ErrorAnswer {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const root = error instanceof TRPCError && error.cause !== undefined ? error.cause : error;
  if (root instanceof LeaseError) return describeLeaseError(root, error);
  if (root instanceof ZodError) return answer('request.invalid', requestProblems(root), error);
  if (error instanceof TRPCError && error.code !== 'INTERNAL_SERVER_ERROR') {
    return answer(CODE_OF_TRPC[error.code] ?? 'internal.error', {}, error);
  }
  // A caller that has gone away; nobody reads the answer.
  if (root.name === 'AbortError') return answer('request.deadline', {}, error);
  const shortage = shortageOf(root);
  if (shortage !== undefined) return answer('store.unavailable', shortage, error);
  return answer(CODE_OF_DATABASE_FAILURE[databaseFailureOf(root)], {}, error);
}

/** What a caller is told when the database, or the controller, has no space to write. */
const DISK_FULL = {
  message: 'The disk is full: nothing can be written until there is space.',
  details: { reason: 'disk_full' },
};

/** What a caller is told when others have all connections of the database. */
const OUT_OF_CONNECTIONS = {
  message: 'Others have all connections of the database: nothing can be done until one is free.',
  details: { reason: 'connections_taken' },
};

/** What a caller is told when the database is a standby, or somebody has set that it is not written. */
const READ_ONLY = {
  message:
    'The database is read-only: nothing can be granted, renewed or released until it is not.',
  details: { reason: 'read_only' },
};

/** Why the database cannot work now, if that is why something failed and it is known. */
function shortageOf(error: Error): typeof DISK_FULL | undefined {
  if (isDiskFull(error)) return DISK_FULL;
  if (isReadOnly(error)) return READ_ONLY;
  return isOutOfConnections(error) ? OUT_OF_CONNECTIONS : undefined;
}

function describeLeaseError(error: LeaseError, thrown: Error): ErrorAnswer {
  const shortage = error.code === 'store.unavailable' ? shortageOf(error) : undefined;
  if (shortage !== undefined) return answer(error.code, shortage, thrown);
  const message = isInternal(error.code) ? undefined : error.message;
  return answer(error.code, { message, details: error.details }, thrown);
}

function isInternal(code: ErrorCode): boolean {
  return ERROR_CODES[code].http === 500;
}

function answer(
  code: ErrorCode,
  said: { message?: string | undefined; details?: Readonly<Record<string, unknown>> | undefined },
  error: Error,
): ErrorAnswer {
  const { http, retryable, text } = ERROR_CODES[code];
  return {
    message: said.message ?? text,
    httpStatus: http,
    leaseholdCode: code,
    retryable,
    incidentId: http >= 500 ? incidentIdOf(error) : null,
    details: isInternal(code) ? {} : (said.details ?? {}),
  };
}

/** The error that a middleware throws in place of what a procedure threw. */
export function toTrpcError(thrown: unknown): Error {
  if (thrown instanceof TRPCError && thrown.code !== 'INTERNAL_SERVER_ERROR') return thrown;
  const { httpStatus, leaseholdCode, message } = describeError(thrown);
  const code = trpcCodeOfStatus(httpStatus);
  if (thrown instanceof TRPCError && thrown.code === code) return thrown;
  const root = thrown instanceof TRPCError ? (thrown.cause ?? thrown) : thrown;
  const cause =
    root instanceof LeaseError ? root : new LeaseError(leaseholdCode, message, { cause: root });
  const mapped = new TRPCError({ code, message, cause });
  if (thrown instanceof Error) incidentIds.set(mapped, incidentIdOf(thrown));
  return mapped;
}

/** The tRPC code that stands for a status of the registry. */
export function trpcCodeOfStatus(httpStatus: number): TrpcCode {
  return TRPC_CODE_OF_STATUS[httpStatus as keyof typeof TRPC_CODE_OF_STATUS];
}

/** An error on the wire as tRPC sends it: without the number, clients do not recognise it. */
export function errorShape(error: ErrorAnswer) {
  const data = errorData(error);
  return { message: error.message, code: TRPC_ERROR_CODES_BY_KEY[data.code], data };
}

/** The body of an error on the wire, for what never reaches tRPC: 401, 404, 413, 429, 503. */
export function errorBody(error: ErrorAnswer): { error: ReturnType<typeof errorShape> } {
  return { error: errorShape(error) };
}

/** The `data` of an error on the wire. */
export function errorData({ message: _message, ...answer }: ErrorAnswer) {
  return { code: trpcCodeOfStatus(answer.httpStatus), ...answer };
}

/** What is wrong with a request, in one line that names each field and says what is allowed. */
function requestProblems(error: ZodError): {
  message: string;
  details: { problems: { field: string; problem: string }[] };
} {
  const problems = error.issues.slice(0, PROBLEMS_MAX).flatMap(problemsOf);
  const message = problems.map(({ field, problem }) => `${field}: ${problem}`).join('; ');
  return { message, details: { problems } };
}

function problemsOf(issue: core.$ZodIssue): { field: string; problem: string }[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, PROBLEMS_MAX).map((key) => ({
      field: fieldOf([...issue.path, key]),
      problem: 'is not a known field',
    }));
  }
  return [{ field: fieldOf(issue.path), problem: issue.message }];
}

/** `renewals[3].leaseId`; the request itself is `input`. */
function fieldOf(path: readonly PropertyKey[]): string {
  let field = '';
  for (const step of path) {
    if (typeof step === 'number') field += `[${String(step)}]`;
    else field += field === '' ? String(step) : `.${String(step)}`;
  }
  return field === '' ? 'input' : shortened(field);
}

/** A field's name is the caller's own text: it is shortened, and control characters are replaced. */
function shortened(field: string): string {
  const plain = field.replaceAll(/\p{Cc}/gu, '?');
  return plain.length > 120 ? `${plain.slice(0, 120).toWellFormed()}…` : plain;
}
