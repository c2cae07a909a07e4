import '@mantine/spotlight/styles.layer.css';
import { Anchor } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { createSpotlight, Spotlight } from '@mantine/spotlight';
import { IconSearch } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { printableText } from '@leasehold/keys-core';
import { countText } from '~/lib/format.ts';
import { endTypeAhead } from '~/ui/shell/palette-store.ts';
import { LookBadge, VisibleText } from '~/ui/text.tsx';
import {
  type AnsweredText,
  type Entry,
  failureText,
  KNOWN_LABEL,
  partsOf,
  type Section,
  uncoveredText,
  useFind,
  usePaletteSections,
} from './palette-sections.ts';
import classes from './palette.module.css';

const TYPING_MS = 80;

const [store, palette] = createSpotlight();

/** Anything by any part of its name, any page, and whatever can be done on the open one. */
export function PaletteDialog({ requests }: { readonly requests: number }) {
  useEffect(() => palette.open(), [requests]);
  return (
    <Spotlight.Root
      store={store}
      shortcut={null}
      closeOnActionTrigger={false}
      size={680}
      yOffset="12vh"
      overlayProps={{ backgroundOpacity: 0.45 }}
      // What an action opens takes the focus, and gives it back to where it was before the palette.
      transitionProps={{ duration: 0 }}
      attributes={{ content: { 'aria-label': 'Command palette' } }}
    >
      <Palette />
    </Spotlight.Root>
  );
}

/** Mounted again each time that the palette is opened: it begins empty. */
function Palette() {
  const [query, setQuery] = useState('');
  const text = query.trim();
  const [searched] = useDebouncedValue(text, TYPING_MS);
  const find = useFind(text === '' ? '' : searched);
  const aim = useAim(text === '' ? null : find.last);
  const sections = usePaletteSections(query, aim.shown?.answer.items ?? []);
  const entries = sections.flatMap((section) => section.entries);
  const choice = useChoice(entries);
  const run = (entry: Entry | undefined): void => {
    if (entry === undefined || entry.whyNot !== undefined) return;
    palette.close();
    entry.run();
  };
  // What is listed for another text is not what was asked for: Enter then waits for the answer.
  const isChosen =
    isAnswered(text, aim.shown, find.error) || choice.isMoved || sections[0]?.label === KNOWN_LABEL;
  const enter = useEnter(!isChosen, () => run(choice.chosen));
  return (
    <div className={classes['palette']}>
      <Spotlight.Search
        aria-label="Go to"
        placeholder="Find a key, a lease, a drone, a person, a page, an action"
        size="md"
        leftSection={<IconSearch size={16} aria-hidden />}
        role="combobox"
        aria-expanded
        aria-controls={LIST_ID}
        aria-autocomplete="list"
        aria-activedescendant={choice.chosen === undefined ? undefined : optionId(choice.chosen)}
        data-autofocus
        autoComplete="off"
        spellCheck={false}
        value={query}
        onFocus={() => {
          const { text: before, isSent } = endTypeAhead();
          if (before === '') return;
          setQuery(before);
          if (isSent) enter.press();
        }}
        onChange={(event) => {
          setQuery(event.currentTarget.value);
          choice.reset();
          enter.forget();
          aim.end();
        }}
        onKeyDown={(event) => {
          const act = {
            ArrowDown: () => choice.move(1),
            ArrowUp: () => choice.move(-1),
            Enter: enter.press,
          }[event.key];
          if (act === undefined || event.nativeEvent.isComposing) return;
          event.preventDefault();
          act();
        }}
      />
      <PaletteList
        sections={sections}
        text={text}
        chosen={choice.chosen}
        onChoose={choice.choose}
        onRun={run}
        onAim={(isAiming) => (isAiming ? aim.begin() : aim.end())}
      />
      <PaletteStatus text={text} find={find} count={entries.length} shown={aim.shown} />
    </div>
  );
}

/** Whether what is listed is all that there will be for a text. */
function isAnswered(text: string, shown: AnsweredText | null, error: unknown): boolean {
  return text === '' || shown?.text === text || error !== null;
}

/** What was found, which stays as it is while somebody moves the pointer over it. */
function useAim(last: AnsweredText | null) {
  const [kept, setKept] = useState<{ readonly shown: AnsweredText | null } | null>(null);
  return {
    shown: kept === null ? last : kept.shown,
    begin: () => setKept((now) => now ?? { shown: last }),
    end: () => setKept(null),
  };
}

/** Enter, which waits while the answer is under way. */
function useEnter(isWaiting: boolean, run: () => void) {
  const [isPressed, setPressed] = useState(false);
  const latest = useRef(run);
  useEffect(() => {
    latest.current = run;
  });
  useEffect(() => {
    if (!isPressed || isWaiting) return;
    setPressed(false);
    latest.current();
  }, [isPressed, isWaiting]);
  return { press: () => setPressed(true), forget: () => setPressed(false) };
}

const LIST_ID = 'palette-list';
const optionId = (entry: Entry): string => `palette-${encodeURIComponent(entry.id)}`;

/**
 * The lines of the palette. The focus stays in its field, which names the chosen line. They are in no
 * `Spotlight.ActionsList`: that remembers the place of the chosen line, which results that arrive would move, and
 * Enter would run what stands there before the answer.
 */
