import { Button, Group, Stack, Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { ActFailure } from '~/ui/states.tsx';
import { type Link, LinkDialog } from './link-dialog.tsx';
import { type Person, resetText } from './person-state.ts';

/** The API's limit for a reason, in characters of one byte each. */
const REASON_LENGTH_MAX = 1_024;

/** Makes a link with which somebody chooses a new password, and shows it. */
export function ResetPasswordDialog({
  person,
  onClose,
}: {
  /** Null: nobody's password is being reset. */
  readonly person: Person | null;
  readonly onClose: () => void;
}) {
  return (
    <LinkDialog
      isOpen={person !== null}
      onClose={onClose}
      title={{
        before: person === null ? 'Reset password' : `Reset password: ${person.email}`,
        made: (link) => `New password of ${link.person.email}`,
      }}
      note="Nothing changes until the link is used. A newer link, or Disable, ends it."
    >
      {(onMade) =>
        person === null ? null : <ResetForm person={person} onMade={onMade} onClose={onClose} />
      }
    </LinkDialog>
  );
}

function ResetForm({
  person,
  onMade,
  onClose,
}: {
  readonly person: Person;
  readonly onMade: (link: Link) => void;
  readonly onClose: () => void;
}) {
  const [reason, setReason] = useState('');
  const reset = useApiMutation('people', 'resetPassword');
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const why = reason.trim() || undefined;
        reset.mutate({ personId: person.personId, reason: why }, { onSuccess: onMade });
      }}
    >
      <Stack gap="sm">
        <Text size="sm">{resetText(person)}</Text>
        <Textarea
          label="Reason"
          description="Recorded in the audit, with your name and address."
          data-autofocus
          autosize
          minRows={2}
          maxLength={REASON_LENGTH_MAX}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        <ActFailure error={reset.error} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={reset.isPending}>
            Create link
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
