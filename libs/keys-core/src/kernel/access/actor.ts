import type { Role } from './roles.ts';

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
