import type { Count, Page, Searched, SearchedPage } from '../kernel/face-types.ts';
import type { Actor, OrderedRole } from '../kernel/access.ts';

/** Somebody who may sign in to the console. */
export interface PersonView {
  readonly personId: string;
  readonly email: string;
  readonly name: string;
  readonly role: OrderedRole;
  /** What the person is limited to, by the groups of an identity provider; null: nothing. */
  readonly namespaces: readonly string[] | null;
  /** `invited` has not set a password yet; `disabled` may not sign in and has no session. */
  readonly status: 'invited' | 'active' | 'disabled';
  /** How the person signs in; empty while invited. */
  readonly signInMethods: ('password' | 'oidc')[];
  /** Until when sign-in is refused after repeated failures; null when it is not. */
  readonly lockedUntil: string | null;
  readonly createdAt: string;
  readonly lastSignInAt: string | null;
  readonly sessionCount: number;
}

/** A person and the one-time path with which they set their password; shown once. */
export interface Invitation {
  readonly person: PersonView;
  /** Of the console: `/sign-in?invitation=…`, and `&reset=1` when it is for a new password. */
  readonly path: string;
  readonly expiresAt: string;
}

/** What an administrator does to a person. */
export interface PersonAct {
  readonly personId: string;
  readonly reason?: string | undefined;
}

/** Who may sign in to the console. Nobody can take the last administrator away. */
export interface PeopleService {
  /** Newest first; searched by a part of a name or an e-mail address. */
  list(input: SearchedPage): Promise<Page<PersonView>>;
  /** How many people all pages of the list have. */
  count(input: Searched): Promise<Count>;
  /**
   * Makes a person, or renews the invitation of one who has not accepted it.
   * @throws {LeaseError} `person.exists`.
   */
  invite(
    input: { email: string; name?: string | undefined; role: OrderedRole },
    actor: Actor,
  ): Promise<Invitation>;
  /** @throws {LeaseError} `person.not_found`, `person.last_admin`. */
  setRole(input: PersonAct & { role: OrderedRole }, actor: Actor): Promise<{ changed: boolean }>;
  /**
   * Ends the person's sessions too. `tokensMade` are those in force that they made: they go on
   * working until somebody revokes them.
   * @throws {LeaseError} `person.not_found`, `person.last_admin`.
   */
  disable(input: PersonAct, actor: Actor): Promise<{ changed: boolean; tokensMade: number }>;
  /** Lets a disabled or locked person sign in again. @throws {LeaseError} `person.not_found`. */
  enable(input: PersonAct, actor: Actor): Promise<{ changed: boolean }>;
  /**
   * Makes a link with which somebody who has joined chooses a new password; an earlier link ends.
   * The old password works until the link is used. Then their sessions and any lock-out end.
   * @throws {LeaseError} `person.not_found`, `person.not_joined`, `person.disabled`.
   */
  resetPassword(input: PersonAct, actor: Actor): Promise<Invitation>;
  /** @throws {LeaseError} `person.not_found`. */
  signOutEverywhere(input: PersonAct, actor: Actor): Promise<{ endedCount: number }>;
}
