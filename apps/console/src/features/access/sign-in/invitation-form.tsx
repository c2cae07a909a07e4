import { Button, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { acceptInvitation, announceSignIn } from '~/lib/auth.ts';
import { NewPasswordInput } from './new-password-input.tsx';
import { ProblemNotice } from './problem-notice.tsx';
import { passwordProblem, problemOf, type SignInProblem } from './sign-in-texts.ts';

/**
 * Uses a one-time link: an invitation asks for a name and a password, a reset for a password; then
 * the person is signed in.
 */
export function InvitationForm({
  invitation,
  isReset,
  onSignedIn,
}: {
  readonly invitation: string;
  /** They have joined before, and choose a new password. */
  readonly isReset: boolean;
  readonly onSignedIn: () => void | Promise<void>;
}) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [problem, setProblem] = useState<SignInProblem>();
  const [isPending, setPending] = useState(false);

  const submit = async (): Promise<void> => {
    setPending(true);
    setProblem(undefined);
    const trimmed = name.trim();
    const answer = await acceptInvitation({
      invitation,
      password,
      ...(trimmed === '' ? {} : { name: trimmed }),
    });
    if (answer.outcome === 'done') {
      announceSignIn();
      await onSignedIn();
      return;
    }
    setPending(false);
    setProblem(problemOf(answer));
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (passwordProblem(password) === undefined) void submit();
      }}
    >
      <Stack gap="sm">
        {problem === undefined ? null : <ProblemNotice problem={problem} />}
        {isReset ? null : (
          <TextInput
            size="sm"
            label="Your name"
            description="Shown to others beside what you do. Leave it empty to keep the one in the invitation."
            autoComplete="name"
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        )}
        <NewPasswordInput
          label={isReset ? 'New password' : 'Password'}
          value={password}
          onChange={setPassword}
        />
        <Button
          type="submit"
          size="sm"
          mt={4}
          loading={isPending}
          disabled={passwordProblem(password) !== undefined}
        >
          Set password and sign in
        </Button>
      </Stack>
    </form>
  );
}
