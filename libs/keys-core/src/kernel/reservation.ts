/**
 * Reservations: which datacenter a key lives in. From Epoxy's actor key reservations (seed
 * `epoxy-actor-key-reservation`): `key -> reservation id`, written once; a move writes a pointer from
 * one reservation to the next, and unique ids keep chains of pointers free of loops.
 */
import { invalidField, LeaseError } from './errors.ts';
import { LIMITS } from './limits.ts';
import { type Named, nameProblem, namespaceProblem } from './resource.ts';
import { textProblem, utf8Bytes } from './text.ts';

/** What is reserved: a list of strings. `["a/b"]` is not `["a","b"]`. */
export type ReservationKey = readonly string[];

/** A reservation that a key has left, and the one that it moved to. */
export interface ReservationPointer {
  readonly fromId: string;
  readonly toId: string;
  /** Fencing tokens of the new home are greater than this; a decimal string. */
  readonly tokenFloor: string;
}

/** The id of a drone, a backend or a program: it appears in logs, labels and command lines. */
export const ID = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/u;
export const DATACENTER_NAME = /^[a-z0-9-]{1,32}$/u;
const RESERVATION_ID =
  /^[a-z0-9-]{1,32}\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u;

export function isId(text: string): boolean {
  return ID.test(text);
}

export function isDatacenterName(text: string): boolean {
  return DATACENTER_NAME.test(text);
}

/** `{datacenter}.{unique}`. The name of a datacenter contains no dot, so the first dot separates the two. */
export function reservationIdOf(datacenter: string, unique: string): string {
  return `${datacenter}.${unique}`;
}

export function isReservationId(text: string): boolean {
  return RESERVATION_ID.test(text);
}

/** The datacenter of a reservation. */
export function datacenterOf(reservationId: string): string {
  return reservationId.slice(0, reservationId.indexOf('.'));
}

/** The reservation key of one of Leasehold's keys. */
export function reservationKeyOf(key: { namespace: string; name: string }): ReservationKey {
  return [key.namespace, key.name];
}

/** The key of Leasehold that a reservation key belongs to, or undefined. */
export function keyNameOf(key: ReservationKey): { namespace: string; name: string } | undefined {
  const [namespace, name, ...rest] = key;
  if (namespace === undefined || name === undefined || rest.length > 0) return undefined;
  const problem = namespaceProblem(namespace) ?? nameProblem(name);
  return problem === undefined ? { namespace, name } : undefined;
}

/** A text of its own for each reservation key: JSON, in which no two lists look the same. */
export function reservationKeyText(key: ReservationKey): string {
  return JSON.stringify(key);
}

/** @throws {LeaseError} `internal.error` for a text that is not a key: something else wrote it. */
export function parseReservationKey(text: string): ReservationKey {
  const parsed: unknown = JSON.parse(text);
  if (!Array.isArray(parsed) || !parsed.every((part) => typeof part === 'string')) {
    throw new LeaseError('internal.error', 'A stored reservation key is not a list of strings.');
  }
  return parsed;
}

/** Why a list may not be reserved, or undefined. Bytes are counted over all its strings. */
export function reservationKeyProblem(key: ReservationKey): string | undefined {
  if (key.length === 0) return 'must have at least one element';
  if (key.length > LIMITS.reservationKeyPartsMax) {
    return `must have at most ${String(LIMITS.reservationKeyPartsMax)} elements`;
  }
  const { reservationKeyBytesMax } = LIMITS;
  const problem = key
    .map((part) => textProblem(part, { bytesMax: reservationKeyBytesMax }))
    .find((one) => one !== undefined);
  if (problem !== undefined) return `has an element that ${problem}`;
  const bytes = key.reduce((sum, part) => sum + utf8Bytes(part), 0);
  if (bytes === 0) return 'must not be empty';
  return bytes > reservationKeyBytesMax
    ? `must be at most ${String(reservationKeyBytesMax)} bytes of UTF-8 in all, and is ${String(bytes)}`
    : undefined;
}

