import { Button, type ButtonProps } from '@mantine/core';
import dynamic from 'next/dynamic';
import {
  cloneElement,
  type FocusEvent,
  type HTMLAttributes,
  type KeyboardEvent,
  type PointerEvent,
  type ReactElement,
  type ReactNode,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react';

const LoadedTip = dynamic(() => import('./floating.tsx').then((module) => module.LoadedTip), {
  ssr: false,
});

/** How long a pointer must rest before the tip opens. */
const OPEN_DELAY_MS = 250;

type TipChild = ReactElement<HTMLAttributes<HTMLElement>>;

/**
 * Says more about its one child, which must be an element or pass handlers on to one: when the
 * pointer rests on the child, and at once when the keyboard focuses it. Escape closes it. Its code is
 * loaded when a tip is first needed; the child is never mounted again for it.
 */
export function Tip({
  label,
  children,
  isDescribed = false,
}: {
  readonly label: ReactNode;
  readonly children: TipChild;
  /** Whether the child's own description says the same. */
  readonly isDescribed?: boolean;
}) {
  const id = useId();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [target, setTarget] = useState<HTMLElement | null>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => () => clearTimeout(timer.current), []);

  const openAfter = (element: HTMLElement, delayMs: number): void => {
    clearTimeout(timer.current);
    setTarget(element);
    timer.current = setTimeout(() => setOpen(true), delayMs);
  };
  const close = (): void => {
    clearTimeout(timer.current);
    setOpen(false);
  };
  const own = children.props;
  return (
    <>
      {cloneElement(children, {
        'aria-describedby': joinIds(
          own['aria-describedby'],
          isOpen && !isDescribed ? id : undefined,
        ),
        onPointerEnter: (event: PointerEvent<HTMLElement>) => {
          own.onPointerEnter?.(event);
          if (event.pointerType !== 'touch') openAfter(event.currentTarget, OPEN_DELAY_MS);
        },
        onPointerLeave: (event: PointerEvent<HTMLElement>) => {
          own.onPointerLeave?.(event);
          close();
        },
        onFocus: (event: FocusEvent<HTMLElement>) => {
          own.onFocus?.(event);
          if (event.target.matches(':focus-visible')) openAfter(event.currentTarget, 0);
        },
        onBlur: (event: FocusEvent<HTMLElement>) => {
          own.onBlur?.(event);
          close();
        },
        onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
          own.onKeyDown?.(event);
          if (event.key === 'Escape') close();
        },
      })}
      {target === null ? null : <LoadedTip id={id} target={target} isOpen={isOpen} label={label} />}
    </>
  );
}

function joinIds(...ids: readonly (string | undefined)[]): string | undefined {
  const all = ids.filter((id) => id !== undefined).join(' ');
  return all === '' ? undefined : all;
}

interface GuardedButtonProps extends ButtonProps {
  /** Why the button is disabled, also for screen readers. Undefined: it is enabled. */
  readonly whyNot: string | undefined;
  readonly onClick: () => void;
  readonly children: ReactNode;
}

/** A button that says why it is disabled. It stays reachable, so that the reason can be read. */
export function GuardedButton({ whyNot, onClick, children, ...rest }: GuardedButtonProps) {
  const reasonId = useId();
  if (whyNot === undefined) {
    return (
      <Button {...rest} onClick={onClick}>
        {children}
      </Button>
    );
  }
  return (
    <>
      <Tip label={whyNot} isDescribed>
        <Button
          {...rest}
          data-disabled
          aria-disabled
          aria-describedby={reasonId}
          onClick={(event) => event.preventDefault()}
        >
          {children}
        </Button>
      </Tip>
      {/* Beside the button: what is in it would be a part of its name. */}
      <span id={reasonId} hidden>
        {whyNot}
      </span>
    </>
  );
}
