import { Button } from '@mantine/core';
import { IconChevronDown } from '@tabler/icons-react';
import { LazyMenu } from './lazy-menu.tsx';
import type { OpenerProps } from './use-opener.ts';

interface FilterOption {
  readonly value: string;
  readonly label: string;
}

/** The menu's own value for no filter: no field of a search can be empty. */
const ANY = '';

/** One field of a search as a menu; its button shows the value. */
export function FilterMenu({
  label,
  value,
  options,
  unset = 'Any',
  onChange,
}: {
  /** What it filters by: `Phase`. */
  readonly label: string;
  readonly value: string | undefined;
  /** What is shown when nothing is chosen. */
  readonly unset?: string;
  readonly options: readonly FilterOption[];
  /** `null`: nothing is chosen. */
  readonly onChange: (value: string | null) => void;
}) {
  const text = value === undefined ? label : `${label}: ${labelsOf(options, [value])[0] ?? value}`;
  return (
    <LazyMenu position="bottom-start" button={filterButton(text, value !== undefined)}>
      {(menu) => (
        <menu.RadioGroup
          value={value ?? ANY}
          onChange={(next) => onChange(next === ANY ? null : next)}
        >
          {[{ value: ANY, label: unset }, ...options].map((option) => (
            <menu.RadioItem key={option.value} value={option.value} closeMenuOnClick>
              {option.label}
            </menu.RadioItem>
          ))}
        </menu.RadioGroup>
      )}
    </LazyMenu>
  );
}

/** One field of a search that may have several values. The menu stays open while they are chosen. */
export function FilterManyMenu({
  label,
  values,
  options,
  onChange,
}: {
  /** What it filters by: `Kinds`. */
  readonly label: string;
  readonly values: readonly string[];
  readonly options: readonly FilterOption[];
  /** No values: no filter. */
  readonly onChange: (values: string[]) => void;
}) {
  const text = values.length === 0 ? label : `${label}: ${labelsOf(options, values).join(', ')}`;
  return (
    <LazyMenu position="bottom-start" button={filterButton(text, values.length > 0)}>
      {(menu) => (
        <>
          <menu.CheckboxGroup value={[...values]} onChange={onChange}>
            {options.map((option) => (
              <menu.CheckboxItem key={option.value} value={option.value}>
                {option.label}
              </menu.CheckboxItem>
            ))}
          </menu.CheckboxGroup>
          <menu.Divider />
          <menu.Item onClick={() => onChange([])}>Any</menu.Item>
        </>
      )}
    </LazyMenu>
  );
}

function labelsOf(options: readonly FilterOption[], values: readonly string[]): string[] {
  return options.filter(({ value }) => values.includes(value)).map(({ label }) => label);
}

function filterButton(text: string, isSet: boolean) {
  return function FilterButton(props: OpenerProps) {
    return (
      <Button
        {...props}
        variant={isSet ? 'light' : 'default'}
        rightSection={<IconChevronDown size={13} />}
        maw="16rem"
      >
        {text}
      </Button>
    );
  };
}
