'use client';

import { Button, Group, Stack } from '@mantine/core';
import { Notice } from '~/ui/states/notice.tsx';
import type { Outputs } from '~/lib/api/api.ts';
import { Example, ShownOnce } from '../shown-once.tsx';
import { exampleOf } from './token-example.ts';

/** The secret of a token that was just made. It is in this answer and nowhere else. */
export function NewToken({
  token,
  onClose,
}: {
  readonly token: Outputs['tokens']['create'];
  readonly onClose: () => void;
}) {
  return (
    <Stack gap="sm">
      <Notice tone="warn">
        This is the only time that the token is shown. Leasehold keeps a hash of it, and nobody can
        read it again.
      </Notice>
      <ShownOnce label="Token" value={token.secret} />
      <Example {...exampleOf(token, window.location.origin)} />
      <Group justify="flex-end">
        <Button onClick={onClose}>I have stored it</Button>
      </Group>
    </Stack>
  );
}
