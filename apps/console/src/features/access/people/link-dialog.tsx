import { Button, Group, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { MadeOnceDialog } from '../made-once-dialog.tsx';
import { ShownOnce } from '../shown-once.tsx';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute } from '~/lib/format.ts';
import type { DialogProps } from '~/ui/act-dialog.tsx';
import { Notice } from '~/ui/states.tsx';

/** A one-time link and whom it is for. */
export type Link = Outputs['people']['invite'];

/** A form that makes a one-time link, and then the only view of the link. */
export function LinkDialog({
  isOpen,
  onClose,
  title,
  note,
  children,
}: DialogProps & {
  readonly title: { readonly before: string; readonly made: (link: Link) => string };
  /** What else to know about the link that was made. */
  readonly note: string;
  /** The form; it reports the link that it made. */
  readonly children: (onMade: (link: Link) => void) => ReactNode;
}) {
  return (
    <MadeOnceDialog
      isOpen={isOpen}
      onClose={onClose}
      title={title}
      shown={(link) => <MadeLink link={link} note={note} onClose={onClose} />}
    >
      {children}
    </MadeOnceDialog>
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
        The link is shown only now, and works once. Leasehold sends no mail: give it to{' '}
        {person.name === '' ? person.email : person.name} yourself.
      </Notice>
      <ShownOnce label="Link" value={`${window.location.origin}${path}`}>
        <Text size="xs" c="dimmed">
          Expires {absolute(expiresAt)}. {note}
        </Text>
      </ShownOnce>
      <Group justify="flex-end">
        <Button onClick={onClose}>I have passed it on</Button>
      </Group>
    </Stack>
  );
}
