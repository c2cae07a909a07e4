'use client';

import type { SessionView } from '@leasehold/api/contract';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { api, setCsrfToken } from '~/lib/api/api.ts';
import { useSession } from '~/lib/session/session.tsx';
import { signedOut } from '~/lib/session/signed-out.ts';

/** Goes on with the present session, if there is one. */
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
      // Another person must not finish what was begun here.
      window.location.reload();
      return;
    }
    // Set before anything on the page can be changed: the new session has its own CSRF token.
    setCsrfToken(session.csrfToken);
    signedOut.clear();
    router.refresh();
    void queryClient.invalidateQueries();
  };
}
