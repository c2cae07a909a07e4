import { Skeleton } from '@mantine/core';
import { Link } from '~/ui/link.tsx';
import { Facts } from '~/ui/page/facts.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { ErrorState } from '~/ui/states/states.tsx';
import { StaleScope } from '~/ui/states/stale-scope.tsx';
import { CopyableId, LookBadge } from '~/ui/text/text.tsx';
import { endLabel, endOf } from '~/resources/backend-end.ts';
import { BACKEND_LOOKS } from '~/resources/looks.tsx';
import { clockMs } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import classes from './keys.module.css';

const EVERY_MS = 1_500;
/** Only the newest states are shown; the backend's own page has all. */
const STATES_MAX = 8;

/** What runs for the key: its state, its address, and what it went through. */
export function BackendPanel({
  backendId,
  datacenter,
}: {
  readonly backendId: string;
  readonly datacenter: string;
}) {
  const input = { backendId, ...at(datacenter) };
  const read = useLiveQuery('backends', 'get', input, { everyMs: EVERY_MS });
  const backend = read.data;
  if (backend === undefined) {
    return (
      <Panel title="Backend">
        {read.isError ? (
          <ErrorState read={read} what="the backend" />
        ) : (
          <Skeleton height={150} aria-busy="true" />
        )}
      </Panel>
    );
  }
  return (
    <Panel title="Backend" meta={<LookBadge look={BACKEND_LOOKS[backend.status]} />}>
      <StaleScope read={read}>
        <Facts
          items={{
            Backend: (
              <Link href={routes.backend(backendId, datacenter)} className="mono">
                {backendId}
              </Link>
            ),
            Program: backend.program,
            Address:
              backend.address === null ? null : <CopyableId id={backend.address} label="address" />,
            [endLabel(backend.status)]: endOf(backend),
          }}
        />
        <ol className={classes['states']} aria-label="States, oldest first">
          {backend.states.slice(-STATES_MAX).map((state) => (
            <li key={state.id}>
              <LookBadge look={BACKEND_LOOKS[state.status]} />
              <time dateTime={state.at} className="mono">
                {clockMs(state.at)}
              </time>
            </li>
          ))}
        </ol>
      </StaleScope>
    </Panel>
  );
}
