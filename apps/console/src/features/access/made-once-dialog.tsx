import { Modal } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import type { DialogProps } from '~/ui/act-dialog.tsx';

/** A form that makes something secret, and then the only view of what was made. */
export function MadeOnceDialog<Made>({
  isOpen,
  onClose,
  title,
  shown,
  children,
}: DialogProps & {
  readonly title: { readonly before: string; readonly made: (made: Made) => string };
  readonly shown: (made: Made) => ReactNode;
  /** The form; it reports what it made. */
  readonly children: (onMade: (made: Made) => void) => ReactNode;
}) {
  const [made, setMade] = useState<Made>();
  const isSignedOut = useSignal(signedOut);
  useEffect(() => {
    if (!isOpen) return undefined;
    setMade(undefined);
    return pause.hold();
  }, [isOpen]);
  const isShown = made !== undefined;
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      size="lg"
      title={isShown ? title.made(made) : title.before}
      // A slip must not close the only view of a secret.
      closeOnClickOutside={!isShown}
      closeOnEscape={!isShown && !isSignedOut}
      withCloseButton={!isShown}
    >
      {isShown ? shown(made) : children(setMade)}
    </Modal>
  );
}
