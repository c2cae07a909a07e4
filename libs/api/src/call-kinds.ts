/** What is known of a call by its procedure, before any of it is read: how large it may be, and of what kind it is. */
import { LeaseError, LIMITS, type Role } from '@leasehold/keys-core';

// How large a message may be, by the procedure that it calls: known before any of it is parsed, because
// to parse and to check it takes time in proportion to it, in which nothing else is done.
//
// - Bytes: what the largest right input has, with room for text that is escaped as `\u00e9`.
// - Values: numbers, texts, lists and objects. One costs as much as a hundred characters of a text, so that
//   1 MiB of `[1,1,…]` would take a hundred times as long as a right message of that size.

export interface MessageBound {
  readonly bytesMax: number;
  readonly valuesMax: number;
}

/** What one message may hold the event loop for, in milliseconds: `npm run attack` measures it. */
export const MESSAGE_MS_MAX = 20;

const KIB = 1_024;

/** Any procedure with no list: metadata has 16 KiB, and everything else less. */
const ORDINARY: MessageBound = { bytesMax: 64 * KIB, valuesMax: 10_000 };
/** 10,000 grants, each of an id and a fencing token. */
const MANY_GRANTS: MessageBound = { bytesMax: 896 * KIB, valuesMax: 40_000 };
/** 1,000 leases with half a kilobyte of metadata each, or 10,000 releases. */
const MANY_ITEMS: MessageBound = { bytesMax: 896 * KIB, valuesMax: 60_000 };
/** Any of these, from another datacenter, with its caller. */
const FORWARDED: MessageBound = { bytesMax: LIMITS.bodyBytesMax, valuesMax: 60_000 };

const BOUNDS: Readonly<Record<string, MessageBound>> = {
  'keys.connect': { bytesMax: 768 * KIB, valuesMax: 10_000 },
  'keys.renew': MANY_GRANTS,
  'leases.heartbeat': MANY_GRANTS,
  'environments.heartbeat': MANY_GRANTS,
  /** 64 names, with room for escapes, and metadata. */
  'leases.acquireAll': { bytesMax: 256 * KIB, valuesMax: 10_000 },
  'leases.acquireMany': MANY_ITEMS,
  'leases.releaseMany': MANY_ITEMS,
  'leases.declare': { bytesMax: 896 * KIB, valuesMax: 40_000 },
  'bulk.preview': MANY_GRANTS,
  'bulk.start': MANY_GRANTS,
  /** 256 programs. */
  'drones.session': { bytesMax: 768 * KIB, valuesMax: 20_000 },
  /** As many spawns as a connect. */
  'gateway.sign': { bytesMax: 768 * KIB, valuesMax: 10_000 },
  'gateway.sync': MANY_ITEMS,
  /** A page of what a backend has written. */
  'drones.answer': { bytesMax: 256 * KIB, valuesMax: 10_000 },
  'peer.connect': { bytesMax: LIMITS.bodyBytesMax, valuesMax: 10_000 },
  /** With as many namespaces as its caller can have. */
  'peer.move': { bytesMax: LIMITS.bodyBytesMax, valuesMax: 10_000 },
  'peer.carryOut': FORWARDED,
};

/** A viewer only reads, and does not start many things at once. */
const OF_VIEWERS: MessageBound = { bytesMax: 256 * KIB, valuesMax: 10_000 };

/** What a role may send in one message, for any procedure. */
export function roleBound(role: Role): MessageBound {
  if (role === 'viewer') return OF_VIEWERS;
  if (role === 'peer') return FORWARDED;
  return role === 'drone' ? MANY_GRANTS : MANY_ITEMS;
}

/** What a message may have that calls these procedures: as much as all of them, and as its role may send. */
export function messageBound(paths: readonly string[], role: Role): MessageBound {
  const bounds = paths.map((path) => BOUNDS[path] ?? ORDINARY);
  const { bytesMax, valuesMax } = roleBound(role);
  const sumOf = (name: keyof MessageBound): number =>
    bounds.reduce((sum, bound) => sum + bound[name], 0);
  return {
    bytesMax: Math.min(sumOf('bytesMax') || ORDINARY.bytesMax, bytesMax),
    valuesMax: Math.min(sumOf('valuesMax') || ORDINARY.valuesMax, valuesMax),
  };
}

/** @throws {LeaseError} `request.too_large`. `json` undefined: only its length is known. */
export function assertBound(
  { bytesMax, valuesMax }: MessageBound,
  { bytes, json }: { readonly bytes: number; readonly json?: string | undefined },
): void {
  if (bytes > bytesMax) {
    throw new LeaseError('request.too_large', `This request may have ${String(bytesMax)} bytes.`, {
      details: { bytesMax, bytes },
    });
  }
  if (json !== undefined && hasMoreValues(json, valuesMax)) {
    throw new LeaseError(
      'request.too_large',
      `This request may have ${String(valuesMax)} values: numbers, texts, lists and objects, and ${String(NAMES_MAX)} different names of fields.`,
      { details: { valuesMax } },
    );
  }
}

/**
 * Different names of fields in one message: each new one costs as much as twenty values. Metadata of one lease
 * has at most some 2,500.
 */
const NAMES_MAX = 4_000;

