/**
 * What a token may do. Each ordered role may do what the ones before it may; `drone` is separate: only the
 * drone procedures of its own id. So is `gateway`: it only asks for routes and reports their use. `peer` is
 * separate too: a controller of another datacenter, which is known by the secret that the pair shares and
 * has no token.
 */
export const ORDERED_ROLES = ['viewer', 'client', 'operator', 'admin'] as const;
/** What a token can be made with. */
export const TOKEN_ROLES = [...ORDERED_ROLES, 'drone', 'gateway'] as const;
export const ROLES = [...TOKEN_ROLES, 'peer'] as const;
export type OrderedRole = (typeof ORDERED_ROLES)[number];
export type TokenRole = (typeof TOKEN_ROLES)[number];
export type Role = (typeof ROLES)[number];

export function isOrderedRole(role: Role): role is OrderedRole {
  return (ORDERED_ROLES as readonly Role[]).includes(role);
}

/** Whether `role` may do what needs `needed`. */
export function roleAllows(role: Role, needed: Role): boolean {
  if (!isOrderedRole(role) || !isOrderedRole(needed)) return role === needed;
  return ORDERED_ROLES.indexOf(role) >= ORDERED_ROLES.indexOf(needed);
}

/** Who acts and from where, for the audit. */
export interface Actor {
  readonly actor: string;
  readonly role: Role;
  readonly source: string | null;
}

/**
 * Who acts, as events and the audit name them. Leasehold itself is {@link SYSTEM_ACTOR}, a drone is
 * `drone:` and its id, a person is an e-mail address, and anything else is the name of an API token.
 */
export const SYSTEM_ACTOR = 'leasehold';

/** Whether a token of this name could be mistaken for Leasehold itself, or for a drone. */
export function isSystemName(name: string): boolean {
  return name.includes(':') || name.trim().toLowerCase() === SYSTEM_ACTOR;
}

/**
 * How the user of a token is named. Older tokens with names that are refused today are distinguished by
 * their id.
 */
export function actorOfToken({ name, tokenId }: { name: string; tokenId: string }): string {
  return isSystemName(name) || name.includes('@') ? `${name} (token ${tokenId})` : name;
}

/**
 * Where a drone's backends may be: a network as CIDR, with an optional port or range of ports.
 * `10.1.0.0/16`, `10.1.0.0/16:21000-29999`, `[fd00::/8]:21000`.
 */
interface AddressRange {
  readonly network: string;
  readonly prefixLength: number;
  readonly family: 'ipv4' | 'ipv6';
  readonly portMin: number;
  /** Inclusive. */
  readonly portMax: number;
}

const PORT_MAX = 65_535;
const BRACKETED = /^\[([0-9a-f:.]+)\/(\d{1,3})\](?::(\d{1,5})(?:-(\d{1,5}))?)?$/iu;
const BARE_IPV6 = /^([0-9a-f.]*:[0-9a-f:.]*)\/(\d{1,3})$/iu;
const IPV4 = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})(?::(\d{1,5})(?:-(\d{1,5}))?)?$/u;

/** The parts of a range; undefined when the text is not a range. The network itself is not validated. */
export function parseAddressRange(text: string): AddressRange | undefined {
  const found = IPV4.exec(text) ?? BRACKETED.exec(text) ?? BARE_IPV6.exec(text);
  if (found === null) return undefined;
  const [, network = '', prefix, from, to] = found;
  const family = network.includes(':') ? 'ipv6' : 'ipv4';
  const range = { network, prefixLength: Number(prefix), family, ...portsOf(from, to) } as const;
  return isPossible(range) ? range : undefined;
}

function portsOf(from?: string, to?: string): Pick<AddressRange, 'portMin' | 'portMax'> {
  return from === undefined
    ? { portMin: 0, portMax: PORT_MAX }
    : { portMin: Number(from), portMax: Number(to ?? from) };
}

function isPossible({ prefixLength, family, portMin, portMax }: AddressRange): boolean {
  const isPrefix = prefixLength <= (family === 'ipv4' ? 32 : 128);
  return isPrefix && portMin <= portMax && portMax <= PORT_MAX;
}

/** Every act that the audit records: the procedure that did it, or a name of its own without one. */
export const AUDIT_ACTIONS = [
  'keys.revoke',
  'keys.blockRenewal',
  'keys.allowRenewal',
  'keys.resetFailures',
  'leases.revoke',
  'leases.blockRenewal',
  'leases.allowRenewal',
  'leases.setPermits',
  'environments.revoke',
  'environments.freeze',
  'environments.unfreeze',
  'environments.overrideFreeze',
  'environments.supersede',
  'bulk.start',
  'bulk.abort',
  'backends.terminate',
  'backends.logs',
  'reservations.move',
  'reservations.cancelMove',
  'holdOff.end',
  'datacenters.giveUp',
  'datacenters.takeBack',
  'gateway.revoke',
  'gateway.rotate',
  'drones.drain',
  'drones.undrain',
  'drones.markLost',
  'drones.remove',
  'tokens.create',
  'tokens.revoke',
  'people.invite',
  'people.add',
  'people.acceptInvitation',
  'people.resetPassword',
  'people.acceptPasswordReset',
  'people.setRole',
  'people.disable',
  'people.enable',
  'people.signIn',
  'people.refuseSignIn',
  'people.linkAccount',
  'people.signOutEverywhere',
  'people.changePassword',
  'people.lockOut',
  'people.makeAdmin',
  'webhook.test',
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** What is recorded of signing in and out, beside what operators do. */
export const SIGN_IN_ACTIONS: readonly AuditAction[] = [
  'people.signIn',
  'people.refuseSignIn',
  'people.signOutEverywhere',
  'people.lockOut',
];
