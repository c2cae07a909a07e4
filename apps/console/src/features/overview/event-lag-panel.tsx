import type { EventLag } from '@leasehold/api/contract';
import { Code, Text } from '@mantine/core';
import { duration } from '~/lib/format.ts';
import { Facts, Panel } from '~/ui/page.tsx';
import { Mono } from '~/ui/text.tsx';
import { EVENTS_LATE_MS, remedyOf } from './event-lag.ts';
import classes from './overview.module.css';

/** Which transaction holds the events back, and how to end it; nothing while events are in time. */
export function EventLagPanel({ lag: { lagMs, culprit } }: { readonly lag: EventLag }) {
  if (lagMs <= EVENTS_LATE_MS) return null;
  return (
    <Panel title="Events are held back">
      <Text size="sm">
        A transaction that is still open may write an event older than the newest ones. Until it
        ends, nobody receives those: not this page, not <Code>events tail</Code>, not a service that
        watches events. Leases and keys do not wait for it.
      </Text>
      {culprit === null ? null : (
        <>
          <Facts
            items={{
              'Events are late by': duration(lagMs),
              Process: culprit.pid === null ? null : <Mono>{`pid ${String(culprit.pid)}`}</Mono>,
              'Prepared as': culprit.preparedAs && <bdi className="mono">{culprit.preparedAs}</bdi>,
              Application: culprit.applicationName && <bdi>{culprit.applicationName}</bdi>,
              Database: culprit.database && <bdi className="mono">{culprit.database}</bdi>,
              State: culprit.state,
              'Open for': culprit.ageMs === null ? null : duration(culprit.ageMs),
              'Last statement began':
                culprit.queryAgeMs === null ? null : `${duration(culprit.queryAgeMs)} ago`,
            }}
          />
          <Text size="sm">{remedyOf(culprit).text}</Text>
          <Code block className={classes['remedy'] ?? ''}>
            {remedyOf(culprit).sql}
          </Code>
        </>
      )}
    </Panel>
  );
}
