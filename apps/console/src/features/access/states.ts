import type { OrderedRole, TokenRole } from '@leasehold/keys-core';
import type { Inputs, Outputs } from '~/lib/api/api.ts';
import { ROLE_LABELS } from '~/lib/auth.ts';

export type Token = Outputs['tokens']['list']['items'][number];

const DAY_MS = 86_400_000;
/** How long before its end a token counts as ending soon. */
const SOON_MS = 7 * DAY_MS;

export type TokenState = 'active' | 'ending' | 'expired' | 'revoked';

/** Whether a token is in force, by the database's time. Pure. */
export function tokenState(
  { revokedAt, expiresAt }: Pick<Token, 'revokedAt' | 'expiresAt'>,
  nowMs: number,
): TokenState {
  if (revokedAt !== null) return 'revoked';
  if (expiresAt === null) return 'active';
  const restMs = Date.parse(expiresAt) - nowMs;
  if (restMs <= 0) return 'expired';
  return restMs <= SOON_MS ? 'ending' : 'active';
}

/** Why a token cannot be revoked; undefined when it can. */
export function revokeProblem(state: TokenState): string | undefined {
  return state === 'revoked' ? 'It was revoked already.' : undefined;
}

/** For how long a new token lasts. */
export const LIFETIMES = [
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In one year' },
  { value: 'never', label: 'Never' },
] as const;

/** When a token that is made now ends; undefined for never. */
export function expiryOf(lifetime: string, nowMs: number): string | undefined {
  const days = Number(lifetime);
  return Number.isInteger(days) ? new Date(nowMs + days * DAY_MS).toISOString() : undefined;
}

/** What a new token is bound to; an empty list or a missing capacity sets no bound. */
export interface TokenBounds {
  readonly namespaces: string[];
  readonly programs: string[];
  readonly addresses: string[];
  readonly capacity: number | null;
}

export const NO_BOUNDS: TokenBounds = {
  namespaces: [],
  programs: [],
  addresses: [],
  capacity: null,
};

/** Which bounds a role has: only a drone has a capacity and addresses, a viewer starts nothing, and a gateway has none. */
export function boundsOf(role: TokenRole): readonly (keyof TokenBounds)[] {
  if (role === 'drone') return ['programs', 'capacity', 'addresses'];
  if (role === 'gateway') return [];
  return role === 'viewer' ? ['namespaces'] : ['namespaces', 'programs'];
}

/** The bounds as they are sent to the API. What was filled in for another role is left out. */
export function boundsInput(
  role: TokenRole,
  bounds: TokenBounds,
): Pick<Inputs['tokens']['create'], keyof TokenBounds> {
  const filled = boundsOf(role)
    .map((name) => [name, bounds[name]] as const)
    .filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0));
  return Object.fromEntries(filled);
}

export type Person = Outputs['people']['list']['items'][number];

/** A person's status, and `locked` for one whose sign-in is refused at this moment. */
export type PersonState = Person['status'] | 'locked';

/** What an administrator can do with somebody. */
export type PersonAct =
  'setRole' | 'invite' | 'resetPassword' | 'unlock' | 'enable' | 'disable' | 'signOutEverywhere';

/** By the database's time. Pure. */
export function personState(
  { status, lockedUntil }: Pick<Person, 'status' | 'lockedUntil'>,
  nowMs: number,
): PersonState {
  if (status !== 'active' || lockedUntil === null) return status;
  return Date.parse(lockedUntil) > nowMs ? 'locked' : status;
}

/** What else is known when an act on a person is judged. */
interface Among {
  /** The person who is signed in. */
  readonly meId: string | null;
  /** No other administrator can sign in, as far as the page shows. The controller decides again. */
  readonly isLastAdmin: boolean;
  readonly state: PersonState;
}

const LAST_ADMIN = 'This is the last administrator who can sign in. Make another one first.';

/** Which acts make sense for somebody in a state. Pure. */
export function actsFor(state: PersonState): PersonAct[] {
  if (state === 'disabled') return ['enable', 'setRole'];
  const end: PersonAct[] = ['resetPassword', 'signOutEverywhere', 'disable'];
  if (state === 'invited') return ['invite', 'setRole', 'disable'];
  return state === 'locked' ? ['unlock', 'setRole', ...end] : ['setRole', ...end];
}

/** Why an act may not be done to somebody; undefined when it may. Pure. */
export function personActProblem(
  act: PersonAct,
  person: Pick<Person, 'personId' | 'sessionCount'>,
  among: Among,
): string | undefined {
  if (act === 'disable') {
    if (among.isLastAdmin) return LAST_ADMIN;
    if (person.personId === among.meId) return 'This is you. Ask another administrator.';
  }
  if (act === 'setRole' && among.isLastAdmin) return LAST_ADMIN;
  if (act === 'signOutEverywhere' && person.sessionCount === 0) {
    return 'Not signed in anywhere.';
  }
  return undefined;
}

/** Whether a person is the only administrator who can sign in; false if the list is not whole. Pure. */
export function isLastAdmin(
  person: Pick<Person, 'personId' | 'role' | 'status'>,
  people: readonly Pick<Person, 'personId' | 'role' | 'status'>[],
  isWhole: boolean,
): boolean {
  const isAdmin = (one: Pick<Person, 'role' | 'status'>): boolean =>
    one.role === 'admin' && one.status === 'active';
  if (!isWhole || !isAdmin(person)) return false;
  return people.every((other) => other.personId === person.personId || !isAdmin(other));
}

/** `Operator in games.eu`: a person's role, with the namespaces that it is limited to. Pure. */
export function roleText({ role, namespaces }: Pick<Person, 'role' | 'namespaces'>): string {
  const label = ROLE_LABELS[role];
  return namespaces === null ? label : `${label} in ${namespaces.join(', ')}`;
}

/** What a change of role means for the person. Pure. */
export function roleChangeText(
  { role: from, namespaces }: Pick<Person, 'role' | 'namespaces'>,
  to: OrderedRole,
  isMe: boolean,
): string {
  if (from === to) return 'This is their role now.';
  const lost = isMe && from === 'admin' ? ' You will not see this page any more.' : '';
  const limit = namespaces === null ? '' : ` Their limit to ${namespaces.join(', ')} ends.`;
  return `Open pages keep working. What the new role does not allow is refused from now on.${limit}${lost}`;
}

/** What the link of a password reset does. Pure. */
export function resetText({ signInMethods }: Pick<Person, 'signInMethods'>): string {
  return signInMethods.includes('password')
    ? 'You get a link with which they choose a new password. The old one works until then. The new one ends their sessions and a lockout. An earlier link stops working.'
    : 'They sign in with the identity provider and have no password. You get a link with which they choose one. Their sessions end then, and they can sign in either way.';
}
