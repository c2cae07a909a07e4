import { BlockList, isIP } from 'node:net';
import {
  isWithinNamespace,
  keyNameOf,
  LeaseError,
  parseAddressRange,
  RESERVED_NAMESPACE,
  roleAllows,
  type Caller,
  type FairUseOverrides,
  type ReservationKey,
  type Role,
} from '@leasehold/keys-core';
import type { SessionAccess } from '@leasehold/keys-core/access';
import type { Refusal } from '@leasehold/keys-core/stats';
import type { z } from 'zod';
import type { peerCallerSchema } from './contract/reservations.ts';

/** Somebody who has signed in to the console, and the session that they act in. */
interface PersonSession extends Omit<SessionAccess, 'role' | 'namespaces'> {
  /** Sent with the session's mutations, so that no other site can make them. */
  readonly csrfToken: string;
}

/** The caller itself, as it is told, and what a browser needs for further requests. */
export interface SessionView {
  /** As the audit names the caller. */
  readonly actor: string;
  readonly role: Role;
  readonly namespaces: readonly string[] | null;
  /** Null for an API token. */
  readonly person: Pick<PersonSession, 'personId' | 'email' | 'name' | 'signInMethods'> | null;
  /** To be sent as the header `x-leasehold-csrf` with every mutation of this session; null for a token. */
  readonly csrfToken: string | null;
  readonly expiresAt: string | null;
  readonly datacenter: string;
  /** The database's time. */
  readonly asOf: string;
}

/** The caller, as its token or session describes it. */
export interface Access {
  /** The id of the API token, or `person:` and the id of the person. */
  readonly principal: string;
  readonly name: string;
  readonly role: Role;
  /** Namespaces, children included, that the caller is limited to; null for no limit. */
  readonly namespaces: readonly string[] | null;
  readonly droneId: string | null;
  /** The programs that a drone may offer or a client may start; null or left out for any. */
  readonly programs?: readonly string[] | null | undefined;
  /** The largest capacity that a drone may report; null or left out for any number. */
  readonly capacity?: number | null | undefined;
  /** Where a drone's backends may be; null or left out for anywhere. */
  readonly addresses?: readonly string[] | null | undefined;
  /** Limits of fair use in place of those of the role. */
  readonly limits?: FairUseOverrides | null | undefined;
  /** Undefined for an API token. */
  readonly session?: PersonSession | undefined;
  /** Of a `peer`: which datacenter it is. */
  readonly peer?: string | undefined;
}

/** The caller as the services know it: a drone's principal is its own id. */
export function callerOf(access: Access): Caller {
  return {
    principal: access.droneId ?? access.principal,
    actor: access.droneId === null ? access.name : `drone:${access.droneId}`,
    role: access.role,
    namespaces: access.namespaces,
  };
}

/**
 * What a caller of another datacenter may do in this one. Both names contain its datacenter, so
 * that no caller from there is taken for a local one.
 */
export function accessFrom(
  datacenter: string,
  caller: Omit<z.output<typeof peerCallerSchema>, 'source'>,
): Access {
  return {
    principal: `${datacenter}/${caller.principal}`,
    name: `${caller.actor}@${datacenter}`,
    role: caller.role,
    namespaces: caller.namespaces,
    droneId: null,
  };
}

/** @throws {LeaseError} `auth.forbidden` unless the role may do what needs `needed`. */
export function assertRole({ role }: Pick<Access, 'role'>, needed: Role): void {
  if (roleAllows(role, needed)) return;
  throw new LeaseError(
    'auth.forbidden',
    `This needs the role ${needed}; the token's role is ${role}.`,
    { details: { needed, role } },
  );
}

/** @throws {LeaseError} `auth.required`, `auth.forbidden`. */
export function accessFor(role: Role, { access }: { readonly access: Access | undefined }): Access {
  if (access === undefined) throw new LeaseError('auth.required');
  assertRole(access, role);
  return access;
}

/** @throws {LeaseError} `auth.forbidden` for an input that names another drone than the token. */
export function assertOwnDrone({ droneId }: Pick<Access, 'droneId'>, input: unknown): void {
  const named =
    typeof input === 'object' && input !== null && 'droneId' in input ? input.droneId : undefined;
  if (named !== undefined && named !== droneId) {
    throw new LeaseError('auth.forbidden', 'A drone may act only for itself.');
  }
}

/** Whether the caller may see what is in a namespace. */
export function mayRead(access: Access, namespace: string): boolean {
  return (
    access.namespaces === null ||
    access.namespaces.some((allowed) => isWithinNamespace(namespace, allowed))
  );
}

/** @throws {LeaseError} `auth.forbidden` for a namespace that the caller is not limited to. */
export function assertMayRead(access: Access, namespace: string): void {
  if (mayRead(access, namespace)) return;
  throw new LeaseError('auth.forbidden', 'This token is limited to other namespaces.');
}

/**
 * Checks that the caller may ask for something in a namespace. The answer depends on the request
 * and the token alone, so it reveals nothing about what exists there.
 * @throws {LeaseError} `auth.forbidden`.
 */
export function assertMayHold(access: Access, namespace: string): void {
  if (isWithinNamespace(namespace, RESERVED_NAMESPACE)) {
    throw new LeaseError(
      'auth.forbidden',
      `The namespace "${RESERVED_NAMESPACE}" is Leasehold's own.`,
    );
  }
  assertMayRead(access, namespace);
}

