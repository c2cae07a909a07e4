'use client';

import type { SessionView } from '@leasehold/api/contract';
import { Anchor, Divider, Modal, Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { useEffect, useEffectEvent, useState } from 'react';
import { ProviderButton } from '~/features/sign-in/provider-button.tsx';
import { onSignIn } from '~/features/sign-in/session-channel.ts';
import { SignInForm } from '~/features/sign-in/sign-in-form.tsx';
import { api, setCsrfToken } from '~/lib/api.ts';
import { readSignInOptions, type SignInOptions } from '~/lib/auth.ts';
import { routes } from '~/lib/routes.ts';
import { useSession } from '~/lib/session.tsx';
import { signedOut } from '~/lib/signed-out.ts';
import { useSignal } from '~/lib/use-signal.ts';

/** Where the identity provider's window ends: it says that it is done, and closes. */
const WINDOW_END = '/sign-in?window=1';

/**
 * A session that has ended in the middle of something: signing in again, over the page as it is, so
 * that what was typed is still there afterwards, and the focus goes back to where it was.
 */
export function SignedOutDialog() {
  const isSignedOut = useSignal(signedOut);
  const goOn = useGoOn();
  const onElsewhere = useEffectEvent(() => void goOn());
  // A sign-in in another window or tab of this browser: its session is this page's too.
  useEffect(() => onSignIn(onElsewhere), []);
  return (
    <Modal
      opened={isSignedOut}
      onClose={() => undefined}
      withCloseButton={false}
      title="Your session has ended"
      zIndex={1_000}
      closeOnEscape={false}
      closeOnClickOutside={false}
    >
      {isSignedOut ? <SignInAgain goOn={goOn} /> : null}
    </Modal>
  );
}

function SignInAgain({ goOn }: { readonly goOn: () => Promise<void> }) {
  const { person } = useSession();
  const options = useSignInOptions();
  const lookAgain = useEffectEvent(() => void goOn());
  useEffect(() => {
    window.addEventListener('focus', lookAgain);
    return () => {
      window.removeEventListener('focus', lookAgain);
    };
  }, []);
  const { pathname, search } = window.location;
  return (
    <Stack gap="sm">
      <Text size="sm">
        Sign in again to go on where you are. Nothing that you have typed is lost.
      </Text>
      {options?.oidc == null ? null : (
        <>
          <ProviderButton name={options.oidc.name} goesTo={WINDOW_END} isInWindow />
          <Divider label="or with a password" />
        </>
      )}
      <SignInForm {...(person === null ? {} : { email: person.email })} onSignedIn={goOn} />
      <Text size="xs" c="dimmed">
        You are somebody else?{' '}
        <Anchor size="xs" href={routes.signIn(`${pathname}${search}`)}>
          Leave this page and sign in anew
        </Anchor>
      </Text>
    </Stack>
  );
}

/** Goes on with the session that there is now, if there is one. */
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

function useSignInOptions(): SignInOptions | undefined {
  const [options, setOptions] = useState<SignInOptions>();
  useEffect(() => {
    let isGone = false;
    readSignInOptions().then(
      (found) => {
        if (!isGone) setOptions(found);
      },
      // Then the password alone is offered.
      () => undefined,
    );
    return () => {
      isGone = true;
    };
  }, []);
  return options;
}
