import { Button, Stack } from '@mantine/core';
import { IconExternalLink, IconLogin2 } from '@tabler/icons-react';
import { useState } from 'react';
import { signInWithOidc } from '~/lib/auth.ts';
import { ProblemNotice } from './problem-notice.tsx';
import { problemOf, type SignInProblem } from './sign-in-texts.ts';

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
