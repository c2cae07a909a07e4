import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { ERROR_CODES, type ErrorCode } from '@leasehold/keys-core';

/** JSON-RPC's code of an internal error: tRPC's clients read an error only if it has a code. */
const JSON_RPC_INTERNAL = -32_603;
const JSON_RPC_INVALID = -32_600;

/** An error that the console answers itself, as the controller would. */
type OwnCode = Extract<
  ErrorCode,
  'request.unreachable' | 'request.outcome_unknown' | 'request.invalid'
>;

const OWN_ERRORS: Record<OwnCode, { message: string; trpcCode: string; jsonRpc: number }> = {
  'request.unreachable': {
    message: 'The console cannot reach the controller: nothing was sent.',
    trpcCode: 'SERVICE_UNAVAILABLE',
    jsonRpc: JSON_RPC_INTERNAL,
  },
  'request.outcome_unknown': {
    message:
      'The connection to the controller was lost before it answered. What it did is unknown.',
    trpcCode: 'SERVICE_UNAVAILABLE',
    jsonRpc: JSON_RPC_INTERNAL,
  },
  'request.invalid': {
    message: 'body: must be empty, with this method.',
    trpcCode: 'BAD_REQUEST',
    jsonRpc: JSON_RPC_INVALID,
  },
};

/** Answers in place of a controller that does not answer. @returns the incident's id, for the log. */
export function answerUnreachable(
  response: ServerResponse,
  code: Exclude<OwnCode, 'request.invalid'>,
): string {
  const incidentId = randomUUID();
  answer(response, code, incidentId);
  return incidentId;
}

/** Refuses a request that has a body, and ends its connection: what is left on it is not read. */
export function refuseBody(response: ServerResponse): void {
  response.setHeader('connection', 'close');
  answer(response, 'request.invalid', null);
}

function answer(response: ServerResponse, code: OwnCode, incidentId: string | null): void {
  const { message, trpcCode, jsonRpc } = OWN_ERRORS[code];
  const { http, retryable } = ERROR_CODES[code];
  const data = {
    ...{ code: trpcCode, httpStatus: http, leaseholdCode: code },
    ...{ retryable, incidentId, details: {} },
  };
  response.writeHead(http, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify({ error: { message, code: jsonRpc, data } }));
}
