import { Button, Group, Modal, PasswordInput, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { NewPasswordInput } from '../sign-in/new-password-input.tsx';
import { ProblemNotice } from '../sign-in/problem-notice.tsx';
import { passwordProblem, problemOf, type SignInProblem } from '../sign-in/sign-in-texts.ts';
import { changePassword } from '~/lib/auth.ts';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut, useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import type { DialogProps } from '~/ui/act-dialog.tsx';

/** Changes the password of the person who is signed in; their other sessions end. */
export function ChangePasswordDialog({ isOpen, onClose }: DialogProps) {
  const isSignedOut = useSignal(signedOut);
  return (
    <Modal opened={isOpen} onClose={onClose} title="Change password" closeOnEscape={!isSignedOut}>
      <ChangePasswordForm onClose={onClose} />
    </Modal>
  );
}

function ChangePasswordForm({ onClose }: { readonly onClose: () => void }) {
  const { person } = useSession();
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const [problem, setProblem] = useState<SignInProblem>();
  const [isPending, setPending] = useState(false);
  useEffect(() => pause.hold(), []);

  const submit = async (): Promise<void> => {
    setPending(true);
    setProblem(undefined);
    const answer = await changePassword({ currentPassword: current, newPassword: next });
    setPending(false);
    if (answer.outcome === 'done') {
      notifications.show({
        title: 'Password changed',
        message: 'Your other sessions have ended. This one continues.',
      });
      onClose();
      return;
    }
    if (answer.code === 'auth.required') signedOut.raise();
    else setProblem(problemOf(answer));
  };
  const mayChange = current !== '' && passwordProblem(next) === undefined && !isPending;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (mayChange) void submit();
      }}
    >
      <Stack gap="sm">
        <Text size="sm" c="dimmed">
          Your other sessions end, in every browser. This one continues.
        </Text>
        {problem === undefined ? null : <ProblemNotice problem={problem} />}
        {/* For the browser, which keeps passwords by name. */}
        <input hidden readOnly autoComplete="username" value={person?.email ?? ''} />
        <PasswordInput
          size="sm"
          label="Current password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          data-autofocus
          value={current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <NewPasswordInput label="New password" value={next} onChange={setNext} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!mayChange} loading={isPending}>
            Change password
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