/** @throws {LeaseError} `request.invalid`. */
export function assertReservationKey(key: ReservationKey): void {
  const problem = reservationKeyProblem(key);
  if (problem !== undefined) {
    throw invalidField('key', problem);
  }
}

/** Keeps these hashes apart from any other use of SHA-256; a change would rename everything stored. */
const DOMAIN = 'leasehold.key-id.1';

/**
 * What a backend is told about its key besides the name: an id for its stores. It is 64 hexadecimal
 * digits, the SHA-256 of a fixed word, the joined namespace and the name, with a NUL between them. So
 * it is always the same for every backend of a key in every datacenter, differs between two keys
 * of one name in two namespaces, and reveals the namespace only to somebody who guesses it.
 */
export async function keyIdOf({ namespace, name }: Named): Promise<string> {
  // None of the parts can contain a NUL, so no two keys give the same text.
  const text = [DOMAIN, namespace, name].join('\0');
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** What an environment says of the other datacenters, and of the etcd that they share. Pure. */
const PEERS_MAX = 64;
const ENDPOINTS_MAX = 32;
/** At least as long as a token: `lh_` and 43 characters. */
const SECRET_FORM = /^lh_[A-Za-z0-9_-]{43,200}$/u;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/u;

/** Whether a text is one secret, for all peers or for one. */
export function isPeerSecret(text: string): boolean {
  return SECRET_FORM.test(text);
}

type Entry = readonly [name: string, value: string];

/** The items of a list with commas. */
export const listItems = (text: string): string[] => text.split(',').map((item) => item.trim());

/** `a=1,b=2`; what has no `=` has an empty value. */
export const listEntries = (text: string): Entry[] =>
  listItems(text).map((item) => {
    const at = item.indexOf('=');
    return at === -1 ? [item, ''] : [item.slice(0, at), item.slice(at + 1)];
  });

/** Why an address is not one of a peer; its text is not repeated, because it may hold a password. */
function urlProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'must have a URL, as in dc2=https://leasehold.dc2.example.com';
  const url = new URL(text);
  const { protocol, hostname, username, password, pathname, search, hash } = url;
  if (!['http:', 'https:'].includes(protocol)) return 'must have an http:// or https:// URL';
  if (`${username}${password}${search}${hash}` !== '' || pathname !== '/') {
    return 'must have a URL of a host and a port alone';
  }
  return protocol === 'https:' || LOOPBACK.test(hostname)
    ? undefined
    : 'must have an https:// URL, for its host is not this machine';
}

/** Why a text is not a list of other datacenters. */
export function peersProblem(text: string): string | undefined {
  const entries = listEntries(text);
  if (entries.length > PEERS_MAX) return `must have at most ${String(PEERS_MAX)} datacenters`;
  for (const [name, url] of entries) {
    if (!isDatacenterName(name)) {
      return 'must be a list as in dc2=https://host:port, each name 1 to 32 of a-z, 0-9 and "-"';
    }
    const problem = urlProblem(url);
    if (problem !== undefined) return `"${name}" ${problem}`;
    if (entries.filter(([other]) => other === name).length > 1) return `names "${name}" twice`;
  }
  return undefined;
}

/** Either one secret for all, or one for each. Nothing of the text is repeated. */
export function peerSecretsProblem(text: string): string | undefined {
  if (isPeerSecret(text)) return undefined;
  const entries = listEntries(text);
  const isValid = entries.every(([name, secret]) => isDatacenterName(name) && isPeerSecret(secret));
  if (!isValid) {
    return 'must be a secret, lh_ and at least 43 of A-Z, a-z, 0-9, "-" and "_", or a list as in dc2=lh_…,dc3=lh_…';
  }
  const names = entries.map(([name]) => name);
  return new Set(names).size === names.length ? undefined : 'names a datacenter twice';
}

