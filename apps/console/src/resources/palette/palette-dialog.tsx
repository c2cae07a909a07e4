import { Modal, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { endTypeAhead } from '~/ui/shell/palette-store.ts';
import { type Entry, KNOWN_LABEL } from './entries.ts';
import { LIST_ID, optionId, PaletteList } from './palette-list.tsx';
import { PaletteStatus } from './palette-status.tsx';
import { useChoice } from './use-choice.ts';
import { type AnsweredText, useFind } from './use-find.ts';
import { usePaletteSections } from './use-palette-sections.ts';
import classes from './palette.module.css';

const TYPING_MS = 80;

/** Anything by any part of its name, any page, and whatever can be done on the open one. */
export function PaletteDialog({ requests }: { readonly requests: number }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(true), [requests]);
  const close = (): void => setOpen(false);
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      withCloseButton={false}
      padding={0}
      size={680}
      yOffset="12vh"
      // What an action opens takes the focus, and gives it back to where it was before the palette.
      transitionProps={{ duration: 0 }}
      attributes={{ content: { 'aria-label': 'Command palette' } }}
    >
      <Palette onClose={close} />
    </Modal>
  );
}

/** Mounted again each time that the palette is opened: it begins empty. */
function Palette({ onClose }: { readonly onClose: () => void }) {
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
    onClose();
    entry.run();
  };
  // What is listed for another text is not what was asked for: Enter then waits for the answer.
  const isChosen =
    isAnswered(text, aim.shown, find.error) || choice.isMoved || sections[0]?.label === KNOWN_LABEL;
  const enter = useEnter(!isChosen, () => run(choice.chosen));
  return (
    <div className={classes['palette']}>
      <TextInput
        aria-label="Go to"
        placeholder="Find a key, a lease, a drone, a person, a page, an action"
        size="md"
        variant="unstyled"
        leftSection={<IconSearch size={16} aria-hidden />}
        className={classes['field'] ?? ''}
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
