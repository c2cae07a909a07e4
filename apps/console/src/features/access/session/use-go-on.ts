'use client';

import type { SessionView } from '@leasehold/api/contract';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { api, setCsrfToken } from '~/lib/api/api.ts';
import { useSession } from '~/lib/session/session.tsx';
import { signedOut } from '~/lib/session/signed-out.ts';

/** Goes on with the session that there is now, if there is one. */
export function useGoOn(): () => Promise<void> {
  const { person } = useSession();
  const queryClient = useQueryClient();
  const router = useRouter();
  return async () => {
    let session: SessionView;
    try {
      session = (await api.query('session.get')) as SessionView;
    } catch {
      // Nobody has signed in yet, or no controller answers: the dialog stays.
      return;
    }
    if (session.person?.personId !== person?.personId) {
      // What was begun here is not theirs to finish.
      window.location.reload();
      return;
    }
    // Before anything on the page can be changed: the new session has a token of its own.
    setCsrfToken(session.csrfToken);
    signedOut.clear();
    router.refresh();
    void queryClient.invalidateQueries();
  };
}
