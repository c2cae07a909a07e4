import { Table } from '@mantine/core';
import { Panel } from '~/components/panel.tsx';
import { Mono } from '~/components/text/mono.tsx';
import type { Drone } from './drone-texts.ts';

/** What a drone can run, and what a request may pass to it. */
export function ProgramsPanel({ programs }: { readonly programs: Drone['programs'] }) {
  return (
    <Panel title="Programs" isFlush>
      <div style={{ overflowX: 'auto' }} role="region" tabIndex={0} aria-label="Programs">
        <Table horizontalSpacing="sm" verticalSpacing={6} fz="sm">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Program</Table.Th>
              <Table.Th>Arguments of a request</Table.Th>
              <Table.Th>Variables of a request</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {programs.map(({ name, allowArgs, allowEnv }) => (
              <Table.Tr key={name}>
                <Table.Td>
                  <Mono>{name}</Mono>
                </Table.Td>
                <Table.Td>{allowArgs ? 'accepted' : 'refused'}</Table.Td>
                <Table.Td>
                  {allowEnv.length === 0 ? 'none' : <Mono>{allowEnv.join(', ')}</Mono>}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
    </Panel>
  );
}
