import { Button, CloseButton, TextInput } from '@mantine/core';
import { IconChevronDown, IconSearch } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import type { OpenerProps } from './lazy.tsx';
import { LazyMenu } from './menus.tsx';
import { useShortcut } from './use-shortcut.ts';
import classes from './filters.module.css';

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

/** How long after the last key a search is run; Enter runs it at once. */
const TYPING_MS = 350;

/** The search of a list. `/` moves the focus here from anywhere on the page, and Escape away. */
export function SearchBox({
  value,
  onChange,
  label,
  placeholder,
  problems = [],
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly label: string;
  readonly placeholder: string;
  readonly problems?: readonly string[];
}) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  /** The last search that was sent, until the address has it. */
  const sent = useRef<string>(undefined);
  // Back and Forward change the address from outside. A change from here must not undo further typing.
  useEffect(() => {
    if (value !== sent.current) setText(value);
    sent.current = undefined;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  useShortcut('/', 'Search this list', () => input.current?.focus());

  const commit = (next: string): void => {
    clearTimeout(timer.current);
    if (next === value) return;
    sent.current = next;
    onChange(next);
  };
  return (
    <form
      role="search"
      className={classes['search']}
      onSubmit={(event) => {
        event.preventDefault();
        commit(text.trim());
      }}
    >
      <TextInput
        ref={input}
        aria-label={label}
        placeholder={placeholder}
        leftSection={<IconSearch size={14} aria-hidden />}
        rightSection={
          text === '' ? null : (
            <CloseButton
              size="xs"
              aria-label="Clear the search"
              onClick={() => {
                setText('');
                commit('');
                input.current?.focus();
              }}
            />
          )
        }
        value={text}
        error={problems.length === 0 ? undefined : problems.join('; ')}
        // A search that is run after a link was followed would lead back to this page.
        onBlur={() => commit(text.trim())}
        // Back to the rows, and to the shortcuts; what was searched for stays.
        onKeyDown={(event) => {
          if (event.key === 'Escape' && !event.nativeEvent.isComposing) input.current?.blur();
        }}
        onChange={(event) => {
          const next = event.currentTarget.value;
          setText(next);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => commit(next.trim()), TYPING_MS);
        }}
      />
    </form>
  );
}
