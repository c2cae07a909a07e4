'use client';

import { useEffect } from 'react';
import { useSignal } from '~/lib/use-signal.ts';
import { lazyDialog } from '../dialogs/lazy-dialog.tsx';
import { isHelpOpen, openShortcutsHelp } from './shortcuts-store.ts';
import { readShortcutsPreference, useShortcut } from './use-shortcut.ts';

const ShortcutsDialog = lazyDialog('isOpen', () =>
  import('./shortcuts-dialog.tsx').then((module) => module.ShortcutsDialog),
);

/** `?` from anywhere. */
export function ShortcutsHelp() {
  const isOpen = useSignal(isHelpOpen);
  useEffect(readShortcutsPreference, []);
  useShortcut('?', 'Show this help', openShortcutsHelp);
  return <ShortcutsDialog isOpen={isOpen} onClose={() => isHelpOpen.set(false)} />;
}
