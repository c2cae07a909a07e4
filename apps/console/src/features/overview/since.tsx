import { duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';

const MINUTE_MS = 60_000;

/** `for 4 min`: it grows while it is shown, which nobody is told again and again. */
export function Since({ at, asOf }: { readonly at: string; readonly asOf: string }) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  const ms = nowMs - Date.parse(at);
  // From a minute on seconds tell nothing.
  const text = duration(ms < MINUTE_MS ? ms : Math.floor(ms / MINUTE_MS) * MINUTE_MS);
  return (
    <span className="dimmed" aria-live="off">
      for <time dateTime={at}>{ms < 1_000 ? '1 s' : text}</time>
    </span>
  );
}
