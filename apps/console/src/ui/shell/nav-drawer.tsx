import { Drawer } from '@mantine/core';
import { Nav } from './nav.tsx';
import type { DialogProps } from '../dialogs/act-dialog.tsx';

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
