'use client';

import { useHotkeys } from '@mantine/hooks';
import dynamic from 'next/dynamic';
import type { ReactNode } from 'react';
import type { SessionView } from '@leasehold/api/contract';
import { AccountMenu, SignedOut } from '~/features/access/account.tsx';
import { followedMoves } from '~/features/reservations/move-progress.ts';
import { LiveProvider } from '~/lib/live/live-provider.tsx';
import { SessionProvider } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { followedRevokes, useFollowed } from '~/resources/actions/revoke-progress.ts';
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
