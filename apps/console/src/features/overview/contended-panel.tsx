import type { ContendedResource } from '@leasehold/api/contract';
import { Text } from '@mantine/core';
import { Link } from '~/ui/link.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { PlainTable } from '~/ui/page/plain-table.tsx';
import { Mono } from '~/ui/text/text.tsx';
import { count, duration, fullName } from '~/lib/format.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import classes from './overview.module.css';

/** What several callers want at once, most wanted first. */
export function ContendedPanel({
  contended,
}: {
  readonly contended: readonly ContendedResource[];
}) {
  return (
    <Panel
      title="Most contended"
      meta={
        <Link href={routes.leases({ tab: 'contention' })} className={classes['more']}>
          Who waits for whom
        </Link>
      }
      isFlush={contended.length > 0}
    >
      {contended.length === 0 ? (
        <Text size="sm" c="dimmed">
          Nobody waits for anything.
        </Text>
      ) : (
        <div className={classes['contended']}>
          <PlainTable
            label="What several wait for"
            heads={[
              { text: 'Resource' },
              { text: 'Held by' },
              { text: 'Waiting', align: 'end' },
              { text: 'Longest', align: 'end' },
            ]}
          >
            {contended.map((resource) => (
              <tr key={`${resource.face} ${fullName(resource)}`}>
                <td className={classes['name']}>
                  <Link href={routeOf(resource.face, resource)} title={fullName(resource)}>
                    {fullName(resource)}
                  </Link>
                </td>
                <td className={classes['name']}>
                  {resource.holder === null ? (
                    '–'
                  ) : (
                    <Mono title={resource.holder}>{resource.holder}</Mono>
                  )}
                </td>
                <td data-align="end">{count(resource.waiters)}</td>
                <td data-align="end">{duration(resource.longestWaitMs)}</td>
              </tr>
            ))}
          </PlainTable>
        </div>
      )}
    </Panel>
  );
}
