import type { ReactNode } from 'react';
import classes from './plain-table.module.css';

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
