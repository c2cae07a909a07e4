import { Fragment } from 'react';
import classes from './long-name.module.css';

/** A name with its namespace; where there is no room for it, it goes on in a new line after a slash. */
export function LongName({ children: name }: { readonly children: string }) {
  return (
    <span className={classes['name']}>
      {name.split('/').map((part, index) => (
        // The same part may be in a name twice.
        <Fragment key={index}>
          {index === 0 ? null : (
            <>
              /<wbr />
            </>
          )}
          {part}
        </Fragment>
      ))}
    </span>
  );
}
