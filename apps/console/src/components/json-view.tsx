'use client';

import { CopyButton, Button, ScrollArea } from '@mantine/core';
import classes from './json-view.module.css';

/** A value as the API gave it. */
export function JsonView({ value, label }: { readonly value: unknown; readonly label: string }) {
  const text = JSON.stringify(value, null, 2);
  return (
    <div className={classes['json']}>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button
            variant="default"
            size="compact-xs"
            className={classes['copy'] ?? ''}
            onClick={copy}
          >
            {copied ? 'Copied' : 'Copy'}
          </Button>
        )}
      </CopyButton>
      <ScrollArea.Autosize
        mah={520}
        viewportProps={{ tabIndex: 0, 'aria-label': label, role: 'region' }}
      >
        <pre className={classes['text']}>{text}</pre>
      </ScrollArea.Autosize>
    </div>
  );
}
