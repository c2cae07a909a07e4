import { useEffect } from 'react';
import { useSignal } from '~/lib/signal.ts';
import { lazyDialog } from '../dialogs/lazy-dialog.tsx';
import {
  isHelpOpen,
  openShortcutsHelp,
  readShortcutsPreference,
  useShortcut,
} from './use-shortcut.ts';

const ShortcutsDialog = lazyDialog('isOpen', () => import('./shortcuts-dialog.tsx'));

/** `?` from anywhere. */
export function ShortcutsHelp() {
  const isOpen = useSignal(isHelpOpen);
  useEffect(readShortcutsPreference, []);
  useShortcut('?', 'Show this help', openShortcutsHelp);
  return <ShortcutsDialog isOpen={isOpen} onClose={() => isHelpOpen.set(false)} />;
}
