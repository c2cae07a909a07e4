import { absolute, ago } from '~/lib/format.ts';
import { Tip } from '~/ui/tip.tsx';
import type { Drone } from './drone-texts.ts';

/**
 * How old a drone's last heartbeat was when the database was asked. The age does not grow between two
 * answers, because heartbeats go on meanwhile.
 */
export function Heartbeat({
  drone: { heartbeatAt, heartbeatAgeMs },
}: {
  readonly drone: Pick<Drone, 'heartbeatAt' | 'heartbeatAgeMs'>;
}) {
  if (heartbeatAt === null || heartbeatAgeMs === null) return <span>none yet</span>;
  return (
    <Tip label={<span className="mono">{absolute(heartbeatAt)}</span>}>
      <time dateTime={heartbeatAt} tabIndex={0}>
        {ago(heartbeatAgeMs)}
      </time>
    </Tip>
  );
}
