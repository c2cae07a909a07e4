import { useMantineColorScheme } from '@mantine/core';
import {
  IconBook2,
  IconKeyboard,
  IconLogout,
  IconMoon,
  IconPlayerPause,
  IconPlayerPlay,
  IconRefresh,
  IconSun,
} from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { signOut } from '~/lib/auth.ts';
import { pause } from '~/lib/live/live-state.ts';
import { routes } from '~/lib/routes.ts';
import { useSignal } from '~/lib/signal.ts';
import { NAV_GROUPS } from '~/ui/shell/nav.tsx';
import { openShortcutsHelp } from '~/ui/use-shortcut.ts';
import type { Entry } from './entries.ts';

type ConsoleEntries = Readonly<Record<'pages' | 'acts', readonly Entry[]>>;

/** What the palette can do beside finding things: go to a page, and change the console itself. */
export function useConsoleEntries(): ConsoleEntries {
  const router = useRouter();
  const queryClient = useQueryClient();
  const { setColorScheme } = useMantineColorScheme();
  const isPaused = useSignal(pause.isPausedByHand);
  const act = (label: string, icon: Entry['icon'], run: () => void): Entry => ({
    ...{ id: `console ${label}`, label, icon, run },
  });
  return {
    pages: NAV_GROUPS.flatMap(({ items }) =>
      items.map(({ label, href, icon }) => ({
        ...act(label, icon, () => router.push(href)),
        kind: 'Page',
      })),
    ),
    acts: [
      act(
        isPaused ? 'Resume live changes' : 'Pause live changes',
        isPaused ? IconPlayerPlay : IconPlayerPause,
        () => pause.isPausedByHand.set(!isPaused),
      ),
      act('Refresh this page', IconRefresh, () => void queryClient.invalidateQueries()),
      act('Light colours', IconSun, () => setColorScheme('light')),
      act('Dark colours', IconMoon, () => setColorScheme('dark')),
      act('Documentation', IconBook2, () => window.location.assign(routes.documentation)),
      act('Keyboard shortcuts', IconKeyboard, openShortcutsHelp),
      act('Sign out', IconLogout, () => void signOut()),
    ],
  };
}
