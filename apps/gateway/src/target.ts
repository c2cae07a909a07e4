/**
 * Reads for whom a request is: its form, its key and the rest of its path. All of it is hostile. What two programs may
 * understand in two ways is refused: the gateway and a backend must never see two different requests.
 */
import type { IncomingMessage } from 'node:http';
import { nameProblem, namespaceProblem } from '@leasehold/keys-core';
import { ROOT_NAMESPACE } from '@leasehold/keys-core/gateway-addresses';
import { Refusal } from './refusal.ts';

export type Target =
  /** `/t/<token>/…`: the token names the key. */
  | {
      readonly form: 'token';
      readonly token: string;
      /** Of the host, if that is a key's own. */
      readonly keyId: string | undefined;
      readonly prefix: string;
      readonly rest: string;
    }
  /** `/k/<namespace or _>/<name>/…` */
  | {
      readonly form: 'key';
      readonly namespace: string;
      readonly name: string;
      readonly prefix: string;
      readonly rest: string;
    }
  /** `<key-id>.rooms.example.com` */
  | { readonly form: 'host'; readonly keyId: string; readonly prefix: ''; readonly rest: string }
  /** A path of the gateway's own. */
  | { readonly form: 'own'; readonly path: string };

/** Whose requests a gateway serves. */
export interface ServedHosts {
  /** Its public address, `host` or `host:port`; null: any. */
  readonly own: string | null;
  /** What follows the id of a key, with its first dot. */
  readonly keys: string | null;
}

/** A path: it begins with a slash, and has neither `#` nor `\\` nor what is not printable ASCII. */
const ORIGIN_FORM = /^\/[\x21\x22\x24-\x5b\x5d-\x7e]*$/u;

/** A JSON Web Token. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/u;

/**
 * @param isSecure whether its client speaks TLS.
 * @throws {Refusal} for a target that is not a plain path, that has a segment of dots, in whatever encoding, or whose
 * host the gateway does not serve.
 */
