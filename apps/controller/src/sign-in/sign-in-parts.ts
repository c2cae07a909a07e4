/** What the routes of sign-in share. */
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Rates } from '../fair-use/rates.ts';
import type { FailureLog } from '../http/failure-log.ts';
import type { SourceAddress } from '../http/source-address.ts';
import type { Auth } from './auth.ts';
import type { Origins } from './origins.ts';
import type { createPasswordGate } from './password/password-gate.ts';
import type { PersonAccess } from './person-access.ts';
import type { SessionCookies } from './session/session-cookies.ts';
import type { OidcConfig } from './sign-in-config.ts';

/** What a controller signs people in with. */
export interface SignIn {
  /** For passwords: it waits for no identity provider. */
  readonly auth: Auth;
  readonly oidc: { readonly auth: Auth; readonly config: OidcConfig } | null;
  readonly origins: Origins;
  readonly cookies: SessionCookies;
  readonly people: PersonAccess;
}

export interface SignInDeps {
  readonly store: Store;
  readonly signIn: SignIn;
  readonly rates: Rates;
  readonly failures: FailureLog;
  readonly sourceOf: SourceAddress;
  readonly log: Logger;
}

/** The same, with the parts that a server has once. */
export interface SignInParts extends SignInDeps {
  /** Checks a password when its turn has come. */
  readonly atGate: ReturnType<typeof createPasswordGate>;
  /** @throws {LeaseError} `request.rate_limited` when this address tries too often. */
  countTry(request: FastifyRequest): Promise<void>;
}

/** Sends cookies on; each is a header of its own. */
export function setCookies(reply: FastifyReply, cookies: readonly string[]): void {
  if (cookies.length > 0) void reply.header('set-cookie', [...cookies]);
}
