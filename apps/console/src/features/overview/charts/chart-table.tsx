import type { StatsPoint } from '@leasehold/api/contract';
import { ScrollArea, Table } from '@mantine/core';
import { clockTime } from '~/lib/format.ts';
import { valueText, type ChartSpec } from './chart-series.ts';

/** The numbers of a chart, newest first. */
export function ChartTable({
  chart,
  points,
}: {
  readonly chart: ChartSpec;
  readonly points: readonly StatsPoint[];
}) {
  return (
    <ScrollArea
      h={204}
      viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': `${chart.title}, in numbers` }}
    >
      <Table stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>From</Table.Th>
            {chart.series.map(({ name, label }) => (
              <Table.Th key={name} ta="right">
                {label}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {points.toReversed().map((point) => (
            <Table.Tr key={point.at}>
              <Table.Td className="mono">{clockTime(point.at)}</Table.Td>
              {chart.series.map(({ name }) => {
                const value = point[name];
                return (
                  <Table.Td key={name} ta="right">
                    {value === null ? '–' : valueText(chart, value)}
                  </Table.Td>
                );
              })}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}
