'use client';

import { Modal } from '@mantine/core';
import { useEffect, useState } from 'react';
import type { Outputs } from '~/lib/api/api.ts';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut } from '~/lib/session/signed-out.ts';
import { useSignal } from '~/lib/use-signal.ts';
import { NewToken } from './new-token.tsx';
import { TokenForm } from './token-form.tsx';

/** Makes an API token, and shows its secret once. */
export function TokenDialog({
  isOpen,
  onClose,
}: {
  readonly isOpen: boolean;
  readonly onClose: () => void;
}) {
  const [made, setMade] = useState<Outputs['tokens']['create']>();
  const isSignedOut = useSignal(signedOut);
  useEffect(() => {
    if (!isOpen) return undefined;
    setMade(undefined);
    return pause.hold();
  }, [isOpen]);
  const isSecretShown = made !== undefined;
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      size="lg"
      title={isSecretShown ? `Token ${made.name}` : 'New API token'}
      // A secret that is shown once is not closed by a slip.
      closeOnClickOutside={!isSecretShown}
      closeOnEscape={!isSecretShown && !isSignedOut}
      withCloseButton={!isSecretShown}
    >
      {isSecretShown ? (
        <NewToken token={made} onClose={onClose} />
      ) : (
        <TokenForm onMade={setMade} onClose={onClose} />
      )}
    </Modal>
  );
}
