import { useEffect } from 'react';
import { useSignal } from '~/lib/signal.ts';
import { lazyDialog } from '../dialogs/lazy-dialog.tsx';
import {
  isHelpOpen,
  openShortcutsHelp,
  readShortcutsPreference,
  useShortcut,
} from './use-shortcut.ts';

const ShortcutsDialog = lazyDialog('isOpen', () =>
  import('./shortcuts-dialog.tsx').then((module) => module.ShortcutsDialog),
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
