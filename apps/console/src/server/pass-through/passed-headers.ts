/**
 * Which headers of a request reach the controller, and which of its answer the browser. Headers about one
 * connection stay on it. The length of a body is passed on as Node has read it, even if headers contradict
 * each other: two ends that disagree about it take the bytes of one request for another one.
 */
import { CALLER_HEADER, CONSOLE_SECRET_HEADER } from '@leasehold/service-kit/source-address';
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http';

/** Headers about one connection, and not about the messages on it. */
const OF_THE_CONNECTION = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'expect'],
]);

/** Headers about addresses that a browser must not set for the controller; see {@link createNoteSource}. */
const NOT_PASSED_ON = new Set(['host', 'forwarded', 'x-forwarded-host', 'x-forwarded-proto']);

/**
 * Headers that `Connection` cannot remove, though it may name others that end here: about the length
 * of the body, the caller, and the source address.
 */
const NEVER_OF_THE_CONNECTION = new Set([
  ...['content-length', 'transfer-encoding', 'content-type', 'content-encoding', 'host', 'origin'],
  ...['cookie', 'set-cookie', 'authorization', 'x-leasehold-csrf', 'x-forwarded-for', 'user-agent'],
  ...[CALLER_HEADER, CONSOLE_SECRET_HEADER],
  ...['cache-control', 'content-disposition', 'location', 'retry-after'],
]);

/** Methods of requests without a body. Node would send a body with one of these without its length. */
const METHODS_WITHOUT_BODY = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']);

/** Whether a request comes with a body that its method has no use for. An empty one does not count. */
export function hasUselessBody({ method = '', headers }: IncomingMessage): boolean {
  if (!METHODS_WITHOUT_BODY.has(method)) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
}

/** The headers of a request that the controller gets. */
export function headersToSend(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const { 'content-length': length, ...passed } = withoutConnection(headers, NOT_PASSED_ON);
  // A body of unknown length stays chunked, whatever the method: else its bytes could pass for a request.
  if (headers['transfer-encoding'] !== undefined) {
    return { ...passed, 'transfer-encoding': 'chunked' };
  }
  return length === undefined ? passed : { ...passed, 'content-length': length };
}

/** The headers of an answer that the browser gets. */
export function headersToReturn(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return withoutConnection(headers, new Set());
}

function withoutConnection(
  headers: IncomingHttpHeaders,
  others: ReadonlySet<string>,
): OutgoingHttpHeaders {
  const named = (headers.connection ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => !NEVER_OF_THE_CONNECTION.has(name));
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => !OF_THE_CONNECTION.has(name) && !others.has(name) && !named.includes(name),
    ),
  );
}
