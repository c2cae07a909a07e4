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
  type Icon,
} from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { routes } from '~/lib/routes.ts';
import { signOut } from '~/lib/session/auth.ts';
import { pause } from '~/lib/live/live-state.ts';
import { useSignal } from '~/lib/signal.ts';
import { NAV_GROUPS } from '~/ui/shell/nav-items.ts';
import { openShortcutsHelp } from '~/ui/shortcuts/use-shortcut.ts';

interface PaletteAct {
  readonly label: string;
  readonly icon: Icon;
  readonly run: () => void;
}

/** What the palette can do beside finding things. */
export function usePaletteActs(): readonly PaletteAct[] {
  const router = useRouter();
  const queryClient = useQueryClient();
  const { setColorScheme } = useMantineColorScheme();
  const isPaused = useSignal(pause.isPausedByHand);
  return [
    ...NAV_GROUPS.flatMap(({ items }) =>
      items.map(({ label, href, icon }) => ({
        label,
        icon,
        run: () => router.push(href),
      })),
    ),
    {
      label: isPaused ? 'Resume live changes' : 'Pause live changes',
      icon: isPaused ? IconPlayerPlay : IconPlayerPause,
      run: () => pause.isPausedByHand.set(!isPaused),
    },
    {
      label: 'Refresh this page',
      icon: IconRefresh,
      run: () => void queryClient.invalidateQueries(),
    },
    {
      label: 'Light colours',
      icon: IconSun,
      run: () => setColorScheme('light'),
    },
    {
      label: 'Dark colours',
      icon: IconMoon,
      run: () => setColorScheme('dark'),
    },
    {
      label: 'Documentation',
      icon: IconBook2,
      run: () => window.location.assign(routes.documentation),
    },
    { label: 'Keyboard shortcuts', icon: IconKeyboard, run: openShortcutsHelp },
    { label: 'Sign out', icon: IconLogout, run: () => void signOut() },
  ];
}
