import type { ReactNode } from 'react';
import classes from './filter-row.module.css';

/** The search and the filters of a list, side by side where there is room. */
export function FilterRow({ children }: { readonly children: ReactNode }) {
  return <div className={classes['row']}>{children}</div>;
}