const SPACE = 32;
const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPENING_BRACKET = 91;
const BACKSLASH = 92;
const OPENING_BRACE = 123;

/**
 * Whether a JSON text has more values than this, or too many names. It does not parse the text: it counts what begins or
 * separates values, outside of texts, and stops when that is too much.
 */
function hasMoreValues(json: string, valuesMax: number): boolean {
  if (json.length <= Math.min(valuesMax, NAMES_MAX)) return false;
  let count = 0;
  const names = new Set<string>();
  for (let at = 0; at < json.length; at += 1) {
    const character = json.charCodeAt(at);
    if (character === QUOTE) {
      const start = at;
      at = endOfText(json, start);
      if (isFollowedByColon(json, at)) names.add(json.slice(start, at));
      if (names.size > NAMES_MAX) return true;
    } else if (
      character === COMMA ||
      character === OPENING_BRACKET ||
      character === OPENING_BRACE
    ) {
      count += 1;
      if (count > valuesMax) return true;
    }
  }
  return false;
}

function isFollowedByColon(json: string, end: number): boolean {
  let at = end + 1;
  while (json.charCodeAt(at) <= SPACE) at += 1;
  return json.charCodeAt(at) === COLON;
}

/** Where the text that begins at `start` ends. */
function endOfText(json: string, start: number): number {
  for (let at = json.indexOf('"', start + 1); at >= 0; at = json.indexOf('"', at + 1)) {
    let before = at - 1;
    while (json.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((at - before) % 2 === 1) return at;
  }
  return json.length;
}

// What one datacenter may ask another to carry out for its callers: everything that takes a
// `datacenter`, and what a controller sends on by itself. Connects and immediate moves have procedures of their own.

/** Procedures that change nothing, and are answered at once. */
const READS: ReadonlySet<string> = new Set([
  ...['get', 'list', 'count', 'failures', 'waiters', 'history', 'at'].map((name) => `keys.${name}`),
  ...[
    'declared',
    'get',
    'list',
    'count',
    'tree',
    'waiters',
    'contention',
    'why',
    'mostWaited',
    'failingCallbacks',
    'history',
    'at',
  ].map((name) => `leases.${name}`),
  ...['get', 'list', 'count', 'history', 'at', 'queue', 'why', 'freezes'].map(
    (name) => `environments.${name}`,
  ),
  ...['get', 'list', 'count'].flatMap((name) => [`drones.${name}`, `backends.${name}`]),
  'backends.logs',
  'events.list',
  'events.count',
  'refusals.list',
  'holdOff.get',
  'reservations.list',
  'reservations.count',
  'reservations.pendingMove',
  'search.find',
]);

const ACTS: ReadonlySet<string> = new Set([
  ...['blockRenewal', 'allowRenewal', 'revoke', 'resetFailures'].map((name) => `keys.${name}`),
  ...[
    'acquire',
    'acquireAll',
    'acquireMany',
    'heartbeat',
    'release',
    'releaseMany',
    'cancel',
    'update',
    'declare',
  ].map((name) => `leases.${name}`),
  ...['downgrade', 'setPermits', 'blockRenewal', 'allowRenewal', 'revoke'].map(
    (name) => `leases.${name}`,
  ),
  ...[
    'tryAcquire',
    'acquire',
    'heartbeat',
    'release',
    'cancel',
    'update',
    'revoke',
    'freeze',
    'unfreeze',
  ].map((name) => `environments.${name}`),
  ...['drain', 'undrain', 'markLost'].map((name) => `drones.${name}`),
  'backends.terminate',
  'holdOff.end',
  // By controllers themselves: a token is handed over, a revocation is for all datacenters.
  'gateway.sign',
  'gateway.revoke',
  'reservations.requestMove',
  'reservations.cancelMove',
]);

export function isForwardable(procedure: string): boolean {
  return READS.has(procedure) || ACTS.has(procedure);
}

/** Whether it does no harm to carry out a procedure twice. */
export function isRepeatable(procedure: string): boolean {
  return READS.has(procedure);
}

/**
 * Calls that keep backends, leases and routes alive or release them, and all calls of drones. They are
 * served before everything else, and their rate is counted separately.
 */
const URGENT_CALLS: ReadonlySet<string> = new Set([
  'keys.renew',
  'leases.heartbeat',
  'leases.release',
  'leases.releaseMany',
  'leases.cancel',
  'environments.heartbeat',
  'environments.release',
  'environments.cancel',
  'drones.session',
  'drones.heartbeat',
  'drones.goodbye',
  'drones.ack',
  'backends.report',
  'gateway.sync',
]);

/** Whether calls of this procedure are served before others. */
export function isUrgentCall(path: string): boolean {
  return URGENT_CALLS.has(path);
}

/** Calls that ask for grants: what a controller refuses first when it is asked for too many. */
const GRANTING_CALLS: ReadonlySet<string> = new Set([
  'keys.connect',
  'gateway.route',
  'leases.acquire',
  'leases.acquireAll',
  'leases.acquireMany',
  'environments.tryAcquire',
  'environments.acquire',
]);

/** Whether calls of this procedure ask for grants. */
export function isGrantingCall(path: string): boolean {
  return GRANTING_CALLS.has(path);
}
