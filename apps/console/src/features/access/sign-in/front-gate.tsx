'use client';

import { useEffect, useState } from 'react';
import { SignedInElsewhere } from '../session/signed-in-elsewhere.tsx';
import { hasSession, readSignInOptions, type SignInOptions } from '~/lib/auth.ts';
import { FrontDoor } from './front-door.tsx';
import { safePath } from './safe-path.ts';
import { SignInPage } from './sign-in-page.tsx';
import { providerErrorText } from './sign-in-texts.ts';

const RETRY_MS = 3_000;

/** What the page knows of its visitor. Options are null when no controller answers. */
interface Known {
  readonly isSignedIn: boolean;
  readonly options: SignInOptions | null;
}

/**
 * The sign-in page. The page itself is the same for everybody, so that the server makes nothing for strangers: the
 * browser reads the address, and asks how one may sign in here. Visitors who are signed in already go on, unless
 * there is a one-time link or an error to show.
 */
export function FrontGate() {
  const [params, setParams] = useState<URLSearchParams>();
  const [known, setKnown] = useState<Known>();
  const [tryCount, setTryCount] = useState(0);
  useEffect(() => setParams(new URLSearchParams(window.location.search)), []);
  useEffect(() => {
    let isGone = false;
    void Promise.all([hasSession(), readSignInOptions().catch(() => null)]).then(
      ([isSignedIn, options]) => {
        if (!isGone) setKnown({ isSignedIn, options });
      },
    );
    return () => {
      isGone = true;
    };
  }, [tryCount]);
  const isSilent = known?.options === null;
  useEffect(() => {
    if (!isSilent) return undefined;
    const timer = setInterval(() => setTryCount((count) => count + 1), RETRY_MS);
    return () => clearInterval(timer);
  }, [isSilent]);

  /** A parameter of the address; an empty one counts as missing. */
  const one = (name: string): string | undefined => {
    const value = params?.get(name) ?? '';
    return value === '' ? undefined : value;
  };
  const next = safePath(one('next'));
  const invitation = one('invitation');
  const providerError = providerErrorText(one('error'));
  const goesOn =
    known?.isSignedIn === true && invitation === undefined && providerError === undefined;
  const isWindow = one('window') === '1';
  const leaves = goesOn && !isWindow;
  useEffect(() => {
    if (leaves) window.location.replace(next);
  }, [leaves, next]);

  if (params === undefined || known === undefined || leaves) return <FrontDoor>{null}</FrontDoor>;
  if (goesOn) return <SignedInElsewhere />;
  return (
    <SignInPage
      options={known.options}
      next={next}
      invitation={invitation}
      isReset={one('reset') === '1'}
      providerError={providerError}
      tryAgain={() => setTryCount((count) => count + 1)}
    />
  );
}
