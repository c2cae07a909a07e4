'use client';

import { ActionIcon, Menu, Text } from '@mantine/core';
import { IconLogout, IconUserCircle } from '@tabler/icons-react';
import { signOut } from '~/lib/auth.ts';
import { useSession } from '~/lib/session.tsx';

/** Who is signed in, and the way out. */
export function AccountMenu() {
  const { actor, role } = useSession();
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <ActionIcon size="md" aria-label={`Account of ${actor}`}>
          <IconUserCircle size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <Text size="sm" truncate>
            {actor}
          </Text>
          <Text size="xs" c="dimmed">
            role {role}
          </Text>
        </Menu.Label>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={15} />} onClick={() => void signOut()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
