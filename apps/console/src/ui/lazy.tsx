import dynamic from 'next/dynamic';
import {
  type ComponentType,
  type KeyboardEvent,
  type Ref,
  useEffect,
  useId,
  useImperativeHandle,
  useRef,
  useState,
} from 'react';

/** A button, and what it opens, whose code need not be there yet. */
export type Opener = ReturnType<typeof useOpener>;
/** What a button needs to open something below it. */
export type OpenerProps = Opener['props'];

/**
 * The state of a button that opens something below it. Its content is wanted as soon as the pointer
 * or the focus is at the button, so that it is usually there when the button is used.
 */
export function useOpener(what: 'menu' | 'dialog') {
  const id = useId();
  const ref = useRef<HTMLButtonElement>(null);
  const [isWanted, setWanted] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const want = (): void => setWanted(true);
  return {
    /** The pointer or the focus was at the button: the content must be in the document, closed. */
    isWanted,
    isOpen,
    setOpen,
    props: {
      ref,
      id,
      'aria-haspopup': what,
      'aria-expanded': isOpen,
      // The id that Mantine gives to what a target of this id opens.
      'aria-controls': isOpen ? `${id}-dropdown` : undefined,
      onPointerEnter: want,
      onFocus: want,
      onClick() {
        want();
        setOpen(!isOpen);
      },
      onKeyDown(event: KeyboardEvent) {
        if (what !== 'menu' || event.key !== 'ArrowDown') return;
        // Otherwise the page would scroll.
        event.preventDefault();
        want();
        setOpen(true);
      },
    },
  };
}

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
