import { Fragment } from 'react';
import classes from './long-name.module.css';

/**
 * A name with its namespace, or an address. If it does not fit on one line, it breaks after a slash
 * or an at sign, but not after a hyphen.
 */
export function LongName({ children: name }: { readonly children: string }) {
  return name.split(/(?<=[/@])/u).map((part, index) => (
    // The same part may be in a name twice.
    <Fragment key={index}>
      {index === 0 ? null : <wbr className={classes['break']} />}
      <span className={classes['part']}>{part}</span>
    </Fragment>
  ));
}
