'use client';

import { TOKEN_ROLES, type TokenRole } from '@leasehold/keys-core';
import { Autocomplete, Button, Group, Select, Stack, TagsInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import { ActFailure } from '~/components/dialogs/act-failure.tsx';
import { ROLE_LABELS, ROLE_TEXTS } from '~/features/account/role-texts.ts';
import type { Inputs, Outputs } from '~/lib/api.ts';
import { absolute } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useApiMutation } from '~/lib/use-api-mutation.ts';
import { expiryOf, LIFETIMES } from './token-state.ts';

const DRONES_OFFERED = 100;

/** What a new token is for, what it may do, and for how long. */
export function TokenForm({
  onMade,
  onClose,
}: {
  readonly onMade: (token: Outputs['tokens']['create']) => void;
  readonly onClose: () => void;
}) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<TokenRole>('client');
  const [namespaces, setNamespaces] = useState<string[]>([]);
  const [droneId, setDroneId] = useState('');
  const [lifetime, setLifetime] = useState('90');
  const create = useApiMutation('tokens', 'create');
  const nowMs = useDatabaseNow();
  const expiresAt = nowMs === null ? undefined : expiryOf(lifetime, nowMs);
  const isDrone = role === 'drone';
  const isExpiryKnown = lifetime === 'never' || expiresAt !== undefined;
  const mayMake = name.trim() !== '' && (!isDrone || droneId.trim() !== '') && isExpiryKnown;

  const input = tokenInput({ name, role, droneId, namespaces, expiresAt });
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
          description="As the audit and events name whoever uses it: a service, a script."
          required
          autoComplete="off"
          data-autofocus
          value={name}
          onChange={(event) => {
            setName(event.currentTarget.value);
          }}
        />
        <Select
          label="Role"
          description={ROLE_TEXTS[role]}
          value={role}
          data={TOKEN_ROLES.map((value) => ({ value, label: ROLE_LABELS[value] }))}
          onChange={(value) => {
            setRole(TOKEN_ROLES.find((known) => known === value) ?? 'client');
          }}
        />
        {isDrone ? (
          <DroneIdInput value={droneId} onChange={setDroneId} />
        ) : (
          <TagsInput
            label="Namespaces"
            size="xs"
            description="Children included. Leave it empty for no limit."
            placeholder={namespaces.length === 0 ? 'rooms.eu, then Enter' : ''}
            splitChars={[',', ' ']}
            acceptValueOnBlur
            value={namespaces}
            onChange={setNamespaces}
          />
        )}
        <Select
          label="Lasts"
          description={
            expiresAt === undefined ? 'Review it now and then.' : `Until ${absolute(expiresAt)}`
          }
          value={lifetime}
          data={LIFETIMES}
          onChange={(value) => {
            setLifetime(value ?? '90');
          }}
        />
        <ActFailure error={create.error} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!mayMake} loading={create.isPending}>
            Create token
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** What is asked for: a drone's token has a drone, any other one namespaces. */
function tokenInput({
  name,
  role,
  droneId,
  namespaces,
  expiresAt,
}: {
  readonly name: string;
  readonly role: TokenRole;
  readonly droneId: string;
  readonly namespaces: string[];
  readonly expiresAt: string | undefined;
}): Inputs['tokens']['create'] {
  const limits = namespaces.length === 0 ? {} : { namespaces };
  return {
    name: name.trim(),
    role,
    ...(role === 'drone' ? { droneId: droneId.trim() } : limits),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
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
      description="The one drone that it may act for; it need not have registered yet."
      required
      value={value}
      data={(drones.data?.items ?? []).map((drone) => drone.droneId)}
      onChange={onChange}
    />
  );
}
