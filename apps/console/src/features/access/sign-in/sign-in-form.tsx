import { Button, PasswordInput, Stack, TextInput } from '@mantine/core';
import { useRef, useState } from 'react';
import { announceSignIn, signIn } from '~/lib/auth.ts';
import { ProblemNotice } from './problem-notice.tsx';
import { problemOf, type SignInProblem } from './sign-in-texts.ts';

/** E-mail and password. Used by the sign-in page, and over a page whose session has ended. */
export function SignInForm({
  email: knownEmail,
  onSignedIn,
}: {
  /** The address of the person who was signed in before; it cannot be changed. */
  readonly email?: string;
  /** Called after the sign-in; the button stays busy until it is done. */
  readonly onSignedIn: () => void | Promise<void>;
}) {
  const [email, setEmail] = useState(knownEmail ?? '');
  const [password, setPassword] = useState('');
  const [problem, setProblem] = useState<SignInProblem>();
  const [isPending, setPending] = useState(false);
  const passwordInput = useRef<HTMLInputElement>(null);

  const submit = async (): Promise<void> => {
    setPending(true);
    setProblem(undefined);
    const answer = await signIn(email.trim(), password);
    if (answer.outcome === 'done') {
      announceSignIn();
      await onSignedIn();
      setPending(false);
      return;
    }
    setPending(false);
    setPassword('');
    setProblem(problemOf(answer));
    passwordInput.current?.focus();
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <Stack gap="sm">
        {problem === undefined ? null : <ProblemNotice problem={problem} />}
        <TextInput
          size="sm"
          label="E-mail"
          type="email"
          autoComplete="username"
          required
          withAsterisk={false}
          readOnly={knownEmail !== undefined}
          {...(knownEmail === undefined ? { 'data-autofocus': true, autoFocus: true } : {})}
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
        <PasswordInput
          ref={passwordInput}
          size="sm"
          label="Password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          {...(knownEmail === undefined ? {} : { 'data-autofocus': true })}
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        <Button type="submit" size="sm" mt={4} loading={isPending}>
          Sign in
        </Button>
      </Stack>
    </form>
  );
}
