/** What the routes of sign-in share. */
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { Sources } from '@leasehold/service-kit/source-address';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Rates } from '../fair-use/rates.ts';
import type { FailureLog } from '../http/request-context.ts';
import type { createPasswordGate } from './password/password-gate.ts';
import type { SignIn } from './sign-in.ts';

export interface SignInDeps {
  readonly store: Store;
  readonly signIn: SignIn;
  readonly rates: Rates;
  readonly failures: FailureLog;
  readonly sources: Sources;
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
