import { countSignInTry, forgetSignInFailures } from '@leasehold/keys-core/store';
import type { FastifyRequest } from 'fastify';
import { callAuth, type AuthAnswer } from './auth-calls.ts';
import { auditLockOut } from './lock-out-audit.ts';
import { Refusal } from './refusal.ts';
import type { SignInParts } from './sign-in-routes.ts';

/** The same whatever was wrong, and whether or not there is such a person. */
export function wrongPassword(): Refusal {
  return new Refusal(
    401,
    'INVALID_EMAIL_OR_PASSWORD',
    'The e-mail address or the password is wrong.',
  );
}

/**
 * Runs `tryIt`, which looks at a password, unless the address is locked; a failure counts towards
 * its lock-out, and a success ends the count.
 * @throws {Refusal} 429 `ACCOUNT_LOCKED`, or what `tryIt` throws.
 */
export async function withLockOut<Answer>(
  parts: SignInParts,
  at: { readonly email: string; readonly request: FastifyRequest },
  tryIt: () => Promise<Answer>,
): Promise<Answer> {
  const { prisma } = parts.store;
  const { email, request } = at;
  return parts.atGate(async () => {
    const counted = await countSignInTry(prisma, email);
    if (counted.outcome === 'locked') {
      const { lockedUntil } = counted;
      throw new Refusal(429, 'ACCOUNT_LOCKED', 'Too many failed sign-ins. Try again later.', {
        lockedUntil,
      });
    }
    try {
      const answer = await tryIt();
      await forgetSignInFailures(prisma, email);
      return answer;
    } catch (error) {
      if (error instanceof Refusal && counted.isLast) {
        await auditLockOut(prisma, { email, source: parts.sourceOf(request.raw) });
      }
      throw error;
    }
  });
}

/** Opens a session for a password that is right. @throws {Refusal} 401 for any that is not. */
export async function openSession(
  parts: SignInParts,
  request: FastifyRequest,
  credentials: { readonly email: string; readonly password: string },
): Promise<AuthAnswer> {
  const answer = await callAuth(parts.signIn.auth, {
    path: '/sign-in/email',
    origin: parts.signIn.origins.main,
    source: parts.sourceOf(request.raw),
    userAgent: request.headers['user-agent'],
    body: credentials,
  });
  if (answer.status >= 500) {
    throw new Error(`better-auth answered ${String(answer.status)} to a sign-in`);
  }
  if (answer.status !== 200) throw wrongPassword();
  return answer;
}
