import { absolute, duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { Tip } from '~/ui/tip.tsx';

/** How long something has lasted, updated every second; the exact start on hover and focus. */
export function Waited({ since, asOf }: { readonly since: string; readonly asOf: string }) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  return (
    <Tip label={<span className="mono">since {absolute(since)}</span>}>
      <time dateTime={since} tabIndex={0}>
        {duration(nowMs - Date.parse(since))}
      </time>
    </Tip>
  );
}
