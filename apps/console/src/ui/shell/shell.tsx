import {
  ActionIcon,
  Burger,
  Group,
  Kbd,
  UnstyledButton,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import {
  IconCheck,
  IconDeviceDesktop,
  IconKeyboard,
  IconMoon,
  IconPlayerPause,
  IconPlayerPlay,
  IconSearch,
  IconSun,
} from '@tabler/icons-react';
import { usePathname } from 'next/navigation';
import { type ReactNode, useEffect } from 'react';
import { duration } from '~/lib/format.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { missed, pause, stream } from '~/lib/live/live-state.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useSignal } from '~/lib/signal.ts';
import { lazyDialog } from '~/ui/lazy.tsx';
import { LazyMenu } from '~/ui/menus.tsx';
import { FootPlace } from '~/ui/states.tsx';
import { Tip } from '~/ui/tip.tsx';
import {
  isHelpOpen,
  openShortcutsHelp,
  readShortcutsPreference,
  useShortcut,
} from '~/ui/use-shortcut.ts';
import { Nav } from './nav.tsx';
import { openPalette } from './palette-store.ts';
import classes from './shell.module.css';

const NavDrawer = lazyDialog('isOpen', () =>
  import('./shell-dialogs.tsx').then((module) => module.NavDrawer),
);

/** The frame of every page: the links to all pages on the left, what concerns all of them above. */
export function Shell({
  account,
  children,
}: {
  readonly account: ReactNode;
  readonly children: ReactNode;
}) {
  const [isNavOpen, { open, close }] = useDisclosure(false);
  const pathname = usePathname();
  useEffect(close, [pathname, close]);
  return (
    <div className={classes['shell']}>
      <a href="#content" className="skip-link">
        Skip to the content
      </a>
      <div className={classes['side']}>
        <Nav />
      </div>
      <NavDrawer isOpen={isNavOpen} onClose={close} />
      <div className={classes['main']}>
        <Header account={account} onOpenNav={open} />
        <main id="content" className={classes['content']} tabIndex={-1}>
          {children}
          <FootPlace />
        </main>
      </div>
    </div>
  );
}

function Header({
  account,
  onOpenNav,
}: {
  /** The menu of the person who is signed in. */
  readonly account: ReactNode;
  readonly onOpenNav: () => void;
}) {
  return (
    <header className={classes['header']}>
      <Burger size="sm" hiddenFrom="md" onClick={onOpenNav} aria-label="Open the list of pages" />
      <UnstyledButton className={classes['palette']} onClick={openPalette}>
        <IconSearch size={14} aria-hidden />
        <span>
          Go to a key<span className={classes['more']}>, a page, an action</span>
        </span>
        <Kbd size="xs" className={classes['kbd']}>
          Ctrl K
        </Kbd>
      </UnstyledButton>
      <Group gap={4} ml="auto" wrap="nowrap">
        <LiveIndicator />
        <ActionIcon
          visibleFrom="sm"
          onClick={openShortcutsHelp}
          aria-label="Keyboard shortcuts"
          size="md"
        >
          <IconKeyboard size={17} />
        </ActionIcon>
        <SchemeMenu />
        {account}
      </Group>
    </header>
  );
}

const SCHEMES = [
  { value: 'light', label: 'Light', icon: IconSun },
  { value: 'dark', label: 'Dark', icon: IconMoon },
  { value: 'auto', label: 'As the system', icon: IconDeviceDesktop },
] as const;

/** Light, dark, or as the system is set. */
function SchemeMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <LazyMenu
      position="bottom-end"
      button={(props) => (
        <ActionIcon {...props} size="md" aria-label="Colours">
          <IconSun size={17} />
        </ActionIcon>
      )}
    >
      {(menu) =>
        SCHEMES.map(({ value, label, icon: SchemeIcon }) => (
          <menu.Item
            key={value}
            leftSection={<SchemeIcon size={15} />}
            rightSection={
              colorScheme === value ? <IconCheck size={14} aria-label="chosen" /> : null
            }
            onClick={() => setColorScheme(value)}
          >
            {label}
          </menu.Item>
        ))
      }
    </LazyMenu>
  );
}

const LOOKS = {
  open: { tone: 'good', label: 'Live', text: 'Changes appear as they happen.' },
  connecting: { tone: 'info', label: 'Connecting', text: 'Connecting to the event stream.' },
  lost: {
    tone: 'bad',
    label: 'Not live',
    text: 'The event stream is lost. The console keeps trying, and refreshes pages on a timer meanwhile.',
  },
  paused: { tone: 'warn', label: 'Paused', text: 'Nothing changes until you resume.' },
} as const;

/** By how much this machine's clock is wrong; null if that is not worth mentioning. */
function skewText(): string | null {
  const skewMs = databaseClock.skewMs();
  return skewMs === null ? null : duration(Math.abs(skewMs));
}

/** Whether changes arrive, for the whole console, and the button that pauses them. */
function LiveIndicator() {
  const streamState = useSignal(stream);
  const isPaused = useSignal(pause.isPausedByHand);
  const missedCount = useSignal(missed);
  const skew = useAtDatabaseNow(skewText);
  const { tone, label, text } = LOOKS[isPaused ? 'paused' : streamState];
  return (
    <span className={classes['live']}>
      <Tip
        label={
          skew === null
            ? text
            : `${text} This machine's clock differs from the database's by ${skew}; times here are the database's.`
        }
      >
        <span className={classes['state']} data-tone={tone} role="status" tabIndex={0}>
          <span className={classes['dot']} aria-hidden />
          {label}
          {isPaused && missedCount > 0 ? ` · ${String(missedCount)}` : ''}
        </span>
      </Tip>
      <Tip label={isPaused ? 'Resume' : 'Pause changes and countdowns'}>
        <ActionIcon
          size="md"
          aria-label={isPaused ? 'Resume live changes' : 'Pause live changes'}
          onClick={() => pause.isPausedByHand.set(!isPaused)}
        >
          {isPaused ? <IconPlayerPlay size={16} /> : <IconPlayerPause size={16} />}
        </ActionIcon>
      </Tip>
    </span>
  );
}

const ShortcutsDialog = lazyDialog('isOpen', () =>
  import('./shell-dialogs.tsx').then((module) => module.ShortcutsDialog),
);

/** `?` from anywhere. */
export function ShortcutsHelp() {
  const isOpen = useSignal(isHelpOpen);
  useEffect(readShortcutsPreference, []);
  useEffect(() => {
    document.addEventListener('keydown', confirmDialog);
    return () => document.removeEventListener('keydown', confirmDialog);
  }, []);
  useShortcut('?', 'Show this help', openShortcutsHelp);
  return <ShortcutsDialog isOpen={isOpen} onClose={() => isHelpOpen.set(false)} />;
}

/** `Ctrl Enter` confirms a dialog from any of its fields, as its button does: not before everything is filled in. */
function confirmDialog(event: KeyboardEvent): void {
  if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
  if (!(event.target instanceof Element)) return;
  const form = event.target.closest('[role="dialog"]')?.querySelector('form');
  if (form == null) return;
  event.preventDefault();
  form.querySelector<HTMLButtonElement>('button[type="submit"]:not(:disabled)')?.click();
}
