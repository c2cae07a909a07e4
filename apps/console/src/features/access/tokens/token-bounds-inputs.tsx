'use client';

import type { TokenRole } from '@leasehold/keys-core';
import { NumberInput, TagsInput } from '@mantine/core';
import { boundsOf, type TokenBounds } from './token-bounds.ts';

const LISTS = {
  namespaces: {
    label: 'Namespaces',
    description: 'Children included. Leave it empty for no limit.',
    placeholder: 'rooms.eu, then Enter',
  },
  programs: {
    label: 'Programs',
    description: 'What it may start, or a drone may offer. Leave it empty for any.',
    placeholder: 'room, then Enter',
  },
  addresses: {
    label: 'Addresses',
    description: 'Where backends of the drone may be. Leave it empty for anywhere.',
    placeholder: '10.1.0.0/16:21000-29999, then Enter',
  },
} as const;

/** What a new token of this role can be bound to. */
export function TokenBoundsInputs({
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
