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

/** Why the person may not do what needs this role; undefined when they may. */
export function useWhyNot(needed: Role): string | undefined {
  return whyNot(useSession().role, needed);
}

/** Why somebody may not do a thing; undefined when they may. The controller decides again. */
function whyNot(role: Role, needed: Role): string | undefined {
  if (roleAllows(role, needed)) return undefined;
  return `This needs the role ${needed}; yours is ${role}.`;
}

const state = createSignal(false);

/** Whether an answer has said that nobody is signed in any more. */
export const signedOut = {
  ...state,
  raise: (): void => state.set(true),
  clear: (): void => state.set(false),
};
