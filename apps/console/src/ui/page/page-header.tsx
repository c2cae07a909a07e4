import { Group, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './page-header.module.css';

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
