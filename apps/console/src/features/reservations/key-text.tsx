import { keyNameOf } from '@leasehold/keys-core';
import { VisibleText } from '~/ui/text.tsx';
import classes from './reservations.module.css';

/** A reserved key: the name of a key, or each string of any other list by itself. */
export function KeyText({ of }: { readonly of: readonly string[] }) {
  const named = keyNameOf(of);
  if (named !== undefined) return <VisibleText>{named.name}</VisibleText>;
  return (
    <span className={classes['parts']}>
      {of.map((part, index) => (
        // The same string may be in a list twice.
        <span key={index} className={`${classes['part'] ?? ''} mono`}>
          {part === '' ? '\u00a0' : <VisibleText>{part}</VisibleText>}
        </span>
      ))}
    </span>
  );
}
