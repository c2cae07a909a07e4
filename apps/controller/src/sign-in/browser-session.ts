import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The header that every change made with a cookie carries. */
const CSRF_HEADER = 'x-leasehold-csrf';
const COOKIE_PREFIX = 'leasehold';

/** What the names of all cookies begin with. A browser takes `__Host-` from this very host alone, over TLS. */
export function cookiePrefix(isSecure: boolean): string {
  return `${isSecure ? '__Host-' : ''}${COOKIE_PREFIX}`;
}

const TOKEN_FORM = /^[A-Za-z0-9]{16,128}$/u;

/** Reads the cookie that better-auth sets, and makes what goes with it. */
export interface SessionCookies {
  readonly name: string;
  /** The token in the cookie of a request, if the cookie is signed with our secret. */
  tokenOf(request: IncomingMessage): string | undefined;
  /** The token that a page sends with the changes of this session. No other site can read it. */
  csrfTokenOf(sessionId: string): string;
  /** Whether a request carries the token of this session. */
  isCsrfTokenOf(sessionId: string, request: IncomingMessage): boolean;
  /** The header that removes the cookie. */
  readonly removal: string;
}

export function createSessionCookies(options: {
  readonly secret: string;
  readonly isSecure: boolean;
}): SessionCookies {
  const { secret, isSecure } = options;
  const name = `${cookiePrefix(isSecure)}.session_token`;
  const csrfTokenOf = (sessionId: string): string =>
    createHmac('sha256', secret).update(`csrf:${sessionId}`).digest('base64url');
  return {
    name,
    tokenOf(request) {
      const value = cookieOf(request, name);
      const dot = value?.lastIndexOf('.') ?? -1;
      if (value === undefined || dot < 0) return undefined;
      const token = value.slice(0, dot);
      const expected = createHmac('sha256', secret).update(token).digest('base64');
      return TOKEN_FORM.test(token) && isSame(value.slice(dot + 1), expected) ? token : undefined;
    },
    csrfTokenOf,
    isCsrfTokenOf(sessionId, request) {
      const sent = request.headers[CSRF_HEADER];
      return typeof sent === 'string' && isSame(sent, csrfTokenOf(sessionId));
    },
    removal: `${name}=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`,
  };
}

/** Takes a time that reveals nothing about where two texts differ. */
function isSame(sent: string, expected: string): boolean {
  const [a, b] = [Buffer.from(sent), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function cookieOf(request: IncomingMessage, name: string): string | undefined {
  for (const pair of (request.headers.cookie ?? '').split(';')) {
    const equals = pair.indexOf('=');
    if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
    try {
      return decodeURIComponent(pair.slice(equals + 1).trim());
    } catch {
      // Not one of ours.
      return undefined;
    }
  }
  return undefined;
}

/** The origins that the console is called by. */
export interface Origins {
  /** The origin that people are given, and that an identity provider sends them back to. */
  readonly main: string;
  readonly all: readonly string[];
  readonly isSecure: boolean;
  /** Whether a request with this `Origin` header, or none, may come from the console. */
  mayCome(origin: string | undefined): boolean;
}

const LOOPBACK = ['localhost', '127.0.0.1'];

/** On the local machine both of its names are good, at the same port. */
export function createOrigins(consoleOrigin: string): Origins {
  const { hostname, protocol, port } = new URL(consoleOrigin);
  const suffix = port === '' ? '' : `:${port}`;
  const all = LOOPBACK.includes(hostname)
    ? [
        consoleOrigin,
        ...LOOPBACK.filter((name) => name !== hostname).map(
          (name) => `${protocol}//${name}${suffix}`,
        ),
      ]
    : [consoleOrigin];
  return {
    main: consoleOrigin,
    all,
    isSecure: protocol === 'https:',
    mayCome: (origin) => origin === undefined || all.includes(origin.toLowerCase()),
  };
}
