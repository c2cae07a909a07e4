import { printableText } from '@leasehold/keys-core';
import { useEffect, useRef } from 'react';
import { LookBadge, VisibleText } from '~/ui/text.tsx';
import { type Entry, partsOf, type Section } from './entries.ts';
import classes from './palette.module.css';

export const LIST_ID = 'palette-list';
export const optionId = (entry: Entry): string => `palette-${encodeURIComponent(entry.id)}`;

/** The lines of the palette. The focus stays in its field, which names the chosen line. */
export function PaletteList({
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
        <div key={label} role="group" aria-label={label}>
          <div className={classes['section']} aria-hidden>
            {label}
          </div>
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
        </div>
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
    <button
      type="button"
      id={optionId(entry)}
      role="option"
      tabIndex={-1}
      aria-selected={isChosen}
      aria-disabled={whyNot === undefined ? undefined : true}
      className={classes['line']}
      // The focus stays in the field.
      onMouseDown={(event) => event.preventDefault()}
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
    </button>
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
