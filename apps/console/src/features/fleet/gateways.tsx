import { Box } from '@mantine/core';
import { count } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { LookBadge, Mono, RelativeTime } from '~/ui/text.tsx';

/** Reports of gateways make no events. */
const EVERY_MS = 2_000;

const GATEWAY_HEADS = [
  { text: 'Gateway' },
  { text: 'Status' },
  { text: 'Connections', align: 'end' },
  { text: 'Routes', align: 'end' },
  { text: 'Last sync' },
  { text: 'Version' },
] as const;

/** The gateways of this datacenter; nothing where no gateway is configured. */
export function GatewaysPanel() {
  const read = useLiveQuery('gateway', 'list', undefined, { everyMs: EVERY_MS });
  const { data } = read;
  if (data === undefined || (data.url === null && data.items.length === 0)) return null;
  return (
    <Box mt="sm">
      <Panel title="Gateways" meta={data.url === null ? null : <Mono>{data.url}</Mono>} isFlush>
        {data.items.length === 0 ? (
          <EmptyState title="No gateways">
            None has reported in the last day: no backend can be reached from a browser.
          </EmptyState>
        ) : (
          <PlainTable label="Gateways that report" heads={GATEWAY_HEADS}>
            {data.items.map((gateway) => (
              <tr key={gateway.gatewayId}>
                <td>
                  <Mono>{gateway.gatewayId}</Mono>
                </td>
                <td>
                  <LookBadge look={DRONE_LOOKS[gateway.isAlive ? 'ready' : 'unreachable']} />
                </td>
                <td data-align="end">{count(gateway.connections)}</td>
                <td data-align="end">{count(gateway.routes)}</td>
                <td>
                  <RelativeTime at={gateway.seenAt} asOf={data.asOf} />
                </td>
                <td>
                  <Mono>{gateway.version}</Mono>
                </td>
              </tr>
            ))}
          </PlainTable>
        )}
      </Panel>
    </Box>
  );
}
