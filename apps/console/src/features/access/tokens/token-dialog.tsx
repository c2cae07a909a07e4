import type { Role } from '@leasehold/keys-core';
import { Button, Group, Stack } from '@mantine/core';
import { MadeOnceDialog } from '../made-once-dialog.tsx';
import { Example, ShownOnce } from '../shown-once.tsx';
import type { Outputs } from '~/lib/api/api.ts';
import type { DialogProps } from '~/ui/act-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { TokenForm } from './token-form.tsx';

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

/** The secret of a token that was just made. It is in this answer and nowhere else. */
function NewToken({
  token,
  onClose,
}: {
  readonly token: Outputs['tokens']['create'];
  readonly onClose: () => void;
}) {
  return (
    <Stack gap="sm">
      <Notice tone="warn">
        The token is shown only now. Leasehold keeps a hash of it, and nobody can read it again.
      </Notice>
      <ShownOnce label="Token" value={token.secret} />
      <Example {...exampleOf(token, window.location.origin)} />
      <Group justify="flex-end">
        <Button onClick={onClose}>I have stored it</Button>
      </Group>
    </Stack>
  );
}

/** A command that tries out a token. */
function exampleOf(
  token: { readonly role: Role; readonly secret: string },
  origin: string,
): { readonly title: string; readonly command: string } {
  if (token.role === 'drone') {
    return {
      title: 'Start the drone with it. Use the controller’s own address',
      command: `LEASEHOLD_URL=${origin} \\\n  LEASEHOLD_TOKEN=${token.secret} \\\n  npx leasehold drone --config drone.json`,
    };
  }
  return {
    title: 'Try it',
    command: `curl ${origin}/trpc/session.get \\\n  -H 'authorization: Bearer ${token.secret}'`,
  };
}
