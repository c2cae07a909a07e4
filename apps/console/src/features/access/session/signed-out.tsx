'use client';

import { useEffect, useEffectEvent } from 'react';
import { onSignIn } from './session-channel.ts';
import { signedOut } from '~/lib/session/signed-out.ts';
import { useSignal } from '~/lib/use-signal.ts';
import { lazyDialog } from '~/ui/dialogs/lazy-dialog.tsx';
import { useGoOn } from './use-go-on.ts';

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
