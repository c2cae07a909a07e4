import type { AuthRefusal } from '~/lib/auth.ts';
import { absolute, duration } from '~/lib/format.ts';

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
    'This link has been used, was replaced by a newer one, or has expired. Ask an administrator for a new one.',
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

/** `Try again in 14 min 3 s, at 2026-11-21 14:03:22 UTC.` */
export function untilText(at: string, restMs: number | null): string {
  const when = absolute(at).replace(/\.\d+ /u, ' ');
  if (restMs === null) return `Try again at ${when}.`;
  return restMs <= 0 ? 'You can try again now.' : `Try again in ${duration(restMs)}, at ${when}.`;
}

const PROVIDER_ERRORS: Readonly<Record<string, string>> = {
  not_invited:
    'You have not been invited to this console. Ask an administrator for an invitation to the e-mail address that you use at the identity provider.',
  no_role:
    'Your account at the identity provider is in no group that may use this console. Ask an administrator for a group.',
  account_linked:
    'This e-mail address already belongs to another account at the identity provider. Ask an administrator.',
  email_not_verified:
    'The identity provider has not verified your e-mail address. Have it verified there, then sign in again.',
  state_mismatch:
    'The sign-in took too long, or began in another window. Nothing changed. Sign in again.',
  access_denied: 'The sign-in was cancelled at the identity provider.',
  oidc_failed: 'The identity provider refused the sign-in. The controller’s log has the reason.',
};

/** The heading of the page of a one-time link. */
export function linkHeading(isReset: boolean): { readonly title: string; readonly text: string } {
  return isReset
    ? {
        title: 'Choose a new password',
        text: 'It replaces the old one and ends your sessions in other browsers. The link works once.',
      }
    : {
        title: 'Accept your invitation',
        text: 'Choose a password for this console. The link works once.',
      };
}

/** What `/sign-in?error=…` means; undefined without an error. */
export function providerErrorText(error: string | null | undefined): string | undefined {
  if (error === null || error === undefined || error === '') return undefined;
  return PROVIDER_ERRORS[error] ?? PROVIDER_ERRORS['oidc_failed'];
}

/** The controller's limits. */
export const PASSWORD_LENGTH = { min: 12, max: 128 } as const;

/** What is wrong with a new password; undefined when nothing is. */
export function passwordProblem(password: string): string | undefined {
  const { length } = password;
  if (length < PASSWORD_LENGTH.min) {
    return `${String(PASSWORD_LENGTH.min - length)} more needed: at least ${String(PASSWORD_LENGTH.min)} characters.`;
  }
  return length > PASSWORD_LENGTH.max
    ? `At most ${String(PASSWORD_LENGTH.max)} characters.`
    : undefined;
}

const BASE = 'http://console.invalid';

/** The path, if it is an address of this console; `/` if it could lead elsewhere. */
export function safePath(next: string | null | undefined): string {
  if (!next?.startsWith('/') || !URL.canParse(next, BASE)) return '/';
  const url = new URL(next, BASE);
  // A browser takes `//host` and `/\host` for another site; so does this parser.
  if (url.origin !== BASE || url.pathname.startsWith('//')) return '/';
  if (url.pathname === '/sign-in') return '/';
  return `${url.pathname}${url.search}${url.hash}`;
}
