'use client';

import { Button, Menu } from '@mantine/core';
import { IconChevronDown } from '@tabler/icons-react';

export interface FilterOption {
  readonly value: string;
  readonly label: string;
}

/** The menu's own value for no filter: no field of a search can be empty. */
const ANY = '';

/** One field of a search as a menu; what it is set to is on its button. */
export function FilterMenu({
  label,
  value,
  options,
  onChange,
}: {
  /** What it filters by: `Phase`. */
  readonly label: string;
  readonly value: string | undefined;
  readonly options: readonly FilterOption[];
  /** `null` is any. */
  readonly onChange: (value: string | null) => void;
}) {
  const known = options.find((option) => option.value === value);
  const text = value === undefined ? label : `${label}: ${known?.label ?? value}`;
  return (
    <Menu position="bottom-start" withinPortal>
      <Menu.Target>
        <Button
          variant={value === undefined ? 'default' : 'light'}
          rightSection={<IconChevronDown size={13} />}
          maw="16rem"
        >
          {text}
        </Button>
      </Menu.Target>
      <Menu.Dropdown mah={360} style={{ overflowY: 'auto' }}>
        <Menu.RadioGroup
          value={value ?? ANY}
          onChange={(next) => {
            onChange(next === ANY ? null : next);
          }}
        >
          {[{ value: ANY, label: 'Any' }, ...options].map((option) => (
            <Menu.RadioItem key={option.value} value={option.value} closeMenuOnClick>
              {option.label}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
      </Menu.Dropdown>
    </Menu>
  );
}
