'use client';

import dynamic from 'next/dynamic';
import { useEffect, useState, type ComponentType } from 'react';

/**
 * A dialog whose code is loaded when it is opened for the first time: a page does not wait for what
 * most visits never open.
 */
export function lazyDialog<Props extends { readonly isOpen: boolean }>(
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> {
  const Loaded = dynamic<Props>(async () => openedOnceThere(await load()), { ssr: false });
  return function LazyDialog(props: Props) {
    const [wasOpen, setWasOpen] = useState(props.isOpen);
    if (props.isOpen && !wasOpen) setWasOpen(true);
    // What has been open stays, so that it can close gently and give the focus back.
    return wasOpen ? <Loaded {...props} /> : null;
  };
}

/** Opens a dialog after it was there closed: only then does it know where the focus came from. */
function openedOnceThere<Props extends { readonly isOpen: boolean }>(
  Dialog: ComponentType<Props>,
): ComponentType<Props> {
  return function OpenedOnceThere(props: Props) {
    const [isThere, setThere] = useState(false);
    useEffect(() => {
      setThere(true);
    }, []);
    return <Dialog {...props} isOpen={props.isOpen && isThere} />;
  };
}
