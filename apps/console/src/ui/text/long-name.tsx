import { Fragment } from 'react';
import classes from './long-name.module.css';

/**
 * A name with its namespace, or an address. Where there is no room for all of it on a line, what comes
 * after a slash or an at sign is on the next one; a hyphen ends no line.
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
