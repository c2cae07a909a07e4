import { Button, CopyButton, Group, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './page.module.css';

/** A page's title, what is shown beside it, and what can be done on the page. */
export function PageHeader({
  title,
  eyebrow,
  meta,
  actions,
}: {
  readonly title: ReactNode;
  /** The way back: a link to the list that a detail page belongs to. */
  readonly eyebrow?: ReactNode;
  /** Beside the title: a phase, the age of the data. */
  readonly meta?: ReactNode;
  readonly actions?: ReactNode;
}) {
  return (
    <div className={classes['header']}>
      <div className={classes['names']}>
        {eyebrow === undefined ? null : <div className={classes['eyebrow']}>{eyebrow}</div>}
        <Group gap="sm" align="center">
          <Title order={1} className={classes['title'] ?? ''}>
            {title}
          </Title>
          {meta}
        </Group>
      </div>
      {actions === undefined ? null : <Group gap="xs">{actions}</Group>}
    </div>
  );
}

/** The search and the filters of a list, side by side where there is room. */
export function FilterRow({ children }: { readonly children: ReactNode }) {
  return <div className={classes['row']}>{children}</div>;
}

/** A part of a page with a name of its own. */
export function Panel({
  title,
  meta,
  children,
  isFlush = false,
}: {
  readonly title: string;
  readonly meta?: ReactNode;
  readonly children: ReactNode;
  /** For tables: they reach the panel's edges. */
  readonly isFlush?: boolean;
}) {
  return (
    <section className={classes['panel']} aria-label={title}>
      <div className={classes['head']}>
        <Title order={2} className={classes['panel-title'] ?? ''}>
          {title}
        </Title>
        {meta}
      </div>
      <div className={isFlush ? undefined : classes['body']}>{children}</div>
    </section>
  );
}

/** Names and values, side by side; values that are null are left out. */
export function Facts({
  items,
  isFirstWide = false,
}: {
  readonly items: Readonly<Record<string, ReactNode>>;
  /** Whether the first one is twice as wide. */
  readonly isFirstWide?: boolean;
}) {
  return (
    <dl className={classes['facts']} data-wide-first={isFirstWide || undefined}>
      {Object.entries(items)
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([name, value]) => (
          <div key={name} className={classes['fact']}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A short table without pages or order: facts in rows. Its rows are `<tr>`s; numbers are `data-align="end"`. */
export function PlainTable({
  label,
  heads,
  children,
}: {
  /** What a screen reader calls it. */
  readonly label: string;
  readonly heads: readonly { readonly text: string; readonly align?: 'end' }[];
  readonly children: ReactNode;
}) {
  return (
    <div className={classes['sideways']} tabIndex={0} role="region" aria-label={label}>
      <table className={classes['table']}>
        <thead>
          <tr>
            {heads.map(({ text, align }) => (
              <th key={text} scope="col" data-align={align}>
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** A value as the API gave it. */
export function JsonView({ value, label }: { readonly value: unknown; readonly label: string }) {
  const text = JSON.stringify(value, null, 2);
  return (
    <div className={classes['json']}>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button
            variant="default"
            size="compact-xs"
            className={classes['copy'] ?? ''}
            onClick={copy}
          >
            {copied ? 'Copied' : 'Copy'}
          </Button>
        )}
      </CopyButton>
      <div className={classes['scroll']} tabIndex={0} role="region" aria-label={label}>
        <pre className={classes['text']}>{text}</pre>
      </div>
    </div>
  );
}
