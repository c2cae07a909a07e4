import type { OrderedRole } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';

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

/** What a change of role means for the person. Pure. */
export function roleChangeText(from: OrderedRole, to: OrderedRole, isMe: boolean): string {
  if (from === to) return 'This is their role now.';
  const lost = isMe && from === 'admin' ? ' You will not see this page any more.' : '';
  return `Open pages keep working. What the new role does not allow is refused from now on.${lost}`;
}

/** What the link of a password reset does. Pure. */
export function resetText({ signInMethods }: Pick<Person, 'signInMethods'>): string {
  return signInMethods.includes('password')
    ? 'You get a link with which they choose a new password. The old one works until then. The new one ends their sessions and a lockout. An earlier link stops working.'
    : 'They sign in with the identity provider and have no password. You get a link with which they choose one. Their sessions end then, and they can sign in either way.';
}
