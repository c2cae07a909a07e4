import { Anchor } from '@mantine/core';
import { counted } from '~/lib/format.ts';
import { failureText, uncoveredText, type AnsweredText, type useFind } from './use-find.ts';
import classes from './palette.module.css';

/** The last line of the palette: what became of the search. Always there, so that nothing moves. */
export function PaletteStatus({
  text,
  find,
  count,
  shown,
}: {
  readonly text: string;
  readonly find: ReturnType<typeof useFind>;
  /** How many lines are listed. */
  readonly count: number;
  readonly shown: AnsweredText | null;
}) {
  const { error, isSearching, last, retry } = find;
  return (
    <div className={classes['status']}>
      <span role="status">
        {error === null
          ? statusText(text, { isSearching, count, shown, last })
          : failureText(error)}
        {error?.isRetryable === true ? (
          <>
            {' '}
            <Anchor component="button" type="button" size="xs" onClick={retry}>
              Try again
            </Anchor>
          </>
        ) : null}
      </span>
      <span aria-hidden className={classes['keys']}>
        ↑↓ choose · Enter opens · Esc closes
      </span>
    </div>
  );
}

function statusText(
  text: string,
  now: {
    readonly isSearching: boolean;
    readonly count: number;
    readonly shown: AnsweredText | null;
    readonly last: AnsweredText | null;
  },
): string {
  if (text === '') return '';
  if (now.isSearching || now.last?.text !== text) return 'Searching…';
  if (now.shown?.text !== text) return 'Move the pointer away to see the results.';
  const uncovered = uncoveredText(now.shown.answer);
  const found = now.count === 0 ? 'No results.' : `${counted(now.count, 'result')}.`;
  return uncovered === undefined ? found : `${found} ${uncovered}`;
}
