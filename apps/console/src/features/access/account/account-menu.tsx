import { ActionIcon, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconLogout, IconLogout2, IconPassword, IconUserCircle } from '@tabler/icons-react';
import { ROLE_LABELS, ROLE_TEXTS, signOut } from '~/lib/auth.ts';
import { useSession } from '~/lib/session.tsx';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { LazyMenu } from '~/ui/menus.tsx';

const ChangePasswordDialog = lazyDialog('isOpen', () =>
  import('./change-password-dialog.tsx').then((module) => module.ChangePasswordDialog),
);
const SignOutEverywhereDialog = lazyDialog('isOpen', () =>
  import('./sign-out-everywhere-dialog.tsx').then((module) => module.SignOutEverywhereDialog),
);

/** Who is signed in, what they may do, and the ways to sign out. */
export function AccountMenu() {
  const { actor, role, person } = useSession();
  const [isChanging, changing] = useDisclosure(false);
  const [isEnding, ending] = useDisclosure(false);
  return (
    <>
      <LazyMenu
        position="bottom-end"
        widthPx={290}
        button={(props) => (
          <ActionIcon {...props} size="md" aria-label={`Account of ${actor}`}>
            <IconUserCircle size={18} />
          </ActionIcon>
        )}
      >
        {(menu) => (
          <>
            <div style={{ padding: '0.4rem 0.75rem 0.5rem' }}>
              <Text size="sm" fw={500} truncate>
                {person?.name ?? actor}
              </Text>
              {person === null || person.name === person.email ? null : (
                <Text size="xs" c="dimmed" truncate>
                  {person.email}
                </Text>
              )}
              <Text size="xs" mt={6} fw={500}>
                {ROLE_LABELS[role]}
              </Text>
              <Text size="xs" c="dimmed">
                {ROLE_TEXTS[role]}
              </Text>
            </div>
            <menu.Divider />
            {person?.signInMethods.includes('password') === true ? (
              <menu.Item leftSection={<IconPassword size={15} />} onClick={changing.open}>
                Change password
              </menu.Item>
            ) : null}
            <menu.Item leftSection={<IconLogout2 size={15} />} onClick={ending.open}>
              Sign out everywhere
            </menu.Item>
            <menu.Item leftSection={<IconLogout size={15} />} onClick={() => void signOut()}>
              Sign out
            </menu.Item>
          </>
        )}
      </LazyMenu>
      <ChangePasswordDialog isOpen={isChanging} onClose={changing.close} />
      <SignOutEverywhereDialog isOpen={isEnding} onClose={ending.close} />
    </>
  );
}
