'use client';

import type { SessionView } from '@leasehold/api/contract';
import type { ReactNode } from 'react';
import { AccountMenu } from '~/features/access/account/account-menu.tsx';
import { SignedOut } from '~/features/access/session/signed-out.tsx';
import { MoveBanners } from '~/features/reservations/move/move-banners.tsx';
import { LiveProvider } from '~/lib/live/live-provider.tsx';
import { SessionProvider } from '~/lib/session.tsx';
import { RevokeBanners } from '~/resources/actions/revoke/revoke-banners.tsx';
import { Palette } from '~/resources/palette/palette.tsx';
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
