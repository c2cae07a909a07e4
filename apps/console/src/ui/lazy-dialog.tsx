import dynamic from 'next/dynamic';
import { type ComponentType, useEffect, useState } from 'react';

/**
 * A dialog whose code is loaded when it is opened for the first time: a page does not wait for what most
 * visits never open. `opener` is the property that opens it: by `true`, or by any value but null.
 */
export function lazyDialog<Opener extends string, Props extends Readonly<Record<Opener, unknown>>>(
  opener: Opener,
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> {
  const Loaded = dynamic<Props>(async () => openedOnceThere(opener, await load()), { ssr: false });
  return function LazyDialog(props: Props) {
    const isOpen = isOpenBy(props[opener]);
    const [wasOpen, setWasOpen] = useState(isOpen);
    if (isOpen && !wasOpen) setWasOpen(true);
    // A dialog that was open stays mounted, so that it can close gently and return the focus.
    return wasOpen ? <Loaded {...props} /> : null;
  };
}

function isOpenBy(value: unknown): boolean {
  return value !== false && value !== null && value !== undefined;
}

/** Mounts a dialog closed, and then opens it: only then does it know where the focus came from. */
function openedOnceThere<Opener extends string, Props extends Readonly<Record<Opener, unknown>>>(
  opener: Opener,
  Dialog: ComponentType<Props>,
): ComponentType<Props> {
  return function OpenedOnceThere(props: Props) {
    const [isThere, setThere] = useState(false);
    useEffect(() => setThere(true), []);
    const closed = typeof props[opener] === 'boolean' ? false : null;
    return <Dialog {...props} {...(isThere ? {} : { [opener]: closed })} />;
  };
}
