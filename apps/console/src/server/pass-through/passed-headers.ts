/**
 * Which headers of a request reach the controller, and which of its answer the browser. What is about
 * one connection stays on it. How long a body is is reported as Node has read it, whatever the headers
 * say of each other: two ends that differ in this take the bytes of one request for another one.
 */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http';

/** Headers that are about one connection, and not about what is said over it. */
const OF_THE_CONNECTION = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'expect'],
]);

/** What a browser may not tell the controller about where it is; see {@link createNoteSource}. */
const NOT_PASSED_ON = new Set(['host', 'forwarded', 'x-forwarded-host', 'x-forwarded-proto']);

/**
 * What `Connection` cannot take away, though it may name other headers that end here: how long the
 * body is, the caller, and the source address.
 */
const NEVER_OF_THE_CONNECTION = new Set([
  ...['content-length', 'transfer-encoding', 'content-type', 'content-encoding', 'host', 'origin'],
  ...['cookie', 'set-cookie', 'authorization', 'x-leasehold-csrf', 'x-forwarded-for', 'user-agent'],
  ...['cache-control', 'content-disposition', 'location', 'retry-after'],
]);

/** Requests that have no body. Node would send one of these without saying how long it is. */
const METHODS_WITHOUT_BODY = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']);

/** Whether a request comes with a body that its method has no use for. An empty one does not count. */
export function hasUselessBody({ method = '', headers }: IncomingMessage): boolean {
  if (!METHODS_WITHOUT_BODY.has(method)) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
}

/** What the controller is told of a request. */
export function headersToSend(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const { 'content-length': length, ...passed } = withoutConnection(headers, NOT_PASSED_ON);
  // A body of unknown length stays one, whatever the method: else its bytes could pass for a request.
  if (headers['transfer-encoding'] !== undefined) {
    return { ...passed, 'transfer-encoding': 'chunked' };
  }
  return length === undefined ? passed : { ...passed, 'content-length': length };
}

/** What the browser is told of an answer. */
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
