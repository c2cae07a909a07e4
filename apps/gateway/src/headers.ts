/** What a backend is told about a request, and what of its answer is for the gateway alone. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { GatewayRoute, GatewayTokenClaims } from '@leasehold/keys-core';
import type { TraceCarrier } from '@leasehold/service-kit/tracing';
import { hasBody } from './target.ts';

/** The cookie that carries a token. */
export const COOKIE = 'leasehold-gateway';

/** Of one connection, not of the request. */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];
/** What others put in front of a request to say where it came from or where it goes: here only the gateway does. */
const PROXY_HEADERS = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-prefix',
  'x-forwarded-proto',
  'x-forwarded-server',
  'x-original-url',
  'x-real-ip',
  'x-rewrite-url',
  // The gateway has answered it.
  'expect',
  'http2-settings',
];
const NEVER_PASSED = new Set([...HOP_BY_HOP, ...PROXY_HEADERS]);
const OWN_PREFIX = 'x-leasehold-';

/** A request that was let in. */
export interface AdmittedRequest {
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly claims: GatewayTokenClaims;
  /** The text of the token, which no backend may see. */
  readonly token: string;
  /** Whether `Authorization` holds a token of the gateway. */
  readonly isBearer: boolean;
  readonly route: Pick<GatewayRoute, 'key' | 'fencingToken'>;
  /** The path before what the backend is asked for, without a token. */
  readonly forwardedPrefix: string;
  /** Where it comes from, as far as it can be believed, and what trusted proxies said. */
  readonly from: ForwardedFrom;
  /** What the request belongs to here; undefined where no traces are made, so that the client's word stays. */
  readonly trace?: TraceCarrier | undefined;
}

export interface ForwardedFrom {
  /** Each proxy's word, the client first. */
  readonly addresses: readonly string[];
  readonly protocol: 'http' | 'https';
  readonly host: string;
}

/** The headers with which a request is passed on. */
export function headersForBackend(admitted: AdmittedRequest): IncomingHttpHeaders {
  const { request, requestId, claims, route, forwardedPrefix, from } = admitted;
  const headers: IncomingHttpHeaders = {};
  const listed = listedBy(request.headers.connection);
  for (const [name, value] of Object.entries(request.headers)) {
    if (NEVER_PASSED.has(name) || listed.includes(name)) continue;
    // Programs behind CGI and WSGI see `-` and `_` as one character.
    if (name.includes('_') || name.startsWith(OWN_PREFIX)) continue;
    headers[name] = value;
  }
  hideToken(headers, admitted);
  frame(headers, request);
  if (request.headers.upgrade !== undefined) {
    headers.connection = 'Upgrade';
    headers.upgrade = 'websocket';
  }
  if (admitted.trace !== undefined) {
    delete headers['traceparent'];
    delete headers['tracestate'];
    Object.assign(headers, admitted.trace);
  }
  headers['x-request-id'] = requestId;
  headers['x-forwarded-for'] = from.addresses.join(', ');
  headers['x-forwarded-proto'] = from.protocol;
  headers['x-forwarded-host'] = from.host;
  if (forwardedPrefix !== '') headers['x-forwarded-prefix'] = forwardedPrefix;
  headers['x-leasehold-user'] = headerText(claims.sub);
  headers['x-leasehold-claims'] = asciiJson(claims.claims ?? {});
  headers['x-leasehold-key'] = headerText(route.key.name);
  headers['x-leasehold-namespace'] = headerText(route.key.namespace);
  headers['x-leasehold-fencing-token'] = route.fencingToken;
  return headers;
}

/** `host` cannot be listed: it would be gone from the request. */
const NEVER_LISTED = new Set(['host', 'content-length', 'cookie']);

function listedBy(connection: string | undefined): string[] {
  if (connection === undefined || connection === 'keep-alive') return [];
  const names = connection.split(',').map((name) => name.trim().toLowerCase());
  return names.filter((name) => name !== '' && !NEVER_LISTED.has(name));
}

function hideToken(headers: IncomingHttpHeaders, { token, isBearer }: AdmittedRequest): void {
  if (isBearer) delete headers.authorization;
  const cookie = withoutCookie(headers.cookie);
  if (cookie === undefined) delete headers.cookie;
  else headers.cookie = cookie;
  for (const [name, value] of Object.entries(headers)) {
    // A referrer, above all.
    const text = Array.isArray(value) ? value.join('\n') : value;
    if (text?.includes(token) === true) {
      Reflect.deleteProperty(headers, name);
    }
  }
}

