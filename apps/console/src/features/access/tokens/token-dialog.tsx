'use client';

import type { Outputs } from '~/lib/api/api.ts';
import { MadeOnceDialog } from '../made-once-dialog.tsx';
import { NewToken } from './new-token.tsx';
import { TokenForm } from './token-form.tsx';
import type { DialogProps } from '~/ui/dialogs/act-dialog.tsx';

const TITLE = {
  before: 'New API token',
  made: ({ name }: Outputs['tokens']['create']) => `Token ${name}`,
};

/** Makes an API token, and shows its secret once. */
export function TokenDialog({ isOpen, onClose }: DialogProps) {
  return (
    <MadeOnceDialog
      isOpen={isOpen}
      onClose={onClose}
      title={TITLE}
      shown={(token) => <NewToken token={token} onClose={onClose} />}
    >
      {(onMade) => <TokenForm onMade={onMade} onClose={onClose} />}
    </MadeOnceDialog>
  );
}
