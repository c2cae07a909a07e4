/** What a token is limited to: programs, a capacity, addresses. */
import { BlockList, isIP } from 'node:net';
import { LeaseError, parseAddressRange } from '@leasehold/keys-core';
import type { Access } from './access.ts';

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
