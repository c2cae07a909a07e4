import { Button, Group, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { type ReactNode, useEffect, useState } from 'react';
import { ORDERED_ROLES, type OrderedRole } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { absolute, countText } from '~/lib/format.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { useSession } from '~/lib/session.tsx';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { ActFailure, Notice } from '~/ui/states.tsx';
import { VisibleText } from '~/ui/text.tsx';
import { MadeOnceDialog, type MadeOnceForm, RoleSelect, ShownOnce } from './dialog-parts.tsx';
import { type Person, type PersonAct, resetText, roleChangeText } from './states.ts';

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
      {(form) => (
        <InviteForm known={invited === 'somebody' ? null : invited} {...form} onClose={onClose} />
      )}
    </LinkDialog>
  );
}

function InviteForm({
  known,
  onMade,
  onPending,
  onClose,
}: MadeOnceForm<Link> & {
  readonly known: Person | null;
  readonly onClose: () => void;
}) {
  const [email, setEmail] = useState(known?.email ?? '');
  const [name, setName] = useState(known?.name ?? '');
  const [role, setRole] = useState<OrderedRole>(known?.role ?? 'viewer');
  const invite = useApiMutation('people', 'invite');
  const { isPending } = invite;
  useEffect(() => onPending(isPending), [onPending, isPending]);
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
          <Button variant="default" disabled={isPending} onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={email.trim() === ''} loading={isPending}>
            Create invitation
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

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

/** Somebody else was faster. */
const NOTHING_CHANGED = 'Nothing was changed.';

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

  const done = ({ changed }: { readonly changed: boolean }, message: string): void => {
    notifications.show({ title: person.email, message: changed ? message : NOTHING_CHANGED });
    onClose();
  };
  const run = (reason: string | undefined): void => {
    const input = { personId: person.personId, reason };
    if (act === 'setRole') {
      const text = `Role changed to ${ROLE_LABELS[role].toLowerCase()}.`;
      setRoleOf.mutate({ ...input, role }, { onSuccess: (answer) => done(answer, text) });
    } else if (act === 'disable') {
      disable.mutate(input, {
        onSuccess: ({ changed, tokensMade }) => {
          const left =
            tokensMade === 0
              ? ''
              : ` ${countText(tokensMade, 'token')} that they created still ${tokensMade === 1 ? 'works' : 'work'}.`;
          done({ changed }, `Disabled.${left}`);
        },
      });
    } else if (act === 'signOutEverywhere') {
      signOut.mutate(input, {
        onSuccess: ({ endedCount }) =>
          done({ changed: true }, `${countText(endedCount, 'session')} ended.`),
      });
    } else {
      enable.mutate(input, { onSuccess: (answer) => done(answer, 'They can sign in again.') });
    }
  };
  return (
    <ActDialog
      isOpen
      onClose={onClose}
      title={`${LABELS[act]}: ${person.email}`}
      reason={act === 'disable' ? 'required' : 'optional'}
      actLabel={LABELS[act]}
      isDangerous={act === 'disable' || act === 'signOutEverywhere'}
      isReady={act !== 'setRole' || role !== person.role}
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
      <Text size="sm">
        <VisibleText>{roleChangeText(person, role, me?.personId === person.personId)}</VisibleText>
      </Text>
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
  const sessions = countText(person.sessionCount, 'session');
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
      {(form) =>
        person === null ? null : <ResetForm person={person} {...form} onClose={onClose} />
      }
    </LinkDialog>
  );
}

function ResetForm({
  person,
  onMade,
  onPending,
  onClose,
}: MadeOnceForm<Link> & {
  readonly person: Person;
  readonly onClose: () => void;
}) {
  const [reason, setReason] = useState('');
  const reset = useApiMutation('people', 'resetPassword');
  const { isPending } = reset;
  useEffect(() => onPending(isPending), [onPending, isPending]);
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
          <Button variant="default" disabled={isPending} onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={isPending}>
            Create link
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** A one-time link and whom it is for. */
type Link = Outputs['people']['invite'];

/** A form that makes a one-time link, and then the only view of the link. */
function LinkDialog({
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
  readonly children: (form: MadeOnceForm<Link>) => ReactNode;
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
