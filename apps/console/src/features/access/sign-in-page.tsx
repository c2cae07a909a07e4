'use client';

import { Button, Divider, Stack, Text, TextInput, Title } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import {
  acceptInvitation,
  announceSignIn,
  hasSession,
  problemOf,
  readSignInOptions,
  type SignInOptions,
  type SignInProblem,
} from '~/lib/auth.ts';
import { Notice } from '~/ui/states.tsx';
import { Wordmark } from '~/ui/text.tsx';
import { NewPasswordInput, ProblemNotice, ProviderButton, SignInForm } from './sign-in-form.tsx';
import { linkHeading, passwordProblem, providerErrorText, safePath } from './sign-in-texts.ts';
import classes from './sign-in-page.module.css';

const RETRY_MS = 3_000;

/** What the page knows of its visitor. Options are null when no controller answers. */
interface Known {
  readonly isSignedIn: boolean;
  readonly options: SignInOptions | null;
}

/**
 * The sign-in page. The page itself is the same for everybody, so that the server makes nothing for strangers: the
 * browser reads the address, and asks how one may sign in here. Visitors who are signed in already go on, unless
 * there is a one-time link or an error to show.
 */
export function FrontGate() {
  const [params, setParams] = useState<URLSearchParams>();
  const [known, setKnown] = useState<Known>();
  const [tryCount, setTryCount] = useState(0);
  useEffect(() => setParams(new URLSearchParams(window.location.search)), []);
  useEffect(() => {
    let isGone = false;
    void Promise.all([hasSession(), readSignInOptions().catch(() => null)]).then(
      ([isSignedIn, options]) => {
        if (!isGone) setKnown({ isSignedIn, options });
      },
    );
    return () => {
      isGone = true;
    };
  }, [tryCount]);
  const isSilent = known?.options === null;
  useEffect(() => {
    if (!isSilent) return undefined;
    const timer = setInterval(() => setTryCount((count) => count + 1), RETRY_MS);
    return () => clearInterval(timer);
  }, [isSilent]);

  /** A parameter of the address; an empty one counts as missing. */
  const one = (name: string): string | undefined => {
    const value = params?.get(name) ?? '';
    return value === '' ? undefined : value;
  };
  const next = safePath(one('next'));
  const invitation = one('invitation');
  const providerError = providerErrorText(one('error'));
  const goesOn =
    known?.isSignedIn === true && invitation === undefined && providerError === undefined;
  const isWindow = one('window') === '1';
  const leaves = goesOn && !isWindow;
  useEffect(() => {
    if (leaves) window.location.replace(next);
  }, [leaves, next]);

  if (params === undefined || known === undefined || leaves) return <FrontDoor>{null}</FrontDoor>;
  if (goesOn) return <SignedInElsewhere />;
  return (
    <SignInPage
      options={known.options}
      next={next}
      invitation={invitation}
      isReset={one('reset') === '1'}
      providerError={providerError}
      tryAgain={() => setTryCount((count) => count + 1)}
    />
  );
}

/** The end of a sign-in in a window of its own: it tells the page that opened it, which goes on. */
function SignedInElsewhere() {
  useEffect(() => {
    announceSignIn();
    window.close();
  }, []);
  return (
    <FrontDoor>
      <Title order={1} size="1.375rem">
        You are signed in
      </Title>
      <Text size="sm" mt="xs">
        Close this window and continue on the page that you came from.
      </Text>
    </FrontDoor>
  );
}

interface SignInPageProps {
  /** Null when no controller answers. */
  readonly options: SignInOptions | null;
  /** Where the person wanted to go: a path of this console. */
  readonly next: string;
  readonly invitation: string | undefined;
  /** The link is for a new password of a person who has already joined. */
  readonly isReset: boolean;
  /** What the identity provider's refusal means. */
  readonly providerError: string | undefined;
  /** Asks the controller once more. */
  readonly tryAgain: () => void;
}

