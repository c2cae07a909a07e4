import { Skeleton, Text } from '@mantine/core';
import { Link } from '~/ui/link.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { ErrorState } from '~/ui/states/states.tsx';
import { StaleScope } from '~/ui/states/stale-scope.tsx';
import { RelativeTime } from '~/ui/text/text.tsx';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session/session.tsx';
import { fullName } from '~/lib/format.ts';
import classes from './overview.module.css';

const ACTS_SHOWN = 8;

/** What operators did lately, and why. */
export function RecentActs() {
  const whyNot = useWhyNot('operator');
  const read = useLiveQuery(
    'audit',
    'list',
    { limit: ACTS_SHOWN },
    { enabled: whyNot === undefined },
  );
  return (
    <Panel
      title="Recent operator actions"
      meta={
        <Link href={routes.audit()} className={classes['more']}>
          Audit
        </Link>
      }
    >
      {whyNot !== undefined ? (
        <Text size="sm" c="dimmed">
          {whyNot}
        </Text>
      ) : read.data === undefined && read.isError ? (
        <ErrorState read={read} what="the audit" />
      ) : read.data === undefined ? (
        <Skeleton height={120} aria-busy="true" />
      ) : read.data.items.length === 0 ? (
        <Text size="sm" c="dimmed">
          No operator has done anything yet.
        </Text>
      ) : (
        <StaleScope read={read}>
          <ol className={classes['acts']}>
            {read.data.items.map((act) => (
              <li key={act.id}>
                <span>
                  <strong>{act.action}</strong> <span className="mono">{actTarget(act)}</span>
                  {act.reason === null ? null : <span className="dimmed"> “{act.reason}”</span>}
                </span>
                <span className="small-print">
                  {act.actor} · <RelativeTime at={act.at} />
                </span>
              </li>
            ))}
          </ol>
        </StaleScope>
      )}
    </Panel>
  );
}

/** What an act was done to, as people call it: a resource by its name, anything else by its id. */
function actTarget(act: { readonly resource: string; readonly detail?: unknown }): string {
  const { detail } = act;
  if (typeof detail === 'object' && detail !== null && 'name' in detail && 'namespace' in detail) {
    const { name, namespace } = detail;
    if (typeof name === 'string' && typeof namespace === 'string') {
      return fullName({ name, namespace });
    }
  }
  return act.resource;
}
