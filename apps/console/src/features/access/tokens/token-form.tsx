import { TOKEN_ROLES, type TokenRole } from '@leasehold/keys-core';
import {
  Autocomplete,
  Button,
  Group,
  NumberInput,
  Select,
  Stack,
  TagsInput,
  TextInput,
} from '@mantine/core';
import { useState } from 'react';
import { RoleSelect } from '../role-select.tsx';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { ActFailure } from '~/ui/states.tsx';
import { boundsInput, boundsOf, NO_BOUNDS, type TokenBounds } from './token-bounds.ts';
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
  const [bounds, setBounds] = useState(NO_BOUNDS);
  const [droneId, setDroneId] = useState('');
  const [lifetime, setLifetime] = useState('90');
  const create = useApiMutation('tokens', 'create');
  const nowMs = useDatabaseNow();
  const expiresAt = nowMs === null ? undefined : expiryOf(lifetime, nowMs);
  const isDrone = role === 'drone';
  const isExpiryKnown = lifetime === 'never' || expiresAt !== undefined;
  const mayMake = name.trim() !== '' && (!isDrone || droneId.trim() !== '') && isExpiryKnown;

  const input = {
    ...{ name: name.trim(), role, expiresAt },
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
        splitChars={[',', ' ']}
        acceptValueOnBlur
        value={bounds[name]}
        onChange={(value) => onChange({ ...bounds, [name]: value })}
      />
    ),
  );
}