/** A caller that is limited to namespaces sees the reservations of keys in them, and no others. */
export function mayReadReservation(access: Access, key: ReservationKey): boolean {
  const named = keyNameOf(key);
  return access.namespaces === null || (named !== undefined && mayRead(access, named.namespace));
}

/** @throws {LeaseError} `auth.forbidden` unless the caller may reserve and move this. */
export function assertMayReserve(access: Access, key: ReservationKey): void {
  const named = keyNameOf(key);
  if (named !== undefined) assertMayHold(access, named.namespace);
  else assertUnlimited(access);
}

/**
 * Checks that the caller's token is not limited to namespaces: what it asks for concerns all.
 * @throws {LeaseError} `auth.forbidden`.
 */
export function assertUnlimited(access: Access): void {
  if (access.namespaces !== null) {
    throw new LeaseError(
      'auth.forbidden',
      'A token that is limited to namespaces may not do this.',
    );
  }
}

// What a token is limited to: programs, a capacity, addresses.

/** How many programs or addresses an error names. */
const NAMED_MAX = 10;

/**
 * Checks what a drone offers in a session against its token.
 * @throws {LeaseError} `drone.not_allowed`.
 */
export function assertMayOffer(
  { programs, capacity }: Pick<Access, 'programs' | 'capacity'>,
  offered: { readonly programs: readonly { readonly name: string }[]; readonly capacity: number },
): void {
  const others = offered.programs.map(({ name }) => name).filter((name) => !mayUse(programs, name));
  if (others.length > 0) {
    const named = others.slice(0, NAMED_MAX);
    throw new LeaseError(
      'drone.not_allowed',
      `The token of this drone does not allow the programs: ${named.join(', ')}.`,
      { details: { programs: named, allowed: programs ?? [] } },
    );
  }
  if (capacity != null && offered.capacity > capacity) {
    throw new LeaseError(
      'drone.not_allowed',
      `The token of this drone allows a capacity of ${String(capacity)}, and it offers ${String(offered.capacity)}.`,
      { details: { capacity: offered.capacity, allowed: capacity } },
    );
  }
}

/**
 * Checks the address that a drone reports for a backend against its token.
 * @throws {LeaseError} `drone.not_allowed`.
 */
export function assertMayReport(
  { addresses }: Pick<Access, 'addresses'>,
  address: string | undefined,
): void {
  if (addresses == null || address === undefined) return;
  if (addresses.some((range) => isWithinRange(address, range))) return;
  throw new LeaseError(
    'drone.not_allowed',
    `The token of this drone does not allow the address ${address}.`,
    { details: { address, allowed: addresses.slice(0, NAMED_MAX) } },
  );
}

/** @throws {LeaseError} `spawn.not_allowed` unless the token may start the program. */
export function assertMayStart(
  { programs }: Pick<Access, 'programs'>,
  program: string | undefined,
): void {
  if (program === undefined || mayUse(programs, program)) return;
  throw new LeaseError('spawn.not_allowed', `This token may not start the program "${program}".`, {
    details: { program, allowed: (programs ?? []).slice(0, NAMED_MAX) },
  });
}

/**
 * An error as its caller gets it. A refusal names the programs that are offered: to those who may list drones, and
 * only those that they may start.
 */
export function errorFor(
  { namespaces, programs }: Pick<Access, 'namespaces' | 'programs'>,
  error: unknown,
): unknown {
  if (!(error instanceof LeaseError) || error.code !== 'spawn.no_drone') return error;
  const { offered, ...details } = error.details;
  if (!Array.isArray(offered)) return error;
  const seen = (offered as string[]).filter(
    (name) => namespaces === null && mayUse(programs, name),
  );
  const { code, message, cause, from } = error;
  return new LeaseError(code, message, {
    details: seen.length === 0 ? details : { ...details, offered: seen },
    cause,
    ...(from !== undefined && { from }),
  });
}

function mayUse(programs: readonly string[] | null | undefined, name: string): boolean {
  return programs?.includes(name) ?? true;
}

/** Whether `host:port` is within a range. A host that is no IP address is within none. */
export function isWithinRange(address: string, text: string): boolean {
  const range = parseAddressRange(text);
  const place = placeOf(address);
  if (range === undefined || place === undefined) return false;
  const { host, port } = place;
  if (port < range.portMin || port > range.portMax) return false;
  const networks = new BlockList();
  networks.addSubnet(range.network, range.prefixLength, range.family);
  return networks.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4');
}

function placeOf(address: string): { host: string; port: number } | undefined {
  const [, bracketed, bare, digits] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/u.exec(address) ?? [];
  const host = bracketed ?? bare ?? '';
  const isPort = digits !== undefined && Number(digits) <= 65_535;
  return isIP(host) !== 0 && isPort ? { host, port: Number(digits) } : undefined;
}

/** A refusal as those who may read the namespace see it: they learn nothing of a caller who may not use it. */
export function withoutStrangers(
  refusal: Refusal,
  { namespaces }: Pick<Access, 'namespaces'>,
): Refusal {
  const { namespace } = refusal;
  if (namespaces === null || namespaces.some((one) => isWithinNamespace(namespace, one))) {
    return refusal;
  }
  const reason = 'Somebody asked for it who may not use this namespace.';
  return { ...refusal, reason, actor: 'without access', holder: null };
}
