import type { SessionView } from '@leasehold/api/contract';
import { ApiError, isSignedOut, toApiError } from '~/lib/api/api.ts';

/** The session of this browser, as a page knows it and may ask for it. */
interface OwnSession {
  /** Whom the page shows; undefined for nobody. */
  readonly personId: string | undefined;
  readonly read: () => Promise<Pick<SessionView, 'person' | 'csrfToken'>>;
  readonly setCsrfToken: (token: string | null) => void;
  readonly reload: () => void;
}

/**
 * Sends an act. One that is refused for its CSRF token is sent once more, with that of the present session: after a
 * sign-in in another tab, this one may still have the token of the session before. @throws what failed, as it came.
 */
export async function sendAgain<Answer>(
  send: () => Promise<Answer>,
  session: OwnSession,
): Promise<Answer> {
  try {
    return await send();
  } catch (error) {
    if (!isStale(toApiError(error))) throw error;
    const { person, csrfToken } = await session.read().catch((failure: unknown) => {
      throw isSignedOut(toApiError(failure)) ? failure : error;
    });
    if (person?.personId !== session.personId) {
      // Another person must not finish what was begun here.
      session.reload();
      throw error;
    }
    session.setCsrfToken(csrfToken);
    return await send();
  }
}

function isStale(failure: unknown): boolean {
  return failure instanceof ApiError && failure.code === 'auth.csrf';
}
