'use client';

import { Table } from '@mantine/core';
import type { Outputs } from '~/lib/api/api.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { DetailPage } from '~/ui/detail-page.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { NotAllowed } from '~/ui/states.tsx';
import { Mono, VisibleText } from '~/ui/text.tsx';

type Settings = Outputs['settings']['list'];

/** It changes when a controller is started again. */
const EVERY_MS = 60_000;

/** The configuration in effect, which is changed where controllers are started. */
export function ConfigurationPage() {
  const whyNot = useWhyNot('admin');
  if (whyNot !== undefined) {
    return (
      <>
        <PageHeader title="Configuration" />
        <NotAllowed whyNot={whyNot}>Administrators read how controllers are configured.</NotAllowed>
      </>
    );
  }
  return <Settings />;
}

function Settings() {
  const read = useLiveQuery('settings', 'list', undefined, { everyMs: EVERY_MS });
  return (
    <DetailPage<Settings>
      title="Configuration"
      what="the configuration"
      read={read}
      everyMs={EVERY_MS}
      missing={null}
      eyebrow={null}
      meta={() => null}
      actions={() => null}
    >
      {({ items }) => (
        <>
          <p className="dimmed">
            What the controller that answered was started with. It is changed by the variables of
            its process, and by a restart. Secrets are not shown.
          </p>
          <Table.ScrollContainer minWidth={320}>
            {/* On a narrow page names and values are broken alike, so that neither takes the room of the other. */}
            <Table layout="fixed" style={{ overflowWrap: 'anywhere' }}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th w="min(20rem, 45%)">Variable</Table.Th>
                  <Table.Th>In effect</Table.Th>
                  <Table.Th w="4.5rem">From</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {items.map((setting) => (
                  <Table.Tr key={setting.name}>
                    <Table.Td>
                      <Mono>{setting.name}</Mono>
                    </Table.Td>
                    <Table.Td>
                      <Value of={setting} />
                    </Table.Td>
                    <Table.Td>{setting.isSet ? 'set' : 'default'}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </>
      )}
    </DetailPage>
  );
}

function Value({ of: { value, isSecret, isSet } }: { readonly of: Settings['items'][number] }) {
  if (value === null || value === '') {
    return <span className="dimmed">{isSecret && isSet ? 'set, not shown' : '–'}</span>;
  }
  return <VisibleText>{value}</VisibleText>;
}
