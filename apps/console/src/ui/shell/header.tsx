import { ActionIcon, Burger, Group, Kbd, UnstyledButton } from '@mantine/core';
import { IconKeyboard, IconSearch } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { openPalette } from './palette-store.ts';
import { openShortcutsHelp } from '../shortcuts/use-shortcut.ts';
import { LiveIndicator } from './live-indicator.tsx';
import { SchemeMenu } from './scheme-menu.tsx';
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
