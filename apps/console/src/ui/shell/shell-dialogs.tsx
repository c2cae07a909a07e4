import { Drawer, Kbd, Modal, Switch, Table, Text } from '@mantine/core';
import { Fragment } from 'react';
import { useSignal } from '~/lib/signal.ts';
import type { DialogProps } from '~/ui/act-dialog.tsx';
import { areShortcutsOn, setShortcutsOn, shortcuts } from '~/ui/use-shortcut.ts';
import { Nav } from './nav.tsx';

/** The links to all pages, where the page is too narrow to show them permanently. */
export function NavDrawer({ isOpen, onClose }: DialogProps) {
  return (
    <Drawer.Root opened={isOpen} onClose={onClose} size="15rem" padding={0}>
      <Drawer.Overlay />
      <Drawer.Content aria-label="Pages">
        <Drawer.Body>
          <Nav onNavigate={onClose} />
        </Drawer.Body>
      </Drawer.Content>
    </Drawer.Root>
  );
}

/** What the keyboard can do on this page, and the switch that turns it off. */
export function ShortcutsDialog({ isOpen, onClose }: DialogProps) {
  const known = useSignal(shortcuts);
  const isOn = useSignal(areShortcutsOn);
  const rows = [...new Map(known.map((entry) => [entry.key, entry])).values()];
  return (
    <Modal opened={isOpen} onClose={onClose} title="Keyboard shortcuts">
      <Table>
        <Table.Tbody>
          <Table.Tr>
            <Table.Td>
              <Kbd>Ctrl</Kbd> <Kbd>K</Kbd>
            </Table.Td>
            <Table.Td>Open the command palette</Table.Td>
          </Table.Tr>
          <Table.Tr>
            <Table.Td>
              <Kbd>Ctrl</Kbd> <Kbd>Enter</Kbd>
            </Table.Td>
            <Table.Td>Confirm a dialog</Table.Td>
          </Table.Tr>
          {rows.map(({ key, help }) => (
            <Table.Tr key={key}>
              <Table.Td>
                {key.split(' ').map((one) => (
                  <Fragment key={one}>
                    <Kbd>{one}</Kbd>{' '}
                  </Fragment>
                ))}
              </Table.Td>
              <Table.Td>{help}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Switch
        mt="md"
        label="Single-key shortcuts"
        checked={isOn}
        onChange={(event) => setShortcutsOn(event.currentTarget.checked)}
      />
      <Text size="xs" c="dimmed" mt={4}>
        They are off while you type. The command palette works either way.
      </Text>
    </Modal>
  );
}
