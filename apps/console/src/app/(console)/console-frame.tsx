'use client';

import type { SessionView } from '@leasehold/api/contract';
import type { ReactNode } from 'react';
import { AccountMenu } from '~/features/access/account/account-menu.tsx';
import { RevokeBanners } from '~/resources/actions/revoke/revoke-banners.tsx';
import { MoveBanners } from '~/features/reservations/move/move-banners.tsx';
import { LiveProvider } from '~/lib/live/live-provider.tsx';
import { SessionProvider } from '~/lib/session/session.tsx';
import { Palette } from '~/resources/palette/palette.tsx';
import { Foot } from '~/ui/states/foot.tsx';
import { Shell } from '~/ui/shell/shell.tsx';
import { ShortcutsHelp } from '~/ui/shortcuts/shortcuts-help.tsx';
import { SignedOut } from '~/features/access/session/signed-out.tsx';

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
