import type { ReactNode } from 'react';
import classes from './under.module.css';

/** A second line of a cell, for what has no column of its own on a page up to so narrow. */
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