export function readTarget(
  { url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>,
  hosts: ServedHosts,
  isSecure: boolean,
): Target {
  // Neither `http://host/path`, which proxies are sent, nor `host:port` and `*`.
  if (!ORIGIN_FORM.test(url)) throw new Refusal('gateway.bad_request');
  const host = hostOf({ headers }, isSecure);
  const path = pathOf(url);
  const keyId = keyIdIn(host, hosts.keys, isSecure);
  if (keyId === undefined && hosts.own !== null && host !== hosts.own) {
    throw new Refusal('gateway.wrong_host');
  }
  const target = tokenTarget(url, path, keyId);
  if (target !== undefined) return target;
  if (keyId !== undefined) return { form: 'host', keyId, prefix: '', rest: restOf(url, '') };
  return keyTarget(url, path) ?? { form: 'own', path };
}

/** The host that a request names, without a port that goes without saying: some clients say it all the same. */
export function hostOf({ headers }: Pick<IncomingMessage, 'headers'>, isSecure: boolean): string {
  return withoutDefaultPort((headers.host ?? '').toLowerCase(), isSecure);
}

function withoutDefaultPort(host: string, isSecure: boolean): string {
  return host.replace(isSecure ? /:443$/u : /:80$/u, '');
}

/** Without the query. */
function pathOf(url: string): string {
  const at = url.indexOf('?');
  return at === -1 ? url : url.slice(0, at);
}

const TOKEN_PREFIX = '/t/';
const KEY_PATH = /^\/k\/([^/]+)\/([^/]+)(?=\/|$)/u;

function tokenTarget(url: string, path: string, keyId: string | undefined): Target | undefined {
  // By hand: the token has hundreds of characters, and an expression looks at each.
  if (!path.startsWith(TOKEN_PREFIX)) return undefined;
  const end = path.indexOf('/', TOKEN_PREFIX.length);
  const prefix = end === -1 ? path : path.slice(0, end);
  const token = prefix.slice(TOKEN_PREFIX.length);
  // On a key's own host every other path is the program's.
  if (token === '' || (keyId !== undefined && !TOKEN.test(token))) return undefined;
  return { form: 'token', token, keyId, prefix, rest: restOf(url, prefix) };
}

function keyTarget(url: string, path: string): Target | undefined {
  const [prefix, namespace, name] = KEY_PATH.exec(path) ?? [];
  if (prefix === undefined || namespace === undefined || name === undefined) return undefined;
  return { form: 'key', ...keyOf(namespace, name), prefix, rest: restOf(url, prefix) };
}

function keyOf(first: string, second: string): { namespace: string; name: string } {
  const namespace = first === ROOT_NAMESPACE ? '' : decoded(first);
  const name = decoded(second);
  if (nameProblem(name) !== undefined || namespaceProblem(namespace) !== undefined) {
    throw new Refusal('gateway.not_found');
  }
  return { namespace, name };
}

function decoded(segment: string): string {
  let text: string;
  try {
    text = decodeURIComponent(segment);
  } catch {
    throw new Refusal('gateway.bad_request');
  }
  // A browser would have removed it: no address that it was given has it.
  if (text === '.' || text === '..') throw new Refusal('gateway.bad_request');
  return text;
}

/** Encodings of dots and of what separates segments, once and several times. */
const ENCODED = /%(?:25)*(2e|2f|5c)/giu;
const CHARACTER_OF: Readonly<Record<string, string>> = { '2e': '.', '2f': '/', '5c': '\\' };

/** What the backend is asked for, with the query; empty when the slash after the prefix is missing. */
function restOf(url: string, prefix: string): string {
  const rest = url.slice(prefix.length);
  if (hasDotSegment(pathOf(rest))) throw new Refusal('gateway.bad_request');
  if (!rest.startsWith('/')) return '';
  // `//host/path` would be the address of another host, to a program that resolves it.
  return rest.startsWith('//') ? rest.replace(/^\/+/u, '/') : rest;
}

/** The root of what a request is for, with its query: what it means where its path ends without a slash. */
export function rootOf({ url = '' }: Pick<IncomingMessage, 'url'>): string {
  const at = url.indexOf('?');
  return at === -1 ? '/' : `/${url.slice(at)}`;
}

function hasDotSegment(path: string): boolean {
  // Most paths have nothing that could be a dot.
  if (!path.includes('.') && !path.includes('%')) return false;
  const plain = path.replaceAll(
    ENCODED,
    (_all, code: string) => CHARACTER_OF[code.toLowerCase()] ?? '',
  );
  return plain.split(/[/\\]/u).some((segment) => segment === '..' || segment === '.');
}

/** The id of the key whose host it is. */
function keyIdIn(host: string, suffix: string | null, isSecure: boolean): string | undefined {
  if (suffix === null) return undefined;
  const hostName = suffix.includes(':') ? host : host.replace(/:\d+$/u, '');
  const end = withoutDefaultPort(suffix, isSecure);
  if (!hostName.endsWith(end)) return undefined;
  const label = hostName.slice(0, -end.length);
  return /^[0-9a-f]{32}$/u.test(label) ? label : undefined;
}

/** Reflects what it is sent, cookies too, to whatever made a browser send it. */
const METHODS_REFUSED = new Set(['TRACE', 'TRACK', 'CONNECT']);

/** Headers that frame a request or choose its host: a second one is a second opinion. */
const ONCE = new Set(['host', 'content-length', 'transfer-encoding', 'upgrade', 'authorization']);
/** Most names are of no such length: they need not be read. */
const LENGTHS_OF_ONCE = new Set([...ONCE].map((name) => name.length));

/**
 * @throws {Refusal} for a request whose end, whose host or whose credentials another program may understand in another
 * way. Node's parser refuses most of it; this does not depend on its version.
 */
export function assertPlainHead(request: IncomingMessage): void {
  if (METHODS_REFUSED.has(request.method ?? '')) throw new Refusal('gateway.method');
  const seen = onceIn(request.rawHeaders);
  if (!isPlainlyFramed(request, seen)) throw new Refusal('gateway.bad_request');
  if (!seen.has('host') && request.httpVersion !== '1.0') throw new Refusal('gateway.bad_request');
  const { expect } = request.headers;
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw new Refusal('gateway.bad_request');
  }
}

/** The headers of {@link ONCE} that are there. @throws {Refusal} when one of them is there twice. */
function onceIn(rawHeaders: readonly string[]): Set<string> {
  const seen = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] ?? '';
    if (!LENGTHS_OF_ONCE.has(given.length)) continue;
    const name = given.toLowerCase();
    if (!ONCE.has(name)) continue;
    if (seen.has(name)) throw new Refusal('gateway.bad_request');
    seen.add(name);
  }
  return seen;
}

/** Either a length or chunks, and no other encoding. */
function isPlainlyFramed({ headers }: IncomingMessage, seen: ReadonlySet<string>): boolean {
  const encoding = headers['transfer-encoding'];
  if (encoding === undefined) return true;
  return encoding.toLowerCase() === 'chunked' && !seen.has('content-length');
}

/** Whether a request has a body, however long. */
export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  // A length of zero may have more than one digit.
  return headers['content-length'] !== undefined && Number(headers['content-length']) !== 0;
}

/**
 * @param isUpgrade whether Node takes it for one.
 * @throws {Refusal} for an upgrade to anything other than a WebSocket, and for one that its connection does not name: a
 * backend may carry it out all the same.
 */
export function assertUpgrade({ method, headers }: IncomingMessage, isUpgrade: boolean): void {
  if (!isUpgrade) {
    if (headers.upgrade !== undefined) throw new Refusal('gateway.bad_request');
    return;
  }
  if (headers.upgrade?.toLowerCase() !== 'websocket') throw new Refusal('gateway.unsupported');
  const isPlain = method === 'GET' && !hasBody({ headers });
  if (!isPlain) throw new Refusal('gateway.bad_request');
}
