'use client';

import { LADDER_ROLES, type LadderRole } from '@leasehold/keys-core';
import { Button, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { ActFailure } from '~/components/dialogs/act-failure.tsx';
import { Notice } from '~/components/states/notice.tsx';
import { ROLE_LABELS, ROLE_TEXTS } from '~/features/account/role-texts.ts';
import type { Outputs } from '~/lib/api.ts';
import { absolute } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut } from '~/lib/signed-out.ts';
import { useApiMutation } from '~/lib/use-api-mutation.ts';
import { useSignal } from '~/lib/use-signal.ts';
import type { Person } from './person-state.ts';
import { ShownOnce } from './shown-once.tsx';

type Invitation = Outputs['people']['invite'];

/** Invites somebody, new or once more, and shows their one-time link. */
export function InviteDialog({
  invited,
  onClose,
}: {
  /** Whom: a person who has not accepted yet, or somebody new. Null: nobody is being invited. */
  readonly invited: Person | 'somebody' | null;
  readonly onClose: () => void;
}) {
  const isOpen = invited !== null;
  const [made, setMade] = useState<Invitation>();
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
      title={isLinkShown ? `Invitation of ${made.person.email}` : 'Invite somebody'}
      // A link that is shown once is not closed by a slip.
      closeOnClickOutside={!isLinkShown}
      closeOnEscape={!isLinkShown && !isSignedOut}
      withCloseButton={!isLinkShown}
    >
      {isLinkShown ? (
        <MadeInvitation invitation={made} onClose={onClose} />
      ) : (
        <InviteForm
          known={invited === 'somebody' ? null : invited}
          onMade={setMade}
          onClose={onClose}
        />
      )}
    </Modal>
  );
}

function InviteForm({
  known,
  onMade,
  onClose,
}: {
  readonly known: Person | null;
  readonly onMade: (invitation: Invitation) => void;
  readonly onClose: () => void;
}) {
  const [email, setEmail] = useState(known?.email ?? '');
  const [name, setName] = useState(known?.name ?? '');
  const [role, setRole] = useState<LadderRole>(known?.role ?? 'viewer');
  const invite = useApiMutation('people', 'invite');
  const trimmed = name.trim();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        invite.mutate(
          { email: email.trim(), role, ...(trimmed === '' ? {} : { name: trimmed }) },
          { onSuccess: onMade },
        );
      }}
    >
      <Stack gap="sm">
        {known === null ? null : (
          <Text size="sm">A new link is made; the one before stops working.</Text>
        )}
        <TextInput
          label="E-mail"
          type="email"
          required
          autoComplete="off"
          readOnly={known !== null}
          data-autofocus
          value={email}
          onChange={(event) => {
            setEmail(event.currentTarget.value);
          }}
        />
        <TextInput
          label="Name"
          description="They can change it as they accept."
          autoComplete="off"
          value={name}
          onChange={(event) => {
            setName(event.currentTarget.value);
          }}
        />
        <Select
          label="Role"
          description={ROLE_TEXTS[role]}
          value={role}
          data={LADDER_ROLES.map((value) => ({ value, label: ROLE_LABELS[value] }))}
          onChange={(value) => {
            setRole(LADDER_ROLES.find((one) => one === value) ?? 'viewer');
          }}
        />
        <ActFailure error={invite.error} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={email.trim() === ''} loading={invite.isPending}>
            Make invitation
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function MadeInvitation({
  invitation: { path, expiresAt, person },
  onClose,
}: {
  readonly invitation: Invitation;
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
          Good until {absolute(expiresAt)}. Where an identity provider is set up, they can also just
          sign in with it, with this e-mail address.
        </Text>
      </ShownOnce>
      <Group justify="flex-end">
        <Button onClick={onClose}>I have passed it on</Button>
      </Group>
    </Stack>
  );
}
