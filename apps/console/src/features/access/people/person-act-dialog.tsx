import { ORDERED_ROLES, type OrderedRole } from '@leasehold/keys-core';
import { Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { RoleSelect } from '../role-select.tsx';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { counted } from '~/lib/format.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { useSession } from '~/lib/session.tsx';
import { ActDialog } from '~/ui/act-dialog.tsx';
import { type Person, type PersonAct, roleChangeText } from './person-state.ts';

export interface PersonActRequest {
  readonly act: Exclude<PersonAct, 'invite' | 'resetPassword'>;
  /** The person as they were when the dialog was opened. */
  readonly person: Person;
}

const LABELS = {
  setRole: 'Change role',
  unlock: 'Unlock',
  enable: 'Enable',
  disable: 'Disable',
  signOutEverywhere: 'Sign out everywhere',
} as const;

/** Changes a person's access: shows what follows, and asks why. */
export function PersonActDialog({
  request,
  onClose,
}: {
  readonly request: PersonActRequest | null;
  readonly onClose: () => void;
}) {
  if (request === null) return null;
  return <OpenDialog key={request.act + request.person.personId} {...request} onClose={onClose} />;
}

function OpenDialog({ act, person, onClose }: PersonActRequest & { readonly onClose: () => void }) {
  const [role, setRole] = useState<OrderedRole>(person.role);
  const setRoleOf = useApiMutation('people', 'setRole');
  const enable = useApiMutation('people', 'enable');
  const disable = useApiMutation('people', 'disable');
  const signOut = useApiMutation('people', 'signOutEverywhere');
  const mutation = {
    setRole: setRoleOf,
    unlock: enable,
    enable,
    disable,
    signOutEverywhere: signOut,
  }[act];

  const done = (message: string) => (): void => {
    notifications.show({ title: person.email, message });
    onClose();
  };
  const run = (reason: string | undefined): void => {
    const input = { personId: person.personId, reason };
    if (act === 'setRole') {
      const onSuccess = done(`Role changed to ${ROLE_LABELS[role].toLowerCase()}.`);
      setRoleOf.mutate({ ...input, role }, { onSuccess });
    } else if (act === 'disable') {
      disable.mutate(input, {
        onSuccess: ({ tokensMade }) => {
          const left =
            tokensMade === 0
              ? ''
              : ` ${counted(tokensMade, 'token')} that they created still ${tokensMade === 1 ? 'works' : 'work'}.`;
          done(`Disabled.${left}`)();
        },
      });
    } else if (act === 'signOutEverywhere') {
      signOut.mutate(input, {
        onSuccess: ({ endedCount }) => done(`${counted(endedCount, 'session')} ended.`)(),
      });
    } else enable.mutate(input, { onSuccess: done('They can sign in again.') });
  };
  return (
    <ActDialog
      isOpen
      onClose={onClose}
      title={`${LABELS[act]}: ${person.email}`}
      reason={act === 'disable' ? 'required' : 'optional'}
      actLabel={LABELS[act]}
      isDangerous={act === 'disable' || act === 'signOutEverywhere'}
      act={{ isPending: mutation.isPending, error: mutation.error, run }}
    >
      {act === 'setRole' ? (
        <RoleChoice person={person} role={role} onChange={setRole} />
      ) : (
        <Consequence act={act} person={person} />
      )}
    </ActDialog>
  );
}

function RoleChoice({
  person,
  role,
  onChange,
}: {
  readonly person: Person;
  readonly role: OrderedRole;
  readonly onChange: (role: OrderedRole) => void;
}) {
  const { person: me } = useSession();
  return (
    <Stack gap="xs">
      <RoleSelect roles={ORDERED_ROLES} value={role} onChange={onChange} />
      <Text size="sm">{roleChangeText(person.role, role, me?.personId === person.personId)}</Text>
    </Stack>
  );
}

function Consequence({
  act,
  person,
}: {
  readonly act: Exclude<PersonActRequest['act'], 'setRole'>;
  readonly person: Person;
}) {
  const { person: me } = useSession();
  const isMe = me?.personId === person.personId;
  const sessions = counted(person.sessionCount, 'session');
  switch (act) {
    case 'disable':
      return `They can no longer sign in, and their ${sessions} end now. API tokens that they created keep working. Enable reverses this.`;
    case 'enable':
      return 'They can sign in again, with the role and the password that they had.';
    case 'unlock':
      return 'They can sign in again at once. The count of failed tries starts at zero.';
    case 'signOutEverywhere':
      return `${isMe ? 'Your' : 'Their'} ${sessions} end now, in every browser${isMe ? ', this one too' : ''}. ${isMe ? 'You' : 'They'} can sign in again.`;
  }
}