/** The way in. Leads on to where the person wanted to go. */
function SignInPage({
  options,
  next,
  invitation,
  isReset,
  providerError,
  tryAgain,
}: SignInPageProps) {
  // Busy until the next page is there.
  const goOn = (): Promise<void> => {
    window.location.assign(next);
    return new Promise(() => undefined);
  };
  return (
    <FrontDoor>
      <Stack gap="md">
        {options === null ? <ControllerSilent tryAgain={tryAgain} /> : null}
        {providerError === undefined ? null : <Notice tone="bad">{providerError}</Notice>}
        {invitation === undefined ? (
          <>
            <Heading title="Sign in">
              {next === '/'
                ? 'To see who holds what, and to stop it.'
                : 'You then continue where you were.'}
            </Heading>
            <Ways options={options} next={next}>
              <SignInForm onSignedIn={goOn} />
            </Ways>
            <Text size="xs" c="dimmed">
              No account, or locked out? Ask an administrator. A locked-out administrator runs{' '}
              <span className="mono">leasehold admin create</span> on the server.
            </Text>
          </>
        ) : (
          <>
            <Heading title={linkHeading(isReset).title}>{linkHeading(isReset).text}</Heading>
            <InvitationForm invitation={invitation} isReset={isReset} onSignedIn={goOn} />
            {options?.oidc == null ? null : (
              <Text size="xs" c="dimmed">
                You sign in with {options.oidc.name}? Then you need no password:{' '}
                <a href="/sign-in">sign in with it</a>.
              </Text>
            )}
          </>
        )}
      </Stack>
    </FrontDoor>
  );
}

function Heading({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div>
      <Title order={1} size="1.375rem" lts="-0.01em">
        {title}
      </Title>
      <Text size="sm" c="dimmed" mt={2}>
        {children}
      </Text>
    </div>
  );
}

/** The identity provider first, where there is one: most people then have no password here. */
function Ways({
  options,
  next,
  children,
}: {
  readonly options: SignInOptions | null;
  readonly next: string;
  readonly children: ReactNode;
}) {
  if (options?.oidc == null) return children;
  return (
    <>
      <ProviderButton name={options.oidc.name} goesTo={next} />
      <Divider label="or with a password" />
      {children}
    </>
  );
}

/** Shown if no controller answers. The page asks again by itself; what was typed stays. */
function ControllerSilent({ tryAgain }: { readonly tryAgain: () => void }) {
  return (
    <Notice
      tone="bad"
      action={
        <Button size="compact-xs" variant="default" onClick={tryAgain}>
          Try again now
        </Button>
      }
    >
      No controller answers, so nobody can sign in. This page tries again every few seconds.
    </Notice>
  );
}

/**
 * Uses a one-time link: an invitation asks for a name and a password, a reset for a password; then
 * the person is signed in.
 */
function InvitationForm({
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

/** The page of a visitor who is not signed in: what this is, and the way in. */
function FrontDoor({ children }: { readonly children: ReactNode }) {
  return (
    <div className={classes['page']}>
      <header className={classes['side']}>
        <Wordmark />
        <div className={classes['said']}>
          <p className={classes['question']}>
            Who holds this key right now, and for how long may they act as if they do?
          </p>
          <LadderDrawing />
        </div>
      </header>
      <main className={classes['main']}>
        <div className={classes['card']}>{children}</div>
      </main>
    </div>
  );
}

const RUNGS = [
  { at: 0, name: 'renewed', anchor: 'start' },
  { at: 96, name: 'renew', anchor: 'middle' },
  { at: 206, name: 'soft stop', anchor: 'middle' },
  { at: 296, name: 'hard stop', anchor: 'middle' },
  { at: 399, name: 'expired', anchor: 'end' },
] as const;

/** The deadlines of a key, as every page of the console draws them. An ornament here. */
function LadderDrawing() {
  return (
    <svg
      className={classes['ladder']}
      viewBox="-1 0 401 64"
      width="401"
      height="64"
      aria-hidden
      focusable="false"
    >
      <rect className={classes['sure']} x="0" y="20" width="206" height="6" />
      <rect className={classes['stopping']} x="206" y="20" width="90" height="6" />
      <rect className={classes['gone']} x="296" y="20" width="103" height="6" />
      {RUNGS.map(({ at, name, anchor }) => (
        <g key={name}>
          <path d={`M${String(at)} 14v18`} stroke="currentColor" strokeWidth="1.5" />
          <text x={at} y="50" textAnchor={anchor}>
            {name}
          </text>
        </g>
      ))}
      <circle className={classes['now']} cx="58" cy="23" r="5" />
    </svg>
  );
}
