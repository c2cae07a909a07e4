import { createSignal } from '~/lib/signal.ts';

/** Whether the help on shortcuts is shown. */
export const isHelpOpen = createSignal(false);

export function openShortcutsHelp(): void {
  isHelpOpen.set(true);
}
