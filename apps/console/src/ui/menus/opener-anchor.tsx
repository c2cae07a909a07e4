'use client';

import { useEffect, useImperativeHandle, useState, type Ref } from 'react';
import type { Opener } from './use-opener.ts';

/**
 * Stands in for the button that Mantine wants as the target of a menu or popover, and refers to the
 * existing one: that is not mounted again, and keeps the focus.
 */
export function OpenerAnchor({
  opener,
  ref,
}: {
  readonly opener: Opener;
  readonly ref?: Ref<HTMLButtonElement | null>;
}) {
  const button = opener.props.ref;
  useImperativeHandle<HTMLButtonElement | null, HTMLButtonElement | null>(
    ref,
    () => button.current,
    [button],
  );
  return null;
}

/**
 * Whether the menu or popover is open. It is mounted closed first: only then does it know where the
 * focus came from, to return it.
 */
export function useOpenedOnceThere({ isOpen }: Opener): boolean {
  const [isThere, setThere] = useState(false);
  useEffect(() => setThere(true), []);
  return isOpen && isThere;
}
