import type { ReactNode } from 'react';
import classes from './under.module.css';

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
