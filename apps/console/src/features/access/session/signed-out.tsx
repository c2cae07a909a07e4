import type { SessionView } from '@leasehold/api/contract';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { useEffect, useEffectEvent } from 'react';
import { api, setCsrfToken } from '~/lib/api/api.ts';
import { onSignIn } from '~/lib/auth.ts';
import { signedOut, useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';

const SignedOutDialog = lazyDialog('isOpen', () =>
  import('./signed-out-dialog.tsx').then((module) => module.SignedOutDialog),
);

/** Asks a person who has been signed out in the middle of something to sign in again, over the page. */
export function SignedOut() {
  const isSignedOut = useSignal(signedOut);
  const goOn = useGoOn();
  const onElsewhere = useEffectEvent(() => void goOn());
  // After a sign-in in another window or tab of this browser, this page has that session too.
  useEffect(() => onSignIn(onElsewhere), []);
  return <SignedOutDialog isOpen={isSignedOut} goOn={goOn} />;
}

/** Goes on with the present session, if there is one. */
function useGoOn(): () => Promise<void> {
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
