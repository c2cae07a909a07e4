import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { ERROR_CODES, type ErrorCode } from '@leasehold/keys-core';

/** JSON-RPC's number of an internal error: tRPC's clients read an error only when it has one. */
const JSON_RPC_INTERNAL = -32_603;

/** The errors that the console answers itself. Their status is 503: the controller is not there. */
type UnreachableCode = Extract<ErrorCode, 'request.unreachable' | 'request.outcome_unknown'>;

const MESSAGES: Record<UnreachableCode, string> = {
  'request.unreachable': 'The console cannot reach the controller: nothing was sent.',
  'request.outcome_unknown':
    'The connection to the controller was lost before it answered; what it did is unknown.',
};

/** Answers as the controller would answer an error. @returns the incident's id, for the log. */
export function answerUnreachable(response: ServerResponse, code: UnreachableCode): string {
  const incidentId = randomUUID();
  const { http, retryable } = ERROR_CODES[code];
  const body = {
    error: {
      message: MESSAGES[code],
      code: JSON_RPC_INTERNAL,
      data: {
        code: 'SERVICE_UNAVAILABLE',
        httpStatus: http,
        leaseholdCode: code,
        retryable,
        incidentId,
        details: {},
      },
    },
  };
  response.writeHead(http, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(body));
  return incidentId;
}
