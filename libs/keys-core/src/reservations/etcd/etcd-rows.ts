/** What is written in etcd, and under which keys. Nothing that is read is trusted before it is checked. */
import { LeaseError } from '../../kernel/errors/index.ts';
import {
  isReservationId,
  parseReservationKey,
  reservationKeyText,
  type ReservationKey,
  type ReservationPointer,
} from '../../kernel/resource/reservation.ts';

export const ROOT = '/leasehold/v1';
const RESERVATIONS = `${ROOT}/reservation/`;
const POINTERS = `${ROOT}/pointer/`;
const DATACENTERS = `${ROOT}/datacenter/`;
const WITNESSES = `${ROOT}/witness/`;

export const TOKEN = /^\d{1,19}$/u;
const CLUSTER_ID = /^[0-9a-f-]{36}$/u;

/** A kind of thing in etcd: where it is, and how it is written. */
export interface EtcdRows<Name, Value> {
  readonly prefix: string;
  keyOf(name: Name): string;
  nameOf(key: string): Name;
  write(value: Value): string;
  /** @throws {LeaseError} `internal.error` for what Leasehold did not write. */
  read(text: string, name: Name): Value;
}

/** The first reservation of each key. */
export const RESERVATION_ROWS: EtcdRows<ReservationKey, string> = {
  prefix: RESERVATIONS,
  keyOf: (key) => RESERVATIONS + reservationKeyText(key),
  nameOf: (key) => parseReservationKey(key.slice(RESERVATIONS.length)),
  write: (reservationId) => reservationId,
  read: (text) => (isReservationId(text) ? text : foreign('reservation')),
};

/** Where each reservation that was left has gone to. */
export const POINTER_ROWS: EtcdRows<string, ReservationPointer> = {
  prefix: POINTERS,
  keyOf: (fromId) => POINTERS + fromId,
  nameOf: (key) => key.slice(POINTERS.length),
  write: ({ toId, tokenFloor }) => JSON.stringify({ toId, tokenFloor }),
  read(text, fromId) {
    const { toId, tokenFloor } = objectOf(text);
    if (typeof toId !== 'string' || !isReservationId(toId)) return foreign('pointer');
    if (typeof tokenFloor !== 'string' || !TOKEN.test(tokenFloor)) return foreign('pointer');
    return { fromId, toId, tokenFloor };
  },
};

/** Which database has which name of a datacenter. */
export const DATACENTER_ROWS: EtcdRows<string, string> = {
  prefix: DATACENTERS,
  keyOf: (name) => DATACENTERS + name,
  nameOf: (key) => key.slice(DATACENTERS.length),
  write: (clusterId) => clusterId,
  read: (text) => (CLUSTER_ID.test(text) ? text : foreign('name of a datacenter')),
};

/** The row of a process, by which it notices that etcd was put back to an earlier state. */
export function witnessKeyOf(name: string): string {
  return WITNESSES + name;
}

/** Whether a row stays, once it was written: nobody deletes it, and what replaces it is newer. */
export function isLastingKey(key: string): boolean {
  return [RESERVATIONS, POINTERS, WITNESSES].some((prefix) => key.startsWith(prefix));
}

export function objectOf(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function foreign(what: string): never {
  throw new LeaseError('internal.error', `etcd holds a ${what} that is not one of Leasehold's.`);
}
