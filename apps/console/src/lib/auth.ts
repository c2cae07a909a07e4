/** Signing in and out: `/api/auth` of the controller, through the console's own origin. */

export type AuthOutcome =
  | { readonly outcome: 'done'; readonly data: unknown }
  | {
      readonly outcome: 'refused';
      readonly code: string;
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };

async function post(path: string, body: unknown): Promise<AuthOutcome> {
  try {
    const response = await fetch(`/api/auth${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const data = (await response.json().catch(() => null)) as Record<string, unknown> | null;
    if (response.ok) return { outcome: 'done', data };
    return {
      outcome: 'refused',
      code: typeof data?.['code'] === 'string' ? data['code'] : String(response.status),
      message:
        typeof data?.['message'] === 'string' ? data['message'] : 'The controller refused this.',
      details: data ?? {},
    };
  } catch {
    return {
      outcome: 'refused',
      code: 'network',
      message: 'The controller could not be reached.',
      details: {},
    };
  }
}

export function signIn(email: string, password: string): Promise<AuthOutcome> {
  return post('/sign-in/email', { email, password });
}

export function acceptInvitation(input: {
  invitation: string;
  password: string;
  name?: string;
}): Promise<AuthOutcome> {
  return post('/accept-invitation', input);
}

export function signInWithOidc(callbackURL: string): Promise<AuthOutcome> {
  return post('/sign-in/oauth2', { providerId: 'oidc', callbackURL });
}

export function changePassword(input: {
  currentPassword: string;
  newPassword: string;
}): Promise<AuthOutcome> {
  return post('/change-password', { ...input, revokeOtherSessions: true });
}

/** Ends every session of the person who is signed in. */
export function endAllSessions(): Promise<AuthOutcome> {
  return post('/revoke-sessions', {});
}

/** Ends the session and leaves for the sign-in page, whatever the answer was. */
export async function signOut(): Promise<void> {
  await post('/sign-out', {});
  window.location.assign('/sign-in');
}
