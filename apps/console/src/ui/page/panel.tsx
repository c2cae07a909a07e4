import { Title } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './panel.module.css';

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
        <Title order={2} className={classes['title'] ?? ''}>
          {title}
        </Title>
        {meta}
      </div>
      <div className={isFlush ? undefined : classes['body']}>{children}</div>
    </section>
  );
}
