import { useEffect, useRef } from 'react';
import { createSignal } from '~/lib/signal.ts';

interface Shortcut {
  readonly key: string;
  readonly help: string;
}

const STORED = 'leasehold.shortcuts';

/** The shortcuts that work on this page, for the help. */
export const shortcuts = createSignal<readonly Shortcut[]>([]);

/** The person's own setting; kept in this browser. */
export const areShortcutsOn = createSignal(true);

/** Reads the setting once a page is in a browser. */
export function readShortcutsPreference(): void {
  areShortcutsOn.set(window.localStorage.getItem(STORED) !== 'off');
}

export function setShortcutsOn(isOn: boolean): void {
  areShortcutsOn.set(isOn);
  window.localStorage.setItem(STORED, isOn ? 'on' : 'off');
}

/** How long the first key of two is remembered. */
const PREFIX_MS = 1_500;
/** The first key of all that have two. */
const PREFIX = 'g';

/** What was pressed just now: a key, or the prefix and a key, as `g k`. */
let pressed = '';
let prefixAtMs: number | null = null;

/** Runs before the shortcuts themselves, so that `k` of `g k` is not the shortcut `k`. */
function notePressed({ key, timeStamp }: KeyboardEvent): void {
  const isSecond = prefixAtMs !== null && timeStamp - prefixAtMs < PREFIX_MS;
  pressed = isSecond ? `${PREFIX} ${key}` : key;
  prefixAtMs = pressed === PREFIX ? timeStamp : null;
}

/**
 * A key, or `g` and a key after it, that does one thing on this page: not while typing, not under a dialog, not when
 * turned off.
 */
export function useShortcut(key: string, help: string, act: () => void): void {
  const latest = useRef(act);
  useEffect(() => {
    latest.current = act;
  });
  useEffect(() => {
    const entry = { key, help };
    shortcuts.set([...shortcuts.get(), entry]);
    document.addEventListener('keydown', notePressed, { capture: true });
    const onKey = (event: KeyboardEvent): void => {
      if (pressed !== key || event.ctrlKey || event.metaKey || event.altKey) return;
      if (!areShortcutsOn.get() || isTyping(event.target) || isDialogOpen()) return;
      event.preventDefault();
      latest.current();
    };
    document.addEventListener('keydown', onKey);
    return () => {
      document.removeEventListener('keydown', onKey);
      shortcuts.set(shortcuts.get().filter((other) => other !== entry));
    };
  }, [key, help]);
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    ['TEXTAREA', 'SELECT'].includes(target.tagName) ||
    (target instanceof HTMLInputElement && !['checkbox', 'radio', 'button'].includes(target.type))
  );
}

function isDialogOpen(): boolean {
  return document.querySelector('[role="dialog"]') !== null;
}

/** Whether the help on shortcuts is shown. */
export const isHelpOpen = createSignal(false);

export function openShortcutsHelp(): void {
  isHelpOpen.set(true);
}
