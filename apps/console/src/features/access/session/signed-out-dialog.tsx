import { Anchor, Divider, Modal, Stack, Text } from '@mantine/core';
import { useEffect, useEffectEvent, useState } from 'react';
import { readSignInOptions, type SignInOptions } from '~/lib/auth.ts';
import { routes } from '~/lib/routes.ts';
import { useSession } from '~/lib/session.tsx';
import { ProviderButton } from '../sign-in/provider-button.tsx';
import { SignInForm } from '../sign-in/sign-in-form.tsx';

/** Where the identity provider's window ends: the page there reports the sign-in, and closes. */
const WINDOW_END = '/sign-in?window=1';

/**
 * The sign-in after a session has ended in the middle of something. It opens over the page, so that
 * what was typed is kept, and the focus goes back to where it was.
 */
export function SignedOutDialog({
  isOpen,
  goOn,
}: {
  readonly isOpen: boolean;
  readonly goOn: () => Promise<void>;
}) {
  return (
    <Modal
      opened={isOpen}
      onClose={() => undefined}
      withCloseButton={false}
      title="Your session has ended"
      zIndex={1_000}
      closeOnEscape={false}
      closeOnClickOutside={false}
      onExitTransitionEnd={focusWhatIsBelow}
      data-signed-out
    >
      {isOpen ? <SignInAgain goOn={goOn} /> : null}
    </Modal>
  );
}

/**
 * Moves the focus back into the dialog below. The focus returns there by itself, unless it was on a
 * button that was busy, and so could not keep it.
 */
function focusWhatIsBelow(): void {
  if (document.activeElement !== document.body) return;
  const below = [...document.querySelectorAll('[role="dialog"]')].filter(
    (dialog) => dialog.closest('[data-signed-out]') === null,
  );
  const dialog = below.at(-1);
  for (const wanted of ['[data-autofocus]', 'input, textarea', 'button']) {
    const found = dialog?.querySelector<HTMLElement>(wanted);
    if (found == null) continue;
    found.focus();
    return;
  }
}

function SignInAgain({ goOn }: { readonly goOn: () => Promise<void> }) {
  const { person } = useSession();
  const options = useSignInOptions();
  const lookAgain = useEffectEvent(() => void goOn());
  useEffect(() => {
    window.addEventListener('focus', lookAgain);
    return () => window.removeEventListener('focus', lookAgain);
  }, []);
  const { pathname, search } = window.location;
  return (
    <Stack gap="sm">
      <Text size="sm">Sign in again to continue. What you have typed is kept.</Text>
      {options?.oidc == null ? null : (
        <>
          <ProviderButton name={options.oidc.name} goesTo={WINDOW_END} isInWindow />
          <Divider label="or with a password" />
        </>
      )}
      <SignInForm {...(person === null ? {} : { email: person.email })} onSignedIn={goOn} />
      <Text size="xs" c="dimmed">
        Not you?{' '}
        <Anchor size="xs" href={routes.signIn(`${pathname}${search}`)}>
          Leave this page and sign in again
        </Anchor>
      </Text>
    </Stack>
  );
}

function useSignInOptions(): SignInOptions | undefined {
  const [options, setOptions] = useState<SignInOptions>();
  useEffect(() => {
    let isGone = false;
    readSignInOptions().then(
      (found) => {
        if (!isGone) setOptions(found);
      },
      // Then only the password is offered.
      () => undefined,
    );
    return () => {
      isGone = true;
    };
  }, []);
  return options;
}
