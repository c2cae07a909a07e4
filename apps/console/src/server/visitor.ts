import type { IncomingMessage } from 'node:http';

/** As the controller names it, over http and https, in this version and the one before. */
const SESSION_COOKIE = /(?:^|;\s*)(?:__Host-|__Secure-)?leasehold\.session_token=[^;\s]/u;

/** Whether a request has what looks like a session; only the controller knows whether it is one. */
export function hasSessionCookie({ headers }: IncomingMessage): boolean {
  return SESSION_COOKIE.test(headers.cookie ?? '');
}
