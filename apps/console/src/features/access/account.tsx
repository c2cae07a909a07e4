import { ActionIcon, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconLogout, IconLogout2, IconPassword, IconUserCircle } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { useEffect, useEffectEvent } from 'react';
import type { SessionView } from '@leasehold/api/contract';
import { api, setCsrfToken } from '~/lib/api/api.ts';
import { onSignIn, ROLE_LABELS, ROLE_TEXTS, signOut } from '~/lib/auth.ts';
import { signedOut, useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { lazyDialog } from '~/ui/lazy.tsx';
import { LazyMenu } from '~/ui/menus.tsx';

const ChangePasswordDialog = lazyDialog('isOpen', () =>
  import('./account-dialogs.tsx').then((module) => module.ChangePasswordDialog),
);
const SignOutEverywhereDialog = lazyDialog('isOpen', () =>
  import('./account-dialogs.tsx').then((module) => module.SignOutEverywhereDialog),
);

/** Who is signed in, what they may do, and the ways to sign out. */
export function AccountMenu() {
  const { actor, role, person } = useSession();
  const [isChanging, changing] = useDisclosure(false);
  const [isEnding, ending] = useDisclosure(false);
  return (
    <>
      <LazyMenu
        position="bottom-end"
        widthPx={290}
        button={(props) => (
          <ActionIcon {...props} size="md" aria-label={`Account of ${actor}`}>
            <IconUserCircle size={18} />
          </ActionIcon>
        )}
      >
        {(menu) => (
          <>
            <div style={{ padding: '0.4rem 0.75rem 0.5rem' }}>
              <Text size="sm" fw={500} truncate>
                {person?.name ?? actor}
              </Text>
              {person === null || person.name === person.email ? null : (
                <Text size="xs" c="dimmed" truncate>
                  {person.email}
                </Text>
              )}
              <Text size="xs" mt={6} fw={500}>
                {ROLE_LABELS[role]}
              </Text>
              <Text size="xs" c="dimmed">
                {ROLE_TEXTS[role]}
              </Text>
            </div>
            <menu.Divider />
            {person?.signInMethods.includes('password') === true ? (
              <menu.Item leftSection={<IconPassword size={15} />} onClick={changing.open}>
                Change password
              </menu.Item>
            ) : null}
            <menu.Item leftSection={<IconLogout2 size={15} />} onClick={ending.open}>
              Sign out everywhere
            </menu.Item>
            <menu.Item leftSection={<IconLogout size={15} />} onClick={() => void signOut()}>
              Sign out
            </menu.Item>
          </>
        )}
      </LazyMenu>
      <ChangePasswordDialog isOpen={isChanging} onClose={changing.close} />
      <SignOutEverywhereDialog isOpen={isEnding} onClose={ending.close} />
    </>
  );
}

const SignedOutDialog = lazyDialog('isOpen', () =>
  import('./account-dialogs.tsx').then((module) => module.SignedOutDialog),
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
