'use client';

import { Text, Title } from '@mantine/core';
import { useEffect } from 'react';
import { FrontDoor } from '../sign-in/front-door.tsx';
import { announceSignIn } from '~/lib/auth.ts';

/** The end of a sign-in in a window of its own: it tells the page that opened it, which goes on. */
export function SignedInElsewhere() {
  useEffect(() => {
    announceSignIn();
    window.close();
  }, []);
  return (
    <FrontDoor>
      <Title order={1} size="1.375rem">
        You are signed in
      </Title>
      <Text size="sm" mt="xs">
        Close this window and continue on the page that you came from.
      </Text>
    </FrontDoor>
  );
}
