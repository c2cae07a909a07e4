import type { ContendedResource } from '@leasehold/api/contract';
import { Table, Text } from '@mantine/core';
import { Link } from '~/components/link.tsx';
import { Panel } from '~/components/panel.tsx';
import { Mono } from '~/components/text/mono.tsx';
import { count, duration, fullName } from '~/lib/format.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import classes from './overview.module.css';

/** What several want at once, most wanted first. */
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
    >
      {contended.length === 0 ? (
        <Text size="sm" c="dimmed">
          Nobody waits for anything.
        </Text>
      ) : (
        <div className={classes['sideways']} tabIndex={0} role="region" aria-label="Most contended">
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Resource</Table.Th>
                <Table.Th>Held by</Table.Th>
                <Table.Th ta="right">Waiting</Table.Th>
                <Table.Th ta="right">Longest</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {contended.map((resource) => (
                <Table.Tr key={`${resource.face} ${fullName(resource)}`}>
                  <Table.Td className={classes['name'] ?? ''}>
                    <Link href={routeOf(resource.face, resource)}>{fullName(resource)}</Link>
                  </Table.Td>
                  <Table.Td className={classes['name'] ?? ''}>
                    {resource.holder === null ? '–' : <Mono>{resource.holder}</Mono>}
                  </Table.Td>
                  <Table.Td ta="right">{count(resource.waiters)}</Table.Td>
                  <Table.Td ta="right">{duration(resource.longestWaitMs)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </div>
      )}
    </Panel>
  );
}
