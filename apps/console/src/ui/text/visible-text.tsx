import { IconEyeExclamation } from '@tabler/icons-react';
import { printableText } from '@leasehold/keys-core';
import { Fragment } from 'react';
import { unseenName } from './unseen-names.ts';
import classes from './text.module.css';

const ESCAPE = /(\\u\{[0-9a-f]+\})/u;

/**
 * A text that somebody else chose. Characters that cannot be seen are shown as escapes and marked, so that no
 * name passes for another; its direction does not change what is around it.
 */
export function VisibleText({ children: text }: { readonly children: string }) {
  const parts = printableText(text).split(ESCAPE);
  if (parts.length === 1) return <bdi>{text}</bdi>;
  return (
    <bdi>
      <IconEyeExclamation
        size={14}
        className={classes['unseen-mark']}
        role="img"
        aria-label="Contains invisible characters:"
      />
      {parts.map((part, index) => (
        // The same part may be in a text twice.
        <Fragment key={index}>
          {ESCAPE.test(part) ? (
            <span className={classes['unseen']} title={unseenName(part)}>
              {part}
            </span>
          ) : (
            part
          )}
        </Fragment>
      ))}
    </bdi>
  );
}
