import type { Access } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { SessionAuthority } from '@leasehold/keys-core/access';
import type { IncomingMessage } from 'node:http';
import type { Origins } from './origins.ts';
import type { SessionCookies } from './session/session-cookies.ts';

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

export function createPersonAccess(deps: {
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
      ...{ role, namespaces },
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
