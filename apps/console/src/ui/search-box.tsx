import { CloseButton, TextInput } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { useShortcut } from './shortcuts/use-shortcut.ts';
import classes from './search-box.module.css';

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
