import { Button, type ButtonProps } from '@mantine/core';
import { Tip } from './tip.tsx';
import { useId, type ReactNode } from 'react';

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
