/** What a backend is told about a request, and what of its answer is for the gateway alone. */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { GatewayRoute, GatewayTokenClaims } from '@leasehold/keys-core';
import { type Sources, withoutMapping } from '@leasehold/service-kit/source-address';
import type { TraceCarrier } from '@leasehold/service-kit/tracing';
import { hasBody } from './target.ts';

const COOKIE = 'leasehold-gateway';
/**
 * On a key's own host, over TLS: a browser takes it from this very host alone. Any other, a program of another key could
 * set for all hosts of the domain.
 */
const HOST_COOKIE = `__Host-${COOKIE}`;
const COOKIES = [COOKIE, HOST_COOKIE.toLowerCase()];

/** The cookie that carries a token. */
export function cookieFor(place: {
  readonly isOwnHost: boolean;
  readonly isSecure: boolean;
}): string {
  return place.isOwnHost && place.isSecure ? HOST_COOKIE : COOKIE;
}

/** Of one connection, not of the request. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
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
  readonly token: {
    /** No backend may see it. */
    readonly text: string;
    readonly told: IncomingHttpHeaders;
  };
  /** Whether `Authorization` holds a token of the gateway. */
  readonly isBearer: boolean;
  readonly route: { readonly told: IncomingHttpHeaders };
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
  /** Whether a trusted proxy has passed it on, whose connection has requests of many. */
  readonly isProxied: boolean;
}

/** Where a request comes from: what proxies say is kept as far as they are trusted. */
export function forwardedFrom(
  request: IncomingMessage,
  { sources, isSecure }: { readonly sources: Sources; readonly isSecure: boolean },
): ForwardedFrom {
  const { headers, socket } = request;
  const peer = withoutMapping(socket.remoteAddress ?? '');
  const host = headers.host ?? '';
  if (!sources.isFromProxy(request)) {
    return { addresses: [peer], protocol: isSecure ? 'https' : 'http', host, isProxied: false };
  }
  const isSaidSecure = headers['x-forwarded-proto'] === 'https';
  return {
    addresses: [...believed(headers['x-forwarded-for'], sources), peer],
    protocol: isSecure || isSaidSecure ? 'https' : 'http',
    host,
    isProxied: true,
  };
}

/**
 * What trusted proxies have said, read from its end: what is before the first address that is no such proxy may be
 * forged.
 */
function believed(said: string | string[] | undefined, sources: Sources): string[] {
  const hops = [said ?? []].flat().join(',').split(',');
  const addresses: string[] = [];
  for (const hop of hops.reverse()) {
    const address = hop.trim();
    // A zone may be any text.
    if (isIP(address) === 0 || address.includes('%')) break;
    addresses.unshift(address);
    if (!sources.isProxyAddress(address)) break;
  }
  return addresses;
}

/** What callers may name a request: it is written to the log as it is. */
const GIVEN_ID = /^[\w.-]{1,64}$/u;

export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && GIVEN_ID.test(given) ? given : randomUUID();
}

/** What backends are told about the user of a token. */
export function toldOfToken({ sub, claims }: GatewayTokenClaims): IncomingHttpHeaders {
  return {
    'x-leasehold-user': headerText(sub),
    'x-leasehold-claims': asciiJson(claims ?? {}),
  };
}

/** What backends are told about their own grant. */
export function toldOfRoute({
  key,
  fencingToken,
}: Pick<GatewayRoute, 'key' | 'fencingToken'>): IncomingHttpHeaders {
  return {
    'x-leasehold-key': headerText(key.name),
    'x-leasehold-namespace': headerText(key.namespace),
    'x-leasehold-fencing-token': fencingToken,
  };
}

/** The headers with which a request is passed on. */
export function headersForBackend(admitted: AdmittedRequest): IncomingHttpHeaders {
  const { request, requestId, token, route, forwardedPrefix, from } = admitted;
  const headers: IncomingHttpHeaders = {};
  const listed = listedBy(request.headers.connection);
  for (const name of Object.keys(request.headers)) {
    if (NEVER_PASSED.has(name) || listed.includes(name)) continue;
    // Programs behind CGI and WSGI see `-` and `_` as one character.
    if (name.includes('_') || name.startsWith(OWN_PREFIX)) continue;
    const value = passable(name, request.headers[name], admitted);
    if (value !== undefined) headers[name] = value;
  }
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
  return Object.assign(headers, token.told, route.told);
}

/** `host` cannot be listed: it would be gone from the request. */
const NEVER_LISTED = new Set(['host', 'content-length', 'cookie']);

function listedBy(connection: string | undefined): string[] {
  if (connection === undefined || connection === 'keep-alive') return [];
  const names = connection.split(',').map((name) => name.trim().toLowerCase());
  return names.filter((name) => name !== '' && !NEVER_LISTED.has(name));
}

