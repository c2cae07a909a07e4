'use client';

import { useEffect } from 'react';
import { useSession } from '~/lib/session/session.tsx';
import { useSignal } from '~/lib/use-signal.ts';
import type { Followed } from './followed.ts';

/** The acts that the person who is signed in follows in this tab. */
export function useFollowed<Act>(followed: Followed<Act>): readonly Act[] {
  const acts = useSignal(followed.acts);
  const { actor } = useSession();
  useEffect(() => followed.read(actor), [followed, actor]);
  return acts;
}
