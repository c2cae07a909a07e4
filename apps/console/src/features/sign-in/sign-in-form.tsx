'use client';

import { Button, PasswordInput, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Notice } from '~/components/states/notice.tsx';
import { signIn } from '~/lib/auth.ts';

/** E-mail and password. Used by the sign-in page, and over a page whose session has ended. */
export function SignInForm({
  email: knownEmail,
  onSignedIn,
}: {
  /** Whoever was signed in before; they may not become somebody else half-way. */
  readonly email?: string;
  readonly onSignedIn: () => void;
}) {
  const [email, setEmail] = useState(knownEmail ?? '');
  const [password, setPassword] = useState('');
  const [problem, setProblem] = useState<string>();
  const [isPending, setPending] = useState(false);

  const submit = async (): Promise<void> => {
    setPending(true);
    setProblem(undefined);
    const answer = await signIn(email.trim(), password);
    setPending(false);
    if (answer.outcome === 'done') {
      onSignedIn();
      return;
    }
    setPassword('');
    setProblem(answer.message);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <Stack gap="sm">
        {problem === undefined ? null : <Notice tone="bad">{problem}</Notice>}
        <TextInput
          size="sm"
          label="E-mail"
          type="email"
          autoComplete="username"
          required
          disabled={knownEmail !== undefined}
          value={email}
          onChange={(event) => {
            setEmail(event.currentTarget.value);
          }}
        />
        <PasswordInput
          size="sm"
          label="Password"
          autoComplete="current-password"
          required
          data-autofocus
          value={password}
          onChange={(event) => {
            setPassword(event.currentTarget.value);
          }}
        />
        <Button type="submit" size="sm" loading={isPending}>
          Sign in
        </Button>
      </Stack>
    </form>
  );
}
