'use client';

import { useEffect, useImperativeHandle, useState, type Ref } from 'react';
import type { Opener } from './use-opener.ts';

/**
 * Stands where Mantine wants the button that something hangs below, and names one that was there
 * before: that button is not mounted again, and keeps the focus.
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
 * Whether the thing is to be open. Not as it comes: only what was closed before knows where the focus
 * came from, to return it.
 */
export function useOpenedOnceThere({ isOpen }: Opener): boolean {
  const [isThere, setThere] = useState(false);
  useEffect(() => {
    setThere(true);
  }, []);
  return isOpen && isThere;
}
