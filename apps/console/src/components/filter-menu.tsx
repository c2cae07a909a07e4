'use client';

import { Button, Menu } from '@mantine/core';
import { IconCheck, IconChevronDown } from '@tabler/icons-react';

export interface FilterOption {
  readonly value: string;
  readonly label: string;
}

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
  const all = [{ value: null, label: 'Any' }, ...options];
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
        {all.map((option) => {
          const isChosen = option.value === (value ?? null);
          return (
            <Menu.Item
              key={option.label}
              role="menuitemradio"
              aria-checked={isChosen}
              leftSection={
                <IconCheck size={13} style={{ visibility: isChosen ? 'visible' : 'hidden' }} />
              }
              onClick={() => {
                onChange(option.value);
              }}
            >
              {option.label}
            </Menu.Item>
          );
        })}
      </Menu.Dropdown>
    </Menu>
  );
}
