import { List } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { ActDialog } from '~/ui/act-dialog.tsx';
import type { Token } from './token-state.ts';

/** Ends a token: shows what stops working, and asks why. */
export function RevokeTokenDialog({
  token,
  onClose,
}: {
  readonly token: Token | null;
  readonly onClose: () => void;
}) {
  const revoke = useApiMutation('tokens', 'revoke');
  if (token === null) return null;
  const { name, tokenId, role } = token;
  const close = (): void => {
    revoke.reset();
    onClose();
  };
  return (
    <ActDialog
      isOpen
      onClose={close}
      title={`Revoke token ${name}`}
      reason="required"
      actLabel="Revoke token"
      isDangerous
      act={{
        isPending: revoke.isPending,
        error: revoke.error,
        run: (reason) =>
          revoke.mutate(
            { tokenId, reason },
            {
              onSuccess: ({ changed }) => {
                notifications.show({
                  title: name,
                  message: changed ? 'Revoked.' : 'It was revoked already.',
                });
                close();
              },
            },
          ),
      }}
    >
      <List size="sm" spacing={4}>
        <List.Item>
          Every caller that uses it (role {ROLE_LABELS[role].toLowerCase()}) is refused at once, and
          its open connections end.
        </List.Item>
        <List.Item>
          Grants made with it are not released. They expire unless another token renews them.
        </List.Item>
        <List.Item>This cannot be undone. A new token has a new secret.</List.Item>
      </List>
    </ActDialog>
  );
}
