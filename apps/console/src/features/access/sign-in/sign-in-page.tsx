import { Button, Divider, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import type { SignInOptions } from '~/lib/auth.ts';
import { Notice } from '~/ui/states.tsx';
import { FrontDoor } from './front-door.tsx';
import { InvitationForm } from './invitation-form.tsx';
import { ProviderButton } from './provider-button.tsx';
import { SignInForm } from './sign-in-form.tsx';
import { linkHeading } from './sign-in-texts.ts';

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
export function SignInPage({
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
