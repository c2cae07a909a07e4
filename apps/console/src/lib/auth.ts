/** Signing in and out: `/api/auth` of the controller, through the console's own origin. */
import type { Role } from '@leasehold/keys-core';
import { CALL_MS_MAX } from './api/api.ts';

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
      signal: AbortSignal.timeout(CALL_MS_MAX),
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

/** Ends the session and leaves for the sign-in page. Where it did not end, a notification tells that instead. */
export async function signOut(): Promise<void> {
  const problem = stillSignedInText(await post('/sign-out', {}));
  if (problem === undefined) {
    window.location.assign('/sign-in');
    return;
  }
  // No page waits for the code of notifications.
  const { notifications } = await import('@mantine/notifications');
  notifications.show({ title: 'Not signed out', message: problem });
}

/** What a person is told about a sign-in that failed. */
export interface SignInProblem {
  readonly text: string;
  /** What an operator looks for in the controller's log. */
  readonly incidentId?: string;
  /** When the problem ends by itself, and how long that takes, counted from the answer. */
  readonly until?: { readonly at: string; readonly inMs: number | null };
}

const REFUSALS: Readonly<Record<string, string>> = {
  INVALID_EMAIL_OR_PASSWORD: 'The e-mail address or the password is wrong.',
  INVALID_PASSWORD: 'The current password is wrong.',
  INVALID_INVITATION:
    'This link has been used, was replaced by a newer one, or has expired. If you have just chosen a password, sign in with it; otherwise ask an administrator for a new link.',
  INVALID_ORIGIN:
    'The controller does not know the address at which this console was opened. Open it at the configured one (LEASEHOLD_CONSOLE_ORIGIN).',
  OIDC_UNREACHABLE: 'The identity provider cannot be reached. Try again, or use a password.',
  'request.rate_limited': 'Too many tries from this address. Wait a minute, then try again.',
  'request.deadline': 'The identity provider did not answer in time. Try again, or use a password.',
  'request.unreachable': 'No controller answers, so nobody can sign in. Nothing was sent.',
  'request.outcome_unknown':
    'The connection to the controller was lost before it answered. Try again.',
  network: 'The console cannot be reached. Check the connection, then try again.',
};

/** A refused sign-in in words, which are the same whether or not the person exists. */
export function problemOf(refusal: AuthRefusal): SignInProblem {
  const { code, message, details } = refusal;
  if (code === 'ACCOUNT_LOCKED') return lockedProblem(refusal);
  const { incidentId } = details;
  return {
    text: REFUSALS[code] ?? message,
    ...(typeof incidentId === 'string' ? { incidentId } : {}),
  };
}

function lockedProblem({ details, answeredAtMs }: AuthRefusal): SignInProblem {
  const { lockedUntil } = details;
  const text = 'Too many failed sign-ins. Sign-in with this address is locked.';
  if (typeof lockedUntil !== 'string') return { text };
  const inMs = answeredAtMs === null ? null : Math.max(0, Date.parse(lockedUntil) - answeredAtMs);
  return { text, until: { at: lockedUntil, inMs } };
}

/** Codes of an act that may have been done although no answer said so; a proxy answers with a number. */
const UNKNOWN = /^(?:network|request\.outcome_unknown|request\.deadline|5\d\d)$/u;
const NO_ANSWER = 'The controller did not answer. Try again.';

/** A refused change of one's own password in words. Without an answer it may have been made, and the old one is over. */
export function passwordChangeProblem(refusal: AuthRefusal): SignInProblem {
  const problem = problemOf(refusal);
  if (UNKNOWN.test(refusal.code)) {
    return {
      ...problem,
      text: 'The answer was lost: the password may have been changed. If the old one is refused, the new one is in force.',
    };
  }
  if (refusal.code !== 'INVALID_PASSWORD') return problem;
  const { text } = problem;
  return { ...problem, text: `${text} If you have just changed it, the new one is in force.` };
}

/** Why the sessions of somebody who wanted to end all of them may go on. */
export function stillOpenText({ code, message }: AuthRefusal): string {
  return UNKNOWN.test(code) ? `Your sessions may have ended. ${NO_ANSWER}` : message;
}

/** Why somebody who wanted to sign out still has a session; undefined once it has ended. */
export function stillSignedInText(answer: AuthOutcome): string | undefined {
  // A session that has already ended is the wanted result.
  if (answer.outcome === 'done' || answer.code === 'auth.required') return undefined;
  if (UNKNOWN.test(answer.code)) return `You may still be signed in. ${NO_ANSWER}`;
  if (answer.code === 'request.unreachable') return `You are still signed in. ${NO_ANSWER}`;
  return `You are still signed in: ${problemOf(answer).text}`;
}

/**
 * Tabs and windows of one browser share a session: after a sign-in, one tells the others, and those
 * whose session had ended go on.
 */
const CHANNEL = 'leasehold-session';

/**
 * Tells the other tabs that a person has signed in here. `csrfToken` tells the session from others, where it is known:
 * only pages of this console receive it.
 */
export function announceSignIn(csrfToken: string | null = null): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage({ csrfToken });
  channel.close();
}

let announced: string | null = null;

/** Tells the other tabs which session this one has: once for each, so that tabs do not answer each other without end. */
export function announceSession(csrfToken: string): void {
  if (csrfToken === announced) return;
  announced = csrfToken;
  announceSignIn(csrfToken);
}

/**
 * Calls `listener` when a person has signed in in this browser, with the CSRF token of that session where it is known.
 * @returns what ends that.
 */
export function onSignIn(listener: (csrfToken: string | null) => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }) => listener(textOf(recordOf(data)['csrfToken']) ?? null);
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
