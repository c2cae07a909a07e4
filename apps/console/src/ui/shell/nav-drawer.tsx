'use client';

import { Drawer } from '@mantine/core';
import { Nav } from './nav.tsx';

/** The way between pages, where the page is too narrow for it to stay. */
export function NavDrawer({
  isOpen,
  onClose,
}: {
  readonly isOpen: boolean;
  readonly onClose: () => void;
}) {
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