/** Why a text is not a list of the addresses of an etcd's members. */
export function endpointsProblem(text: string): string | undefined {
  const endpoints = listItems(text);
  if (endpoints.length > ENDPOINTS_MAX) return `must have at most ${String(ENDPOINTS_MAX)} URLs`;
  const isValid = endpoints.every((endpoint) => {
    if (!URL.canParse(endpoint)) return false;
    const { protocol, username, password } = new URL(endpoint);
    return ['http:', 'https:'].includes(protocol) && `${username}${password}` === '';
  });
  return isValid
    ? undefined
    : 'must be a list of URLs, as in http://10.0.0.1:2379,http://10.0.0.2:2379';
}

/** What each variable needs besides itself. */
const NEEDS = [
  ['LEASEHOLD_PEERS', 'LEASEHOLD_PEER_TOKEN', 'datacenters authenticate each other with it'],
  ['LEASEHOLD_PEER_TOKEN', 'LEASEHOLD_PEERS', 'the secrets are for peers'],
  ['LEASEHOLD_PEERS', 'LEASEHOLD_ETCD', 'all datacenters record there which keys live where'],
  ['LEASEHOLD_ETCD_USER', 'LEASEHOLD_ETCD_PASSWORD', 'a user needs a password'],
  ['LEASEHOLD_ETCD_PASSWORD', 'LEASEHOLD_ETCD_USER', 'a password needs a user'],
  ['LEASEHOLD_ETCD_CERT_FILE', 'LEASEHOLD_ETCD_KEY_FILE', 'a certificate needs its key'],
  ['LEASEHOLD_ETCD_KEY_FILE', 'LEASEHOLD_ETCD_CERT_FILE', 'a key needs its certificate'],
  [
    'LEASEHOLD_ETCD_CERT_FILE',
    'LEASEHOLD_ETCD_CA_FILE',
    'the certificates of members are checked too',
  ],
  ['LEASEHOLD_ETCD_USER', 'LEASEHOLD_ETCD', 'without it no etcd is used'],
  ['LEASEHOLD_ETCD_CA_FILE', 'LEASEHOLD_ETCD', 'without it no etcd is used'],
] as const;

type DatacenterValues = Readonly<Record<'LEASEHOLD_DATACENTER', string>> &
  Readonly<Partial<Record<(typeof NEEDS)[number][0 | 1], string | undefined>>>;

/** What is wrong with the values as a whole; each problem names its variable. */
export function datacenterProblems(values: DatacenterValues): string[] {
  const problems = NEEDS.filter(
    ([one, other]) => values[one] !== undefined && values[other] === undefined,
  ).map(([one, other, why]) => `${other}: must be set where ${one} is: ${why}`);
  const names = listEntries(values.LEASEHOLD_PEERS ?? '').map(([name]) => name);
  if (names.includes(values.LEASEHOLD_DATACENTER)) {
    problems.push(
      `LEASEHOLD_PEERS: names "${values.LEASEHOLD_DATACENTER}", which is this datacenter`,
    );
  }
  const { LEASEHOLD_PEERS: peers, LEASEHOLD_PEER_TOKEN: secrets } = values;
  if (peers !== undefined && secrets !== undefined && !isPeerSecret(secrets)) {
    const given = listEntries(secrets).map(([name]) => name);
    const missing = names.filter((name) => !given.includes(name));
    const unknown = given.filter((name) => !names.includes(name));
    if (missing.length > 0) {
      problems.push(`LEASEHOLD_PEER_TOKEN: has none for ${missing.join(', ')}`);
    }
    if (unknown.length > 0) {
      problems.push(`LEASEHOLD_PEER_TOKEN: ${unknown.join(', ')} is not one of LEASEHOLD_PEERS`);
    }
  }
  const { LEASEHOLD_ETCD: etcd, LEASEHOLD_ETCD_CA_FILE: ca } = values;
  if (
    etcd !== undefined &&
    ca !== undefined &&
    listItems(etcd).some((url) => url.startsWith('http:'))
  ) {
    problems.push('LEASEHOLD_ETCD: must have https:// URLs where LEASEHOLD_ETCD_CA_FILE is set');
  }
  return problems;
}
