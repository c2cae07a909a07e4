'use client';

import { ActionIcon, Burger, Group, Kbd, UnstyledButton } from '@mantine/core';
import { IconKeyboard, IconSearch } from '@tabler/icons-react';
import { openPalette } from './palette-store.ts';
import { openShortcutsHelp } from '../shortcuts/shortcuts-store.ts';
import { LiveIndicator } from './live-indicator.tsx';
import { AccountMenu } from '~/features/access/account/account-menu.tsx';
import { SchemeMenu } from './scheme-menu.tsx';
import classes from './shell.module.css';

export function Header({ onOpenNav }: { readonly onOpenNav: () => void }) {
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
        <AccountMenu />
      </Group>
    </header>
  );
}
