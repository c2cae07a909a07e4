import type { ReactNode } from 'react';
import classes from './facts.module.css';

/** Names and values, side by side; values that are null are left out. */
export function Facts({
  items,
}: {
  readonly items: readonly (readonly [name: string, value: ReactNode])[];
}) {
  return (
    <dl className={classes['facts']}>
      {items
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
