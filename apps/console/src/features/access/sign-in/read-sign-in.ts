import 'server-only';
import { cookies } from 'next/headers';
import { readSignInOptions, type SignInOptions } from '~/lib/session/auth.ts';
import { fetchFromController } from '~/lib/api/config.ts';
import { serverApi } from '~/lib/api/server-api.ts';

/** What the sign-in page knows as it is made. */
interface SignInFacts {
  readonly isSignedIn: boolean;
  /** Null when no controller answers. */
  readonly options: SignInOptions | null;
}

export async function readSignIn(): Promise<SignInFacts> {
  const [isSignedIn, options] = await Promise.all([
    hasSession(),
    readSignInOptions(fetchFromController).catch(() => null),
  ]);
  return { isSignedIn, options };
}

async function hasSession(): Promise<boolean> {
  if ((await cookies()).size === 0) return false;
  const api = await serverApi();
  return api.query('session.get').then(
    () => true,
    () => false,
  );
}
