import { Tip } from '../tip.tsx';
import { absolute, ago, duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';

/** When something was, in words; the exact time on hover and for the keyboard. */
export function RelativeTime({
  at,
  asOf,
}: {
  readonly at: string;
  /** When the data was made; used while the database's time is not known otherwise. */
  readonly asOf?: string;
}) {
  const nowMs = useDatabaseNow() ?? (asOf === undefined ? null : Date.parse(asOf));
  const text = nowMs === null ? absolute(at) : words(Date.parse(at), nowMs);
  return (
    <Tip label={<span className="mono">{absolute(at)}</span>}>
      <time dateTime={at} tabIndex={0}>
        {text}
      </time>
    </Tip>
  );
}

function words(atMs: number, nowMs: number): string {
  return atMs > nowMs + 1_000 ? `in ${duration(atMs - nowMs)}` : ago(nowMs - atMs);
}
