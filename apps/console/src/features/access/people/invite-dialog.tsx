import { ORDERED_ROLES, type OrderedRole } from '@leasehold/keys-core';
import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { RoleSelect } from '../role-select.tsx';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { ActFailure } from '~/ui/states.tsx';
import { type Link, LinkDialog } from './link-dialog.tsx';
import type { Person } from './person-state.ts';

/** Invites a person, for the first time or again, and shows their one-time link. */
export function InviteDialog({
  invited,
  onClose,
}: {
  /** A person who has not accepted yet, or `somebody` for a new one. Null: nobody is being invited. */
  readonly invited: Person | 'somebody' | null;
  readonly onClose: () => void;
}) {
  return (
    <LinkDialog
      isOpen={invited !== null}
      onClose={onClose}
      title={{
        before: 'Invite a person',
        made: (link) => `Invitation of ${link.person.email}`,
      }}
      note="With an identity provider, they can also sign in with it at once, using this e-mail address."
    >
      {(onMade) => (
        <InviteForm
          known={invited === 'somebody' ? null : invited}
          onMade={onMade}
          onClose={onClose}
        />
      )}
    </LinkDialog>
  );
}

function InviteForm({
  known,
  onMade,
  onClose,
}: {
  readonly known: Person | null;
  readonly onMade: (link: Link) => void;
  readonly onClose: () => void;
}) {
  const [email, setEmail] = useState(known?.email ?? '');
  const [name, setName] = useState(known?.name ?? '');
  const [role, setRole] = useState<OrderedRole>(known?.role ?? 'viewer');
  const invite = useApiMutation('people', 'invite');
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        invite.mutate(
          { email: email.trim(), role, name: name.trim() || undefined },
          { onSuccess: onMade },
        );
      }}
    >
      <Stack gap="sm">
        {known === null ? null : (
          <Text size="sm">This creates a new link. The previous one stops working.</Text>
        )}
        <TextInput
          label="E-mail"
          type="email"
          required
          autoComplete="off"
          readOnly={known !== null}
          data-autofocus
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
        <TextInput
          label="Name"
          description="They can change it when they accept."
          autoComplete="off"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <RoleSelect roles={ORDERED_ROLES} value={role} onChange={setRole} />
        <ActFailure error={invite.error} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={email.trim() === ''} loading={invite.isPending}>
            Create invitation
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
