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
