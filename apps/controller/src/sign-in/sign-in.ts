import type { IncomingMessage } from 'node:http';
import type { Access } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import { createSessionAuthority, type SessionAuthority } from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import {
  AUTH_SECRET,
  CONSOLE_SECRET,
  readHomeSecret,
  type HomeSecret,
  type Logger,
} from '@leasehold/service-kit';
import { createAuth } from './auth.ts';
import {
  createOrigins,
  createSessionCookies,
  type Origins,
  type SessionCookies,
} from './browser-session.ts';
import type { SignInConfig } from './sign-in-config.ts';

/** What a controller signs people in with, and the authority that knows who is signed in; to be closed. */
export type SignIn = Awaited<ReturnType<typeof createSignIn>>;

/**
 * What people sign in with under this configuration.
 * @throws {LeaseError} `config.invalid` when a secret in the home cannot be used.
 */
export async function createSignIn(
  store: Store,
  config: SignInConfig & { readonly home: string },
  log: Logger,
) {
  const secret = await secretOf(AUTH_SECRET, config.authSecret, config.home);
  const consoleSecret = await secretOf(CONSOLE_SECRET, config.consoleSecret, config.home);
  const origins = createOrigins(config.consoleOrigin);
  const cookies = createSessionCookies({ secret, isSecure: origins.isSecure });
  const authority = createSessionAuthority(store);
  const deps = { store, secret, origins, log };
  return {
    /** For passwords: it waits for no identity provider. */
    auth: createAuth(deps, null),
    // Separate, because this one asks the provider before it answers anything at all.
    oidc:
      config.oidc === null ? null : { auth: createAuth(deps, config.oidc), config: config.oidc },
    origins,
    cookies,
    /** What the console proves itself by. */
    consoleSecret,
    people: createPersonAccess({ authority, cookies, origins }),
    authority,
  };
}

async function secretOf(
  secret: HomeSecret,
  configured: string | null,
  home: string,
): Promise<string> {
  try {
    return await readHomeSecret(secret, { configured, home });
  } catch (cause) {
    throw new LeaseError('config.invalid', (cause as Error).message, { cause });
  }
}

/** Says who acts in the session that a request's cookie names. */
export interface PersonAccess {
  /**
   * The access of a signed-in person; undefined without a session in force.
   * @throws {LeaseError} `auth.csrf` when the request was made by another site, or may have been.
   */
  accessOf(request: IncomingMessage): Promise<Access | undefined>;
  /** As {@link accessOf}, where the console's own origin is proof enough. */
  sessionOf(request: IncomingMessage): Promise<Access | undefined>;
}

/** The methods that only read. */
const SAFE_METHODS: readonly (string | undefined)[] = ['GET', 'HEAD'];

function createPersonAccess(deps: {
  readonly authority: SessionAuthority;
  readonly cookies: SessionCookies;
  readonly origins: Origins;
}): PersonAccess {
  const { authority, cookies, origins } = deps;

  async function sessionOf(request: IncomingMessage): Promise<Access | undefined> {
    const token = cookies.tokenOf(request);
    if (token === undefined) return undefined;
    if (!origins.mayCome(request.headers.origin)) {
      throw new LeaseError('auth.csrf', 'The request comes from another site than the console.');
    }
    const session = await authority.authenticate(token);
    if (session === undefined) return undefined;
    const { sessionId, personId, email, name, role, namespaces, signInMethods, expiresAt } =
      session;
    const csrfToken = cookies.csrfTokenOf(sessionId);
    return {
      principal: `person:${personId}`,
      name: email,
      role,
      namespaces,
      droneId: null,
      session: { sessionId, personId, email, name, signInMethods, csrfToken, expiresAt },
    };
  }

  return {
    sessionOf,
    async accessOf(request) {
      const access = await sessionOf(request);
      const sessionId = access?.session?.sessionId;
      if (sessionId === undefined || SAFE_METHODS.includes(request.method)) return access;
      if (!cookies.isCsrfTokenOf(sessionId, request)) throw new LeaseError('auth.csrf');
      return access;
    },
  };
}
