'use client';

import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';
import { Notice } from '~/ui/states/notice.tsx';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut } from '~/lib/session/signed-out.ts';
import { useSignal } from '~/lib/use-signal.ts';
import { ShownOnce } from '../shown-once.tsx';

/** A one-time link and whom it is for. */
export type Link = Outputs['people']['invite'];

/** Asks for what a one-time link needs, and then shows the link: this once. */
export function LinkDialog({
  isOpen,
  onClose,
  title,
  note,
  children,
}: {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly title: { readonly before: string; readonly made: (link: Link) => string };
  /** What else is to be known of the link that was made. */
  readonly note: string;
  /** The form, which says what was made. */
  readonly children: (onMade: (link: Link) => void) => ReactNode;
}) {
  const [made, setMade] = useState<Link>();
  const isSignedOut = useSignal(signedOut);
  useEffect(() => {
    if (!isOpen) return undefined;
    setMade(undefined);
    return pause.hold();
  }, [isOpen]);
  const isLinkShown = made !== undefined;
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      size="lg"
      title={isLinkShown ? title.made(made) : title.before}
      // A link that is shown once is not closed by a slip.
      closeOnClickOutside={!isLinkShown}
      closeOnEscape={!isLinkShown && !isSignedOut}
      withCloseButton={!isLinkShown}
    >
      {isLinkShown ? <MadeLink link={made} note={note} onClose={onClose} /> : children(setMade)}
    </Modal>
  );
}

function MadeLink({
  link: { path, expiresAt, person },
  note,
  onClose,
}: {
  readonly link: Link;
  readonly note: string;
  readonly onClose: () => void;
}) {
  return (
    <Stack gap="sm">
      <Notice tone="warn">
        This is the only time that the link is shown, and it works once. Leasehold sends no mail:
        give it to {person.name === '' ? person.email : person.name} yourself.
      </Notice>
      <ShownOnce label="Link" value={`${window.location.origin}${path}`}>
        <Text size="xs" c="dimmed">
          Good until {absolute(expiresAt)}. {note}
        </Text>
      </ShownOnce>
      <Group justify="flex-end">
        <Button onClick={onClose}>I have passed it on</Button>
      </Group>
    </Stack>
  );
}
