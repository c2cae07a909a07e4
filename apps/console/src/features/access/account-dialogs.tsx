import { Anchor, Button, Divider, Group, Modal, PasswordInput, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useEffectEvent, useState } from 'react';
import { ApiError } from '~/lib/api/api.ts';
import {
  changePassword,
  endAllSessions,
  passwordChangeProblem,
  readSignInOptions,
  type SignInOptions,
  type SignInProblem,
  stillOpenText,
} from '~/lib/auth.ts';
import { pause } from '~/lib/live/live-state.ts';
import { routes } from '~/lib/routes.ts';
import { signedOut, useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { NewPasswordInput, ProblemNotice, ProviderButton, SignInForm } from './sign-in-form.tsx';
import { passwordProblem } from './sign-in-texts.ts';

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
    else setProblem(passwordChangeProblem(answer));
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

/** Ends every session of the person who is signed in, this one too. */
export function SignOutEverywhereDialog({ isOpen, onClose }: DialogProps) {
  const [isPending, setPending] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const run = async (): Promise<void> => {
    setPending(true);
    setError(null);
    const answer = await endAllSessions();
    // A session that has already ended is the wanted result.
    if (answer.outcome === 'done' || answer.code === 'auth.required') {
      window.location.assign(routes.signIn());
      return;
    }
    setPending(false);
    const { code, details } = answer;
    const { incidentId } = details;
    setError(
      new ApiError(stillOpenText(answer), {
        code,
        isRetryable: true,
        incidentId: typeof incidentId === 'string' ? incidentId : null,
      }),
    );
  };
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={onClose}
      title="Sign out everywhere"
      reason="none"
      actLabel="Sign out everywhere"
      isDangerous
      act={{ isPending, error, run: () => void run() }}
    >
      All your sessions end now, in every browser, this one too. Open pages there stop showing
      changes. API tokens keep working.
    </ActDialog>
  );
}

/** Where the identity provider's window ends: the page there reports the sign-in, and closes. */
const WINDOW_END = '/sign-in?window=1';

/**
 * The sign-in after a session has ended in the middle of something. It opens over the page, so that
 * what was typed is kept, and the focus goes back to where it was.
 */
export function SignedOutDialog({
  isOpen,
  goOn,
}: {
  readonly isOpen: boolean;
  readonly goOn: () => Promise<void>;
}) {
  return (
    <Modal
      opened={isOpen}
      onClose={() => undefined}
      withCloseButton={false}
      title="Your session has ended"
      zIndex={1_000}
      closeOnEscape={false}
      closeOnClickOutside={false}
      onExitTransitionEnd={focusWhatIsBelow}
      data-signed-out
    >
      {isOpen ? <SignInAgain goOn={goOn} /> : null}
    </Modal>
  );
}

/**
 * Moves the focus back into the dialog below. The focus returns there by itself, unless it was on a
 * button that was busy, and so could not keep it.
 */
function focusWhatIsBelow(): void {
  if (document.activeElement !== document.body) return;
  const below = [...document.querySelectorAll('[role="dialog"]')].filter(
    (dialog) => dialog.closest('[data-signed-out]') === null,
  );
  const dialog = below.at(-1);
  for (const wanted of ['[data-autofocus]', 'input, textarea', 'button']) {
    const found = dialog?.querySelector<HTMLElement>(wanted);
    if (found == null) continue;
    found.focus();
    return;
  }
}

function SignInAgain({ goOn }: { readonly goOn: () => Promise<void> }) {
  const { person } = useSession();
  const options = useSignInOptions();
  const lookAgain = useEffectEvent(() => void goOn());
  useEffect(() => {
    window.addEventListener('focus', lookAgain);
    return () => window.removeEventListener('focus', lookAgain);
  }, []);
  const { pathname, search } = window.location;
  return (
    <Stack gap="sm">
      <Text size="sm">Sign in again to continue. What you have typed is kept.</Text>
      {options?.oidc == null ? null : (
        <>
          <ProviderButton name={options.oidc.name} goesTo={WINDOW_END} isInWindow />
          <Divider label="or with a password" />
        </>
      )}
      <SignInForm {...(person === null ? {} : { email: person.email })} onSignedIn={goOn} />
      <Text size="xs" c="dimmed">
        Not you?{' '}
        <Anchor size="xs" href={routes.signIn(`${pathname}${search}`)}>
          Leave this page and sign in again
        </Anchor>
      </Text>
    </Stack>
  );
}

function useSignInOptions(): SignInOptions | undefined {
  const [options, setOptions] = useState<SignInOptions>();
  useEffect(() => {
    let isGone = false;
    readSignInOptions().then(
      (found) => {
        if (!isGone) setOptions(found);
      },
      // Then only the password is offered.
      () => undefined,
    );
    return () => {
      isGone = true;
    };
  }, []);
  return options;
}
