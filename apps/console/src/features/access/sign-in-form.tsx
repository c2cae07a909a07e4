import { Button, PasswordInput, Stack, TextInput, VisuallyHidden } from '@mantine/core';
import { IconExternalLink, IconLogin2 } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import {
  announceSignIn,
  problemOf,
  signIn,
  type SignInProblem,
  signInWithOidc,
} from '~/lib/auth.ts';
import { Notice } from '~/ui/states.tsx';
import { CopyableId } from '~/ui/text.tsx';
import { PASSWORD_LENGTH, passwordProblem, untilText } from './sign-in-texts.ts';

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

const WINDOW = 'popup,width=520,height=680';

/** Sign-in with the identity provider: in place of this page, or in a window beside it. */
export function ProviderButton({
  name,
  goesTo,
  isInWindow = false,
}: {
  readonly name: string;
  /** Where the browser returns to. */
  readonly goesTo: string;
  /** The page stays as it is; the window reports when it is done (`session-channel.ts`). */
  readonly isInWindow?: boolean;
}) {
  const [problem, setProblem] = useState<SignInProblem>();
  const [isPending, setPending] = useState(false);
  const begin = async (): Promise<void> => {
    // Opened at once: later the browser would not see a reaction to the click, and would block it.
    const target = isInWindow ? window.open('about:blank', 'leasehold-sign-in', WINDOW) : window;
    setProblem(undefined);
    setPending(true);
    const answer = await signInWithOidc(goesTo);
    if ('url' in answer) {
      if (target === null) {
        setProblem({
          text: 'The browser blocked the sign-in window. Allow pop-ups for this page.',
        });
      } else {
        target.location.assign(answer.url);
      }
    } else {
      if (isInWindow) target?.close();
      setProblem(problemOf(answer));
    }
    if (isInWindow || !('url' in answer)) setPending(false);
  };
  const ButtonIcon = isInWindow ? IconExternalLink : IconLogin2;
  return (
    <Stack gap="sm">
      {problem === undefined ? null : <ProblemNotice problem={problem} />}
      <Button
        size="sm"
        variant="default"
        loading={isPending}
        leftSection={<ButtonIcon size={16} aria-hidden />}
        onClick={() => void begin()}
      >
        Sign in with {name}
      </Button>
    </Stack>
  );
}

/** The input for a new password: it shows the rule, and once something is typed, what is missing. */
export function NewPasswordInput({
  label,
  value,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  return (
    <PasswordInput
      size="sm"
      label={label}
      description={`${String(PASSWORD_LENGTH.min)} to ${String(PASSWORD_LENGTH.max)} characters. A few words are easier to remember than symbols.`}
      autoComplete="new-password"
      required
      withAsterisk={false}
      value={value}
      error={value === '' ? undefined : passwordProblem(value)}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

const TICK_MS = 1_000;

/** Why a sign-in was refused, and when the person may try again. */
export function ProblemNotice({ problem }: { readonly problem: SignInProblem }) {
  const { text, incidentId, until } = problem;
  return (
    <Notice tone="bad">
      {text}
      {until === undefined ? null : <Until key={until.at} {...until} />}
      {incidentId === undefined ? null : (
        <>
          {' '}
          Incident <CopyableId id={incidentId} label="incident id" />
        </>
      )}
    </Notice>
  );
}

/** Counts down by the monotonic clock. Screen readers get the end time, which does not change. */
function Until({ at, inMs }: { readonly at: string; readonly inMs: number | null }) {
  const [restMs, setRestMs] = useState(inMs);
  useEffect(() => {
    if (inMs === null) return undefined;
    const sinceMs = performance.now();
    const timer = setInterval(() => setRestMs(inMs - (performance.now() - sinceMs)), TICK_MS);
    return () => clearInterval(timer);
  }, [inMs]);
  return (
    <>
      {' '}
      <span aria-hidden>{untilText(at, restMs)}</span>
      <VisuallyHidden>{untilText(at, null)}</VisuallyHidden>
    </>
  );
}
