import {
  ActionIcon,
  Burger,
  Group,
  Kbd,
  UnstyledButton,
  useMantineColorScheme,
} from '@mantine/core';
import {
  IconKeyboard,
  IconSearch,
  IconCheck,
  IconDeviceDesktop,
  IconMoon,
  IconSun,
} from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { openPalette } from './palette-store.ts';
import { openShortcutsHelp } from '../shortcuts/use-shortcut.ts';
import { LiveIndicator } from './live-indicator.tsx';
import { LazyMenu } from '../menus/lazy-menu.tsx';
import classes from './shell.module.css';

export function Header({
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
