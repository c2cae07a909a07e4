import type { Role } from '@leasehold/keys-core';
import { Select } from '@mantine/core';
import { ROLE_LABELS, ROLE_TEXTS } from '~/lib/auth.ts';

/** A choice among these roles, each with what it may do. */
export function RoleSelect<Known extends Role>({
  roles,
  value,
  onChange,
}: {
  readonly roles: readonly Known[];
  readonly value: Known;
  readonly onChange: (role: Known) => void;
}) {
  return (
    <Select
      label="Role"
      description={ROLE_TEXTS[value]}
      value={value}
      data={roles.map((role) => ({ value: role, label: ROLE_LABELS[role] }))}
      onChange={(chosen) => onChange(roles.find((role) => role === chosen) ?? value)}
    />
  );
}
