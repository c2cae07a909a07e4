/**
 * Acts that a person has requested in this tab and follows to their end. They are kept from page to
 * page, and over a reload.
 */
import { useEffect } from 'react';
import { useSession } from '~/lib/session.tsx';
import { createSignal, useSignal } from '~/lib/signal.ts';
import type { FollowedRevoke } from './revoke-progress.ts';

const KEPT_MAX = 3;

type Followed<Act> = ReturnType<typeof createFollowed<Act>>;

/** `name`: under which the browser keeps them; `idOf`: what identifies an act. */
export function createFollowed<Act>(name: string, idOf: (act: Act) => string) {
  /** The browser's key, with the actor: another person who signs in in this tab has other acts. */
  let stored = name;
  const acts = createSignal<readonly Act[]>([]);
  const others = (id: string): readonly Act[] => acts.get().filter((act) => idOf(act) !== id);
  const store = (all: readonly Act[]): void => {
    const kept = all.slice(0, KEPT_MAX);
    acts.set(kept);
    window.sessionStorage.setItem(stored, JSON.stringify(kept));
  };
  return {
    acts,
    /** Begins to follow an act; only the newest few are kept. */
    follow: (act: Act) => store([act, ...others(idOf(act))]),
    /** Stops following an act: the person has dismissed it, or it was refused. */
    unfollow: (id: string) => store(others(id)),
    /** Reads the acts that this person followed in this tab before a reload. */
    read(actor: string): void {
      stored = `${name} ${actor}`;
      const text = window.sessionStorage.getItem(stored);
      if (text === null) {
        acts.set([]);
        return;
      }
      try {
        acts.set(JSON.parse(text) as Act[]);
      } catch {
        window.sessionStorage.removeItem(stored);
      }
    },
  };
}

/** The acts that the person who is signed in follows in this tab. */
export function useFollowed<Act>(followed: Followed<Act>): readonly Act[] {
  const acts = useSignal(followed.acts);
  const { actor } = useSession();
  useEffect(() => followed.read(actor), [followed, actor]);
  return acts;
}

export const followedRevokes = createFollowed<FollowedRevoke>(
  'leasehold.revokes',
  ({ leaseId }) => leaseId,
);
