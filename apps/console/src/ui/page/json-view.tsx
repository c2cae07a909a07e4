import { CopyButton, Button } from '@mantine/core';
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
      <div className={classes['scroll']} tabIndex={0} role="region" aria-label={label}>
        <pre className={classes['text']}>{text}</pre>
      </div>
    </div>
  );
}
