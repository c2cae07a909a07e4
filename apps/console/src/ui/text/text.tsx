import { type Icon, IconCheck, IconCopy } from '@tabler/icons-react';
import { type ReactNode, Fragment } from 'react';
import { Tip } from '../tip.tsx';
import { absolute, ago, duration, shortId } from '~/lib/format.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { ActionIcon, CopyButton, Group } from '@mantine/core';
import { VisibleText } from './visible-text.tsx';
import classes from './text.module.css';

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'calm';

/** How a state looks: never colour alone. */
export interface Look {
  readonly label: string;
  readonly tone: Tone;
  readonly icon: Icon;
}

/** A state: an icon, a word, a tone. */
export function LookBadge({
  look,
  isPlain = false,
}: {
  readonly look: Look;
  /** Without a ground: the state of something else, beside the badge of what the row or the page is about. */
  readonly isPlain?: boolean;
}) {
  const { label, tone, icon: LookIcon } = look;
  return (
    <span className={classes['badge']} data-tone={tone} data-plain={isPlain || undefined}>
      <LookIcon size={13} stroke={2} aria-hidden />
      {label}
    </span>
  );
}

/** Ids, tokens and times. */
export function Mono({
  children,
  title,
}: {
  readonly children: ReactNode;
  readonly title?: string;
}) {
  return (
    <span className="mono" title={title}>
      {typeof children === 'string' ? <VisibleText>{children}</VisibleText> : children}
    </span>
  );
}

/**
 * A name with its namespace, or an address. If it does not fit on one line, it breaks after a slash
 * or an at sign, but not after a hyphen.
 */
export function LongName({ children: name }: { readonly children: string }) {
  return name.split(/(?<=[/@])/u).map((part, index) => (
    // The same part may be in a name twice.
    <Fragment key={index}>
      {index === 0 ? null : <wbr className={classes['break']} />}
      <span className={classes['part']}>
        <VisibleText>{part}</VisibleText>
      </span>
    </Fragment>
  ));
}

/** A second line of a cell, for values without a column of their own on pages up to this width. */
export function Under({
  upTo,
  children,
}: {
  readonly upTo: 'sm' | 'md' | 'lg';
  readonly children: ReactNode;
}) {
  return (
    <div className={classes['under']} data-up-to={upTo}>
      {children}
    </div>
  );
}

/** When something was, in words; the exact time on hover and for the keyboard. */
export function RelativeTime({
  at,
  asOf,
}: {
  readonly at: string;
  /** When the data was made; used while the database's time is not known otherwise. */
  readonly asOf?: string;
}) {
  const asOfMs = asOf === undefined ? null : Date.parse(asOf);
  const text = useAtDatabaseNow((tickMs) => {
    const nowMs = tickMs ?? asOfMs;
    return nowMs === null ? absolute(at) : words(Date.parse(at), nowMs);
  });
  return (
    <Tip label={<span className="mono">{absolute(at)}</span>}>
      <time dateTime={at} tabIndex={0}>
        {text}
      </time>
    </Tip>
  );
}

function words(atMs: number, nowMs: number): string {
  return atMs > nowMs + 1_000 ? `in ${duration(atMs - nowMs)}` : ago(nowMs - atMs);
}

/** An id with a button that copies it; `isShort` shows its end. */
export function CopyableId({
  id,
  label,
  isShort = false,
}: {
  readonly id: string;
  /** What kind of id it is, for the button's name: `lease id`. */
  readonly label: string;
  readonly isShort?: boolean;
}) {
  return (
    <Group gap={2} wrap="nowrap" component="span" display="inline-flex">
      <Mono title={id}>{isShort ? shortId(id) : id}</Mono>
      <CopyButton value={id}>
        {({ copied, copy }) => (
          <Tip label={copied ? 'Copied' : `Copy the ${label}`}>
            <ActionIcon size="xs" onClick={copy} aria-label={`Copy the ${label}`}>
              {copied ? <IconCheck size={12} /> : <IconCopy size={12} />}
            </ActionIcon>
          </Tip>
        )}
      </CopyButton>
    </Group>
  );
}