/** What a backend may see of a header; undefined for nothing: it has the token. */
function passable(
  name: string,
  given: string | string[] | undefined,
  { token, isBearer }: AdmittedRequest,
): string | string[] | undefined {
  if (isBearer && name === 'authorization') return undefined;
  const value = name === 'cookie' && typeof given === 'string' ? withoutCookie(given) : given;
  // A referrer, above all.
  const text = Array.isArray(value) ? value.join('\n') : value;
  return text?.includes(token.text) === true ? undefined : value;
}

/** Says how long the body is in one way. Without a length or chunks, Node would send it as it is. */
function frame(headers: IncomingHttpHeaders, request: IncomingMessage): void {
  if (request.headers['transfer-encoding'] !== undefined) {
    delete headers['content-length'];
    headers['transfer-encoding'] = 'chunked';
  } else if (!hasBody(request) && request.headers.upgrade === undefined) {
    if (request.method !== 'GET' && request.method !== 'HEAD') headers['content-length'] = '0';
    else if (headers['content-length'] !== undefined) delete headers['content-length'];
  }
}

/** The values of a cookie in a header, in its order. */
export function cookieValues(header: string | undefined, name: string): string[] {
  const parts = (header ?? '').split(';').map((part) => part.trim());
  return parts
    .filter((part) => part.startsWith(`${name}=`))
    .map((part) => part.slice(name.length + 1));
}

function withoutCookie(header: string): string | undefined {
  const kept = header.split(';').filter((part) => !isOurs(part));
  return kept.length === 0 ? undefined : kept.join(';').trim();
}

function isOurs(cookie: string): boolean {
  return COOKIES.includes(nameOf(cookie));
}

function isNamed(cookie: string, name: string): boolean {
  return nameOf(cookie) === name;
}

function nameOf(cookie: string): string {
  return cookie.split('=', 1)[0]?.trim().toLowerCase() ?? '';
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
  /** The path under which the backend was told that it is: `X-Forwarded-Prefix`, empty for none. */
  readonly told: string;
  /** The protocol and the host under which the backend was told that it is. */
  readonly origin: string;
  /** The address of the backend, which no client needs. */
  readonly address: string;
  readonly isToken: boolean;
  readonly requestId: string;
}

/**
 * The headers of an answer with which it is passed on: without what is of the connection, with cookies that only this
 * key gets, and with places that its client can reach.
 */
export function headersForClient(
  given: IncomingHttpHeaders,
  place: AnswerPlace,
): IncomingHttpHeaders {
  const headers: IncomingHttpHeaders = {};
  const listed = listedBy(given.connection);
  for (const name of Object.keys(given)) {
    if (HOP_BY_HOP.has(name) || listed.includes(name) || name === 'set-cookie') continue;
    headers[name] = given[name];
  }
  const cookies = given['set-cookie']
    ?.filter((cookie) => !isOurs(cookie))
    .map((cookie) => boundCookie(cookie, place));
  if (cookies !== undefined && cookies.length > 0) headers['set-cookie'] = cookies;
  if (headers.location !== undefined) headers.location = boundLocation(headers.location, place);
  // A page whose address has a token must not send it to where its links go.
  if (place.isToken) headers['referrer-policy'] = 'no-referrer';
  headers['x-request-id'] = place.requestId;
  return headers;
}

/** A cookie that browsers send to this key alone: under its path, and to no other host. */
function boundCookie(cookie: string, place: AnswerPlace): string {
  const [pair = '', ...attributes] = cookie.split(';').map((part) => part.trim());
  const kept = attributes.filter((one) => !isNamed(one, 'domain') && !isNamed(one, 'path'));
  const path = attributes.findLast((one) => isNamed(one, 'path'))?.slice('path='.length) ?? '/';
  return [pair, ...kept, `Path=${boundPath(path.startsWith('/') ? path : '/', place)}`].join('; ');
}

function boundLocation(location: string, place: AnswerPlace): string {
  const { address, origin, prefix, told } = place;
  if (location.startsWith(`${origin}/`)) {
    const there = location.slice(origin.length);
    // A host of the key's own has no other keys. Without a prefix, `//` would begin with another host.
    if (told === '' && prefix !== '') return boundPath(there, place);
    // Other keys of this host stay as they are.
    const rest = pathBelow(there, told);
    if (rest !== undefined) return `${prefix}${rest}`;
  }
  const [own] = [`http://${address}`, `https://${address}`].filter((one) =>
    location.startsWith(one),
  );
  const path = own === undefined ? location : location.slice(own.length);
  if (path === '') return boundPath('/', place);
  if (!path.startsWith('/') || path.startsWith('//')) return location;
  return boundPath(path, place);
}

/** A path of a backend as its client has it. Some backends put before it what they were told, or what they have seen. */
function boundPath(path: string, { prefix, told }: AnswerPlace): string {
  return `${prefix}${pathBelow(path, told) ?? pathBelow(path, prefix) ?? path}`;
}

function pathBelow(path: string, prefix: string): string | undefined {
  if (prefix === '' || !path.startsWith(prefix)) return undefined;
  const rest = path.slice(prefix.length);
  if (rest.startsWith('/')) return rest;
  return /^[?#]|^$/u.test(rest) ? `/${rest}` : undefined;
}