/** Says how long the body is in one way. Without a length or chunks, Node would send it as it is. */
function frame(headers: IncomingHttpHeaders, request: IncomingMessage): void {
  if (request.headers['transfer-encoding'] !== undefined) {
    delete headers['content-length'];
    headers['transfer-encoding'] = 'chunked';
  } else if (!hasBody(request) && request.headers.upgrade === undefined) {
    if (['GET', 'HEAD'].includes(request.method ?? '')) delete headers['content-length'];
    else headers['content-length'] = '0';
  }
}

/** The values of a cookie in a header, in its order. */
export function cookieValues(header: string | undefined, name: string): string[] {
  const parts = (header ?? '').split(';').map((part) => part.trim());
  return parts
    .filter((part) => part.startsWith(`${name}=`))
    .map((part) => part.slice(name.length + 1));
}

function withoutCookie(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const kept = header.split(';').filter((part) => !isNamed(part, COOKIE));
  return kept.length === 0 ? undefined : kept.join(';').trim();
}

function isNamed(cookie: string, name: string): boolean {
  return cookie.split('=', 1)[0]?.trim().toLowerCase() === name;
}

/** Any text as a header: what is not printable ASCII, and `%`, is percent-encoded as UTF-8. */
export function headerText(text: string): string {
  return text.replaceAll(/[^\x20-\x24\x26-\x7e]+|^\x20+|\x20+$/gu, (part) => percentEncoded(part));
}

function percentEncoded(text: string): string {
  const codes = [...Buffer.from(text)].map((byte) =>
    byte.toString(16).toUpperCase().padStart(2, '0'),
  );
  return codes.map((code) => `%${code}`).join('');
}

/** JSON of ASCII alone: what is beyond it is escaped as JSON has it. */
export function asciiJson(value: unknown): string {
  // Without `u`: each half of a pair is escaped by itself.
  return JSON.stringify(value).replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** What an answer of a backend is changed by. */
export interface AnswerPlace {
  /** The path under which its client has it. */
  readonly prefix: string;
  /** The address of the backend, which no client needs. */
  readonly address: string;
  readonly isToken: boolean;
  readonly requestId: string;
}

/**
 * Makes the headers of an answer those of the gateway's: without what is of the connection, with cookies that only
 * this key gets, and with places that its client can reach.
 */
export function changeAnswer(headers: IncomingHttpHeaders, place: AnswerPlace): void {
  for (const name of [...HOP_BY_HOP, ...listedBy(headers.connection)]) {
    if (name !== 'set-cookie') Reflect.deleteProperty(headers, name);
  }
  const cookies = headers['set-cookie']
    ?.filter((cookie) => !isNamed(cookie, COOKIE))
    .map((cookie) => boundCookie(cookie, place.prefix));
  if (cookies === undefined || cookies.length === 0) delete headers['set-cookie'];
  else headers['set-cookie'] = cookies;
  if (headers.location !== undefined) headers.location = boundLocation(headers.location, place);
  // A page whose address has a token must not send it to where its links go.
  if (place.isToken) headers['referrer-policy'] = 'no-referrer';
  headers['x-request-id'] = place.requestId;
}

/** A cookie that browsers send to this key alone: under its path, and to no other host. */
function boundCookie(cookie: string, prefix: string): string {
  const [pair = '', ...attributes] = cookie.split(';').map((part) => part.trim());
  const kept = attributes.filter((one) => !isNamed(one, 'domain') && !isNamed(one, 'path'));
  const path = attributes.findLast((one) => isNamed(one, 'path'))?.slice('path='.length) ?? '/';
  const own = path.startsWith('/') ? path : '/';
  const isBelow = prefix === '' || own === prefix || own.startsWith(`${prefix}/`);
  return [pair, ...kept, `Path=${isBelow ? own : `${prefix}${own}`}`].join('; ');
}

function boundLocation(location: string, { prefix, address }: AnswerPlace): string {
  const [own] = [`http://${address}`, `https://${address}`].filter((one) =>
    location.startsWith(one),
  );
  const path = own === undefined ? location : location.slice(own.length);
  if (path === '') return `${prefix}/`;
  if (!path.startsWith('/') || path.startsWith('//')) return location;
  return path === prefix || path.startsWith(`${prefix}/`) ? path : `${prefix}${path}`;
}
