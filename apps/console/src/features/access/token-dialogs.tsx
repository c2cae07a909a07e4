import {
  Autocomplete,
  Button,
  Group,
  List,
  Modal,
  NumberInput,
  Select,
  Stack,
  TagsInput,
  TextInput,
} from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { type Role, TOKEN_ROLES, type TokenRole } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { absolute } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { Facts, PlainTable } from '~/ui/page.tsx';
import { ActFailure, ErrorState, Notice } from '~/ui/states.tsx';
import { Mono } from '~/ui/text.tsx';
import {
  Example,
  MadeOnceDialog,
  type MadeOnceForm,
  RoleSelect,
  ShownOnce,
} from './dialog-parts.tsx';
import {
  boundsInput,
  boundsOf,
  expiryOf,
  LIFETIMES,
  NO_BOUNDS,
  type Token,
  type TokenBounds,
} from './states.ts';

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
      {(form) => <TokenForm {...form} onClose={onClose} />}
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

const DRONES_OFFERED = 100;

/** What a new token is for, what it may do, and for how long. */
function TokenForm({
  onMade,
  onPending,
  onClose,
}: MadeOnceForm<Outputs['tokens']['create']> & { readonly onClose: () => void }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<TokenRole>('client');
  const [bounds, setBounds] = useState(NO_BOUNDS);
  const [droneId, setDroneId] = useState('');
  const [lifetime, setLifetime] = useState('90');
  const create = useApiMutation('tokens', 'create');
  const { isPending } = create;
  useEffect(() => onPending(isPending), [onPending, isPending]);
  const nowMs = useDatabaseNow();
  const expiresAt = nowMs === null ? undefined : expiryOf(lifetime, nowMs);
  const isDrone = role === 'drone';
  const isExpiryKnown = lifetime === 'never' || expiresAt !== undefined;
  const mayMake = name.trim() !== '' && (!isDrone || droneId.trim() !== '') && isExpiryKnown;

  const input = {
    name: name.trim(),
    role,
    expiresAt,
    ...(isDrone ? { droneId: droneId.trim() } : {}),
    ...boundsInput(role, bounds),
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (mayMake) create.mutate(input, { onSuccess: onMade });
      }}
    >
      <Stack gap="sm">
        <TextInput
          label="Name"
          description="Shown in the audit and in events: the service or script that uses it."
          required
          autoComplete="off"
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <RoleSelect roles={TOKEN_ROLES} value={role} onChange={setRole} />
        {isDrone ? <DroneIdInput value={droneId} onChange={setDroneId} /> : null}
        <TokenBoundsInputs role={role} bounds={bounds} onChange={setBounds} />
        <Select
          label="Expires"
          description={
            expiresAt === undefined ? 'Review it from time to time.' : absolute(expiresAt)
          }
          value={lifetime}
          data={LIFETIMES}
          onChange={(value) => setLifetime(value ?? '90')}
        />
        <ActFailure error={create.error} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" disabled={isPending} onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!mayMake} loading={isPending}>
            Create token
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** A drone's token acts for one drone, which need not be known yet. */
function DroneIdInput({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  const drones = useLiveQuery('drones', 'list', { limit: DRONES_OFFERED });
  return (
    <Autocomplete
      label="Drone id"
      size="xs"
      description="The only drone that may use it. It need not have registered yet."
      required
      value={value}
      data={(drones.data?.items ?? []).map((drone) => drone.droneId)}
      onChange={onChange}
    />
  );
}

const LISTS = {
  namespaces: {
    label: 'Namespaces',
    description: 'Children included. Leave it empty for no limit.',
    placeholder: 'rooms.eu, then Enter',
  },
  programs: {
    label: 'Programs',
    description: 'Programs that it may start, or that a drone may offer. Leave it empty for any.',
    placeholder: 'room, then Enter',
  },
  addresses: {
    label: 'Addresses',
    description: 'Addresses that backends of the drone may have. Leave it empty for any.',
    placeholder: '10.1.0.0/16:21000-29999, then Enter',
  },
} as const;

/** What a new token of this role can be bound to. */
function TokenBoundsInputs({
  role,
  bounds,
  onChange,
}: {
  readonly role: TokenRole;
  readonly bounds: TokenBounds;
  readonly onChange: (bounds: TokenBounds) => void;
}) {
  return boundsOf(role).map((name) =>
    name === 'capacity' ? (
      <NumberInput
        key={name}
        label="Capacity"
        size="xs"
        description="How many backends the drone may run. Leave it empty for any number."
        min={0}
        allowDecimal={false}
        value={bounds.capacity ?? ''}
        onChange={(value) =>
          onChange({ ...bounds, capacity: typeof value === 'number' ? value : null })
        }
      />
    ) : (
      <TagsInput
        key={name}
        {...LISTS[name]}
        size="xs"
        placeholder={bounds[name].length === 0 ? LISTS[name].placeholder : ''}
        // A namespace may have spaces and commas in it: only Enter ends one.
        splitChars={name === 'namespaces' ? [] : [',', ' ']}
        acceptValueOnBlur
        value={bounds[name]}
        onChange={(value) => onChange({ ...bounds, [name]: value })}
      />
    ),
  );
}

type TokenDetails = Outputs['tokens']['get'];

/** What a token is bound to, and how much of its limits it uses. */
export function TokenDetailsDialog({
  token,
  onClose,
}: {
  readonly token: Token | null;
  readonly onClose: () => void;
}) {
  return (
    <Modal
      opened={token !== null}
      onClose={onClose}
      size="lg"
      title={token === null ? '' : `Token ${token.name}`}
    >
      {token === null ? null : <TokenDetails tokenId={token.tokenId} />}
    </Modal>
  );
}

function TokenDetails({ tokenId }: { readonly tokenId: string }) {
  const read = useLiveQuery('tokens', 'get', { tokenId });
  if (read.data === undefined) return <ErrorState read={read} what="this token" />;
  const { token, fairUse } = read.data;
  return (
    <Stack gap="sm">
      <Facts
        items={{
          Role: ROLE_LABELS[token.role],
          Id: <Mono>{token.tokenId}</Mono>,
          Namespaces: token.droneId === null ? listOf(token.namespaces) : null,
          Drone: token.droneId,
          Programs: listOf(token.programs),
          Backends: token.droneId === null ? null : (token.capacity ?? 'any number'),
          Addresses: token.droneId === null ? null : listOf(token.addresses),
        }}
      />
      <PlainTable
        label="Fair-use limits"
        heads={[
          { text: 'Limit' },
          { text: 'Used', align: 'end' },
          { text: 'At most', align: 'end' },
          { text: 'Of' },
        ]}
      >
        {fairUse.map((use) => (
          <LimitRow key={use.limit} {...use} />
        ))}
      </PlainTable>
    </Stack>
  );
}

function LimitRow({ limit, max, used, isOwn }: TokenDetails['fairUse'][number]) {
  return (
    <tr>
      <td>
        <Mono>{limit}</Mono>
      </td>
      <td data-align="end">{used === null ? '–' : used.toLocaleString('en')}</td>
      <td data-align="end">{max.toLocaleString('en')}</td>
      <td>{isOwn ? 'the token' : 'its role'}</td>
    </tr>
  );
}

function listOf(list: readonly string[] | null) {
  return list === null ? 'any' : <Mono>{list.join(', ')}</Mono>;
}

/** Ends a token: shows what stops working, and asks why. */
export function RevokeTokenDialog({
  token,
  onClose,
}: {
  readonly token: Token | null;
  readonly onClose: () => void;
}) {
  const revoke = useApiMutation('tokens', 'revoke');
  if (token === null) return null;
  const { name, tokenId, role } = token;
  const close = (): void => {
    revoke.reset();
    onClose();
  };
  return (
    <ActDialog
      isOpen
      onClose={close}
      title={`Revoke token ${name}`}
      reason="required"
      actLabel="Revoke token"
      isDangerous
      act={{
        isPending: revoke.isPending,
        error: revoke.error,
        run: (reason) =>
          revoke.mutate(
            { tokenId, reason },
            {
              onSuccess: ({ changed }) => {
                notifications.show({
                  title: name,
                  message: changed ? 'Revoked.' : 'It was revoked already.',
                });
                close();
              },
            },
          ),
      }}
    >
      <List size="sm" spacing={4}>
        <List.Item>
          Every caller that uses it (role {ROLE_LABELS[role].toLowerCase()}) is refused at once, and
          its open connections end.
        </List.Item>
        <List.Item>
          Grants made with it are not released. They expire unless another token renews them.
        </List.Item>
        <List.Item>This cannot be undone. A new token has a new secret.</List.Item>
      </List>
    </ActDialog>
  );
}
