import { useState } from 'react';
import { ApiError } from '~/lib/api/api-error.ts';
import { endAllSessions } from '~/lib/auth.ts';
import { routes } from '~/lib/routes.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';

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
    const { code, message, details } = answer;
    const { incidentId } = details;
    setError(
      new ApiError(message, {
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