function PaletteList({
  sections,
  text,
  chosen,
  onChoose,
  onRun,
  onAim,
}: {
  readonly sections: readonly Section[];
  readonly text: string;
  readonly chosen: Entry | undefined;
  readonly onChoose: (entry: Entry) => void;
  readonly onRun: (entry: Entry) => void;
  /** Whether the pointer is being moved over the lines. */
  readonly onAim: (isAiming: boolean) => void;
}) {
  const list = useRef<HTMLDivElement>(null);
  const chosenId = chosen === undefined ? undefined : optionId(chosen);
  useEffect(() => {
    const option = chosenId === undefined ? null : document.getElementById(chosenId);
    if (option !== null && list.current?.contains(option) === true) {
      option.scrollIntoView({ block: 'nearest' });
    }
  }, [chosenId]);
  return (
    <div
      ref={list}
      id={LIST_ID}
      role="listbox"
      aria-label="Results"
      className={classes['list']}
      onPointerLeave={() => onAim(false)}
    >
      {sections.map(({ label, entries }) => (
        <Spotlight.ActionsGroup
          key={label}
          role="group"
          aria-label={label}
          label={label}
          className={classes['section'] ?? ''}
        >
          {entries.map((entry) => (
            <PaletteLine
              key={entry.id}
              entry={entry}
              text={text}
              isChosen={entry === chosen}
              // A line that comes to lie under a pointer at rest was not pointed at.
              onPoint={({ movementX, movementY }) => {
                if (movementX === 0 && movementY === 0) return;
                onAim(true);
                onChoose(entry);
              }}
              onRun={() => onRun(entry)}
            />
          ))}
        </Spotlight.ActionsGroup>
      ))}
    </div>
  );
}

function PaletteLine({
  entry,
  text,
  isChosen,
  onPoint,
  onRun,
}: {
  readonly entry: Entry;
  readonly text: string;
  readonly isChosen: boolean;
  readonly onPoint: (event: React.PointerEvent) => void;
  readonly onRun: () => void;
}) {
  const { label, hint, look, kind, whyNot, icon: EntryIcon } = entry;
  return (
    <Spotlight.Action
      // Spotlight keeps the `id` for itself.
      ref={(line) => line?.setAttribute('id', optionId(entry))}
      role="option"
      aria-selected={isChosen}
      aria-disabled={whyNot === undefined ? undefined : true}
      className={classes['line'] ?? ''}
      onPointerMove={onPoint}
      onClick={onRun}
    >
      <EntryIcon size={16} aria-hidden className={classes['icon']} />
      <span className={classes['label']} title={label}>
        <Marked label={label} text={text} />
      </span>
      <span className={classes['hint']}>{whyNot ?? hint}</span>
      {look === undefined ? null : <LookBadge look={look} />}
      {kind === undefined ? null : <span className={classes['kind']}>{kind}</span>}
    </Spotlight.Action>
  );
}

function Marked({ label, text }: { readonly label: string; readonly text: string }) {
  const parts = printableText(label) === label ? partsOf(label, text) : undefined;
  if (parts === undefined) return <VisibleText>{label}</VisibleText>;
  const [before, match, after] = parts;
  return (
    <bdi>
      {before}
      <mark className={classes['match']}>{match}</mark>
      {after}
    </bdi>
  );
}

/** The last line of the palette: what became of the search. Always there, so that nothing moves. */
function PaletteStatus({
  text,
  find,
  count,
  shown,
}: {
  readonly text: string;
  readonly find: ReturnType<typeof useFind>;
  /** How many lines are listed. */
  readonly count: number;
  readonly shown: AnsweredText | null;
}) {
  const { error, isSearching, last, retry } = find;
  return (
    <Spotlight.Footer className={classes['status'] ?? ''}>
      <span role="status">
        {error === null
          ? statusText(text, { isSearching, count, shown, last })
          : failureText(error)}
        {error?.isRetryable === true ? (
          <>
            {' '}
            <Anchor component="button" type="button" size="xs" onClick={retry}>
              Try again
            </Anchor>
          </>
        ) : null}
      </span>
      <span aria-hidden className={classes['keys']}>
        ↑↓ choose · Enter opens · Esc closes
      </span>
    </Spotlight.Footer>
  );
}

function statusText(
  text: string,
  now: {
    readonly isSearching: boolean;
    readonly count: number;
    readonly shown: AnsweredText | null;
    readonly last: AnsweredText | null;
  },
): string {
  if (text === '') return '';
  if (now.isSearching || now.last?.text !== text) return 'Searching…';
  if (now.shown?.text !== text) return 'Move the pointer away to see the results.';
  const uncovered = uncoveredText(now.shown.answer);
  const found = now.count === 0 ? 'No results.' : `${countText(now.count, 'result')}.`;
  return uncovered === undefined ? found : `${found} ${uncovered}`;
}

/**
 * Which line is chosen: the first one until the person has moved, and then theirs for as long as it is
 * listed. So results that arrive never move a choice that somebody has made.
 */
function useChoice(entries: readonly Entry[]) {
  const [movedTo, setMovedTo] = useState<string | null>(null);
  const moved = entries.findIndex(({ id }) => id === movedTo);
  const at = Math.max(0, moved);
  return {
    chosen: entries[at],
    isMoved: moved !== -1,
    choose: (entry: Entry | undefined) => setMovedTo(entry?.id ?? null),
    /** By one line, around the ends. */
    move: (by: 1 | -1) =>
      setMovedTo(entries[(at + by + entries.length) % Math.max(1, entries.length)]?.id ?? null),
    reset: () => setMovedTo(null),
  };
}
