/** Signing in and out: `/api/auth` of the controller, through the console's own origin. */
import type { Role } from '@leasehold/keys-core';

/** For how long the sign-in page waits for an answer. */
const ANSWER_MS_MAX = 2_000;

type AuthOutcome = { readonly outcome: 'done'; readonly data: unknown } | AuthRefusal;

/** Why something was not done. */
export interface AuthRefusal {
  readonly outcome: 'refused';
  readonly code: string;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
  /** The controller's time when it answered, in epoch milliseconds; null if it did not answer. */
  readonly answeredAtMs: number | null;
}

/** How people may sign in here. */
export interface SignInOptions {
  /** The identity provider, by the name that people know it by. */
  readonly oidc: { readonly name: string } | null;
}

async function post(path: string, body: unknown): Promise<AuthOutcome> {
  try {
    const response = await fetch(`/api/auth${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const data: unknown = await response.json().catch(() => null);
    return response.ok ? { outcome: 'done', data } : refusalOf(response, data);
  } catch {
    return {
      outcome: 'refused',
      code: 'network',
      message: 'The controller cannot be reached.',
      details: {},
      answeredAtMs: null,
    };
  }
}

/** Sign-in answers `{ code, message }`; the console's own server answers as tRPC does. */
function refusalOf(response: Response, data: unknown): AuthRefusal {
  const fields = recordOf(data);
  const error = recordOf(fields['error']);
  const errorData = recordOf(error['data']);
  const answeredAtMs = Date.parse(response.headers.get('date') ?? '');
  return {
    outcome: 'refused',
    code: textOf(fields['code']) ?? textOf(errorData['leaseholdCode']) ?? String(response.status),
    message:
      textOf(fields['message']) ?? textOf(error['message']) ?? 'The controller refused this.',
    details: { ...errorData, ...fields },
    answeredAtMs: Number.isNaN(answeredAtMs) ? null : answeredAtMs,
  };
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** How one may sign in here. @throws when no controller answers. */
export async function readSignInOptions(): Promise<SignInOptions> {
  const response = await fetch('/api/auth/sign-in-options', {
    cache: 'no-store',
    signal: AbortSignal.timeout(ANSWER_MS_MAX),
  });
  if (!response.ok) throw new Error(`sign-in-options answered ${String(response.status)}`);
  return (await response.json()) as SignInOptions;
}

/** Whether somebody is signed in in this browser; false if no controller answers. */
export async function hasSession(): Promise<boolean> {
  try {
    const response = await fetch('/trpc/session.get', {
      cache: 'no-store',
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    return response.ok;
  } catch {
    return false;
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

/** Begins a sign-in with the identity provider. @returns its address, where the browser is to go. */
export async function signInWithOidc(callbackURL: string): Promise<AuthRefusal | { url: string }> {
  const answer = await post('/sign-in/oauth2', { providerId: 'oidc', callbackURL });
  if (answer.outcome === 'refused') return answer;
  return { url: textOf(recordOf(answer.data)['url']) ?? '/sign-in?error=oidc_failed' };
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

/**
 * Tabs and windows of one browser share a session: after a sign-in, one tells the others, and those
 * whose session had ended go on.
 */
const CHANNEL = 'leasehold-session';

/** Tells the other tabs that a person has signed in here. */
export function announceSignIn(): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage('signed in');
  channel.close();
}

/** Calls `listener` when a person has signed in elsewhere in this browser. @returns what ends that. */
export function onSignIn(listener: () => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = listener;
  return () => channel.close();
}

/** What somebody with a role may do, in a sentence each. */
export const ROLE_TEXTS: Record<Role, string> = {
  viewer: 'Sees everything but the audit and who has access. Changes nothing.',
  client: 'Sees what a viewer sees, and acquires and releases keys, leases and environments.',
  operator:
    'Also revokes, blocks and allows renewals, drains drones, stops backends, and reads the audit.',
  admin: 'Also makes and revokes API tokens, and decides who may sign in, and with which role.',
  drone: 'Runs the backends of one drone, and nothing else.',
  gateway: 'Leads people with gateway tokens to backends, and nothing else.',
  peer: 'The controllers of another datacenter, which forward the requests of their callers.',
};

/** `Viewer`, `API client`: as people read it. */
export const ROLE_LABELS: Record<Role, string> = {
  viewer: 'Viewer',
  client: 'Client',
  operator: 'Operator',
  admin: 'Administrator',
  drone: 'Drone',
  gateway: 'Gateway',
  peer: 'Other datacenter',
};
