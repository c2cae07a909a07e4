import { printableText } from '@leasehold/keys-core';
import { ActionIcon, CopyButton, Group } from '@mantine/core';
import { type Icon, IconCheck, IconCopy, IconEyeExclamation } from '@tabler/icons-react';
import NextLink from 'next/link';
import { type ComponentProps, Fragment, type ReactNode } from 'react';
import { absolute, ago, duration, shortId } from '~/lib/format.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { Tip } from './tip.tsx';
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

const ESCAPE = /(\\u\{[0-9a-f]+\})/u;

/**
 * A text that somebody else chose. Characters that cannot be seen are shown as escapes and marked, so that no
 * name passes for another; its direction does not change what is around it.
 */
export function VisibleText({ children: text }: { readonly children: string }) {
  const parts = printableText(text).split(ESCAPE);
  if (parts.length === 1) return <bdi>{text}</bdi>;
  return (
    <bdi>
      <IconEyeExclamation
        size={14}
        className={classes['unseen-mark']}
        role="img"
        aria-label="Contains invisible characters:"
      />
      {parts.map((part, index) => (
        // The same part may be in a text twice.
        <Fragment key={index}>
          {ESCAPE.test(part) ? (
            <span className={classes['unseen']} title={unseenName(part)}>
              {part}
            </span>
          ) : (
            part
          )}
        </Fragment>
      ))}
    </bdi>
  );
}

/** The characters of which names are made that look like other names, as Unicode calls them. */
const NAMES: Readonly<Record<string, string>> = {
  '5c': 'backslash',
  a0: 'no-break space',
  ad: 'soft hyphen',
  '200b': 'zero width space',
  '200c': 'zero width non-joiner',
  '200d': 'zero width joiner',
  '200e': 'left-to-right mark',
  '200f': 'right-to-left mark',
  '202a': 'left-to-right embedding',
  '202b': 'right-to-left embedding',
  '202c': 'pop directional formatting',
  '202d': 'left-to-right override',
  '202e': 'right-to-left override',
  '2060': 'word joiner',
  '2066': 'left-to-right isolate',
  '2067': 'right-to-left isolate',
  '2068': 'first strong isolate',
  '2069': 'pop directional isolate',
  '3000': 'ideographic space',
  '3164': 'Hangul filler',
  feff: 'zero width no-break space',
};

/** `\u{202e}` as a person reads it: `U+202E, right-to-left override`. */
function unseenName(escape: string): string {
  const code = escape.slice(3, -1);
  const point = `U+${code.toUpperCase().padStart(4, '0')}`;
  const name = NAMES[code];
  return name === undefined ? point : `${point}, ${name}`;
}

/**
 * A link to a page of the console, which is fetched when it is followed. Next's own link fetches the
 * page of every visible link: a table of a hundred rows would send a hundred requests, and the stream
 * of events would wait behind them.
 */
export function Link(props: ComponentProps<typeof NextLink>) {
  return <NextLink prefetch={false} {...props} />;
}

/** The name, with a key's bow and three rungs of the ladder for bits. */
export function Wordmark() {
  return (
    <span className={classes['wordmark']}>
      <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden focusable="false">
        <circle cx="6" cy="11" r="4" fill="none" stroke="currentColor" strokeWidth="2" />
        <path d="M10 11h11M14 11v4M17.5 11v3M21 11v5" stroke="currentColor" strokeWidth="2" />
      </svg>
      Leasehold
    </span>
  );
}
