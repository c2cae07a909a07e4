import type { SessionView } from '@leasehold/api/contract';
import { type Role, roleAllows } from '@leasehold/keys-core';
import { createContext, type ReactNode, useContext, useState } from 'react';
import { setCsrfToken } from '~/lib/api/api.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { setHere } from './routes.ts';
import { createSignal } from './signal.ts';

const SessionContext = createContext<SessionView | null>(null);

/** Who is signed in, for everything below. */
export function SessionProvider({
  session,
  children,
}: {
  readonly session: SessionView;
  readonly children: ReactNode;
}) {
  setCsrfToken(session.csrfToken);
  setHere(session.datacenter);
  // The first reading of the database's time: countdowns need not wait for another answer.
  useState(() => databaseClock.observe(session));
  return <SessionContext value={session}>{children}</SessionContext>;
}

/** Who is signed in. */
export function useSession(): SessionView {
  const session = useContext(SessionContext);
  if (session === null) throw new Error('Outside of a SessionProvider.');
  return session;
}

/** What a thing needs besides a role. */
interface Needs {
  /** Whether it concerns all namespaces: not for who is limited to some. True of whatever administrators do. */
  readonly isOfAll?: boolean;
}

/** Why the person may not do what needs this role; undefined when they may. */
export function useWhyNot(needed: Role, needs?: Needs): string | undefined {
  return whyNot(useSession(), needed, needs);
}

/** Why somebody may not do a thing; undefined when they may. The controller decides again. Pure. */
export function whyNot(
  { role, namespaces }: Pick<SessionView, 'role' | 'namespaces'>,
  needed: Role,
  { isOfAll = needed === 'admin' }: Needs = {},
): string | undefined {
  if (!roleAllows(role, needed)) return `This needs the role ${needed}; yours is ${role}.`;
  if (!isOfAll || namespaces === null) return undefined;
  return 'This concerns all namespaces, and you are limited to some.';
}

const state = createSignal(false);

/** Whether an answer has said that nobody is signed in any more. */
export const signedOut = {
  ...state,
  raise: (): void => state.set(true),
  clear: (): void => state.set(false),
};
