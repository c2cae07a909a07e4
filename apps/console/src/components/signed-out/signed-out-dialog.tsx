'use client';

import { Modal, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { SignInForm } from '~/features/sign-in/sign-in-form.tsx';
import { useSession } from '~/lib/session.tsx';
import { signedOut } from '~/lib/signed-out.ts';
import { useSignal } from '~/lib/use-signal.ts';

/**
 * A session that has ended in the middle of something: signing in again, over the page as it is, so
 * that what was typed is still there afterwards.
 */
export function SignedOutDialog() {
  const isSignedOut = useSignal(signedOut);
  const { person } = useSession();
  const queryClient = useQueryClient();
  const router = useRouter();
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
      <Text size="sm" mb="sm">
        Sign in again to go on where you are. Nothing that you have typed is lost.
      </Text>
      <SignInForm
        {...(person === null ? {} : { email: person.email })}
        onSignedIn={() => {
          signedOut.clear();
          // The new session has a token of its own for changes; the page reads it anew.
          router.refresh();
          void queryClient.invalidateQueries();
        }}
      />
    </Modal>
  );
}
