import { Tip } from '../tip.tsx';
import { absolute, ago } from '~/lib/format.ts';
import { useFreshness, type Read } from '~/lib/live/use-freshness.ts';
import classes from './data-age.module.css';

/** `as of 2 s ago`, with the database's time on hover; marks stale data. */
export function DataAge({
  read,
  asOf,
}: {
  readonly read: Read;
  readonly asOf: string | undefined;
}) {
  const { ageMs, isStale } = useFreshness(read);
  if (read.dataUpdatedAt === 0) return null;
  const age = (
    <span
      className={classes['age']}
      data-stale={isStale || undefined}
      {...(asOf === undefined ? {} : { tabIndex: 0 })}
    >
      {isStale ? 'stale: ' : ''}as of {ago(ageMs)}
    </span>
  );
  // Lists whose answer does not carry the database's time have an age all the same.
  if (asOf === undefined) return age;
  return <Tip label={<span className="mono">database time {absolute(asOf)}</span>}>{age}</Tip>;
}
