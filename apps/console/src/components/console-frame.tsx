'use client';

import type { SessionView } from '@leasehold/api/contract';
import type { ReactNode } from 'react';
import { RevokeBanners } from '~/features/grants/revoke-banners.tsx';
import { MoveBanners } from '~/features/reservations/move-banners.tsx';
import { LiveProvider } from '~/lib/live/live-provider.tsx';
import { SessionProvider } from '~/lib/session.tsx';
import { Palette } from './palette/palette.tsx';
import { Shell } from './shell/shell.tsx';
import { ShortcutsHelp } from './shortcuts/shortcuts-help.tsx';
import { SignedOut } from './signed-out/signed-out.tsx';

/** What all pages of somebody who is signed in have in common. */
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
        <Shell>
          <RevokeBanners />
          <MoveBanners />
          {children}
        </Shell>
        <Palette />
        <ShortcutsHelp />
        <SignedOut />
      </LiveProvider>
    </SessionProvider>
  );
}
