import { Panel } from '~/ui/page/panel.tsx';
import { PlainTable } from '~/ui/page/plain-table.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import type { Drone } from '../drone-texts.ts';

/** What a drone can run, and what a request may pass to it. */
export function ProgramsPanel({ programs }: { readonly programs: Drone['programs'] }) {
  return (
    <Panel title="Programs" isFlush>
      <PlainTable
        label="What it can run"
        heads={[{ text: 'Program' }, { text: 'Accepts arguments' }, { text: 'Accepts variables' }]}
      >
        {programs.map(({ name, allowArgs, allowEnv }) => (
          <tr key={name}>
            <td>
              <span style={{ whiteSpace: 'nowrap' }}>
                <Mono>{name}</Mono>
              </span>
            </td>
            <td>{allowArgs ? 'yes' : 'no'}</td>
            <td>{allowEnv.length === 0 ? 'no' : <Mono>{allowEnv.join(', ')}</Mono>}</td>
          </tr>
        ))}
      </PlainTable>
    </Panel>
  );
}
