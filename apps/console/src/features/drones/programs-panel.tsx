import { Table } from '@mantine/core';
import { Panel } from '~/components/panel.tsx';
import { Mono } from '~/components/text/mono.tsx';
import type { Drone } from './drone-texts.ts';

/** What a drone can run, and what a request may pass to it. */
export function ProgramsPanel({ programs }: { readonly programs: Drone['programs'] }) {
  return (
    <Panel title="Programs" isFlush>
      <div style={{ overflowX: 'auto' }} role="region" tabIndex={0} aria-label="What it can run">
        <Table horizontalSpacing="sm" verticalSpacing={6} fz="sm">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Program</Table.Th>
              <Table.Th>Accepts arguments</Table.Th>
              <Table.Th>Accepts variables</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {programs.map(({ name, allowArgs, allowEnv }) => (
              <Table.Tr key={name}>
                <Table.Td>
                  <Mono>{name}</Mono>
                </Table.Td>
                <Table.Td>{allowArgs ? 'yes' : 'no'}</Table.Td>
                <Table.Td>
                  {allowEnv.length === 0 ? 'no' : <Mono>{allowEnv.join(', ')}</Mono>}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
    </Panel>
  );
}
