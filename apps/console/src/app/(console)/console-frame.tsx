'use client';

import type { SessionView } from '@leasehold/api/contract';
import { ActionIcon, Text } from '@mantine/core';
import { useDisclosure, useHotkeys } from '@mantine/hooks';
import { IconLogout, IconLogout2, IconPassword, IconUserCircle } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import dynamic from 'next/dynamic';
import { useRouter } from 'next/navigation';
import { type ReactNode, useEffect, useEffectEvent } from 'react';
import { followedMoves } from '~/features/reservations/move-progress.ts';
import { api, isCsrfToken, setCsrfToken } from '~/lib/api/api.ts';
import { announceSession, onSignIn, ROLE_LABELS, ROLE_TEXTS, signOut } from '~/lib/auth.ts';
import { LiveProvider } from '~/lib/live/live-provider.tsx';
import { SessionProvider, signedOut, useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { followedRevokes, useFollowed } from '~/resources/actions/revoke-progress.ts';
import { lazyDialog } from '~/ui/lazy.tsx';
import { LazyMenu } from '~/ui/menus.tsx';
import { openPalette, paletteRequests } from '~/ui/shell/palette-store.ts';
import { Shell, ShortcutsHelp } from '~/ui/shell/shell.tsx';
import { Foot } from '~/ui/states.tsx';

/** What all pages share once a person is signed in. */
export function ConsoleFrame({
  session,
  children,
}: {
  readonly session: SessionView;
  readonly children: ReactNode;
}) {
  return (
    <SessionProvider session={session}>
      <LiveProvider>
        <Shell account={<AccountMenu />}>
          {children}
          <Foot>
            <RevokeBanners />
            <MoveBanners />
          </Foot>
        </Shell>
        <Palette />
        <ShortcutsHelp />
        <SignedOut />
      </LiveProvider>
    </SessionProvider>
  );
}

const RevokeBannerList = dynamic(
  () => import('~/resources/actions/revoke-banner.tsx').then((module) => module.RevokeBannerList),
  { ssr: false },
);

/** The revokes of this tab, on every page, each until its end was seen. Loaded only if there are any. */
function RevokeBanners() {
  const revokes = useFollowed(followedRevokes);
  return revokes.length === 0 ? null : <RevokeBannerList revokes={revokes} />;
}

const MoveBannerList = dynamic(
  () => import('~/features/reservations/move-banner.tsx').then((module) => module.MoveBannerList),
  { ssr: false },
);

/** The moves of this tab, on every page, each until its end was seen. Loaded only if there are any. */
function MoveBanners() {
  const moves = useFollowed(followedMoves);
  return moves.length === 0 ? null : <MoveBannerList moves={moves} />;
}

const PaletteDialog = dynamic(
  () => import('~/resources/palette/palette-dialog.tsx').then((module) => module.PaletteDialog),
  { ssr: false },
);

/** Ctrl K from anywhere, also while typing. */
function Palette() {
  const requests = useSignal(paletteRequests);
  useHotkeys([['mod+K', openPalette]], []);
  return requests === 0 ? null : <PaletteDialog requests={requests} />;
}

const ChangePasswordDialog = lazyDialog('isOpen', () =>
  import('../../features/access/account-dialogs.tsx').then((module) => module.ChangePasswordDialog),
);
const SignOutEverywhereDialog = lazyDialog('isOpen', () =>
  import('../../features/access/account-dialogs.tsx').then(
    (module) => module.SignOutEverywhereDialog,
  ),
);

/** Who is signed in, what they may do, and the ways to sign out. */
function AccountMenu() {
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
  import('../../features/access/account-dialogs.tsx').then((module) => module.SignedOutDialog),
);

/** Asks a person who has been signed out in the middle of something to sign in again, over the page. */
function SignedOut() {
  const isSignedOut = useSignal(signedOut);
  const goOn = useGoOn();
  const { csrfToken } = useSession();
  // The identity provider leads back to this page: nothing else tells the other tabs of that sign-in.
  useEffect(() => {
    if (csrfToken !== null) announceSession(csrfToken);
  }, [csrfToken]);
  const onElsewhere = useEffectEvent((announced: string | null) => {
    const isKnown = announced !== null && isCsrfToken(announced);
    if (!isKnown || isSignedOut) void goOn();
  });
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
