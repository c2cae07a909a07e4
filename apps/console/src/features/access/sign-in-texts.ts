import { absolute, duration } from '~/lib/format.ts';

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
