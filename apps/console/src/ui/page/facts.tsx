import type { ReactNode } from 'react';
import classes from './facts.module.css';

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
