import {
  countSignInTry,
  findPersonId,
  readSessionEpoch,
  takeBackSignInTry,
  writeAudit,
  type TriedAt,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { FastifyRequest } from 'fastify';
import { callAuth, type AuthAnswer } from '../auth-calls.ts';
import { Refusal } from '../refusal.ts';
import type { SignInParts } from '../sign-in-parts.ts';

/** The same refusal whatever was wrong, and whether or not there is such a person. */
function wrongPassword(): Refusal {
  return new Refusal(
    401,
    'INVALID_EMAIL_OR_PASSWORD',
    'The e-mail address or the password is wrong.',
  );
}

/**
 * Runs `tryIt`, which checks a password, unless the address is locked, for this source or
 * everywhere; a failure counts towards its lock-outs, and a success takes its count back. A person who
 * changes their password has a count of their own.
 * @throws {Refusal} 429 `ACCOUNT_LOCKED`, or what `tryIt` throws.
 */
export async function withLockOut<Answer>(
  parts: SignInParts,
  at: {
    readonly email: string;
    readonly request: FastifyRequest;
    readonly isChange?: boolean;
  },
  tryIt: () => Promise<Answer>,
): Promise<Answer> {
  const { general } = parts.store;
  const { email, request } = at;
  const source = parts.sources.of(request.raw);
  const triedAt: TriedAt = {
    email,
    from: at.isChange === true ? 'change-password' : { address: source },
  };
  return parts.atGate(async () => {
    const counted = await countSignInTry(general, triedAt);
    if (counted.outcome === 'locked') {
      const { lockedUntil } = counted;
      throw new Refusal(429, 'ACCOUNT_LOCKED', 'Too many failed sign-ins. Try again later.', {
        lockedUntil,
      });
    }
    try {
      const answer = await tryIt();
      await takeBackSignInTry(general, triedAt);
      return answer;
    } catch (error) {
      if (error instanceof Refusal && counted.isLast) {
        await auditLockOut(general, { email, source });
      }
      throw error;
    }
  });
}

/**
 * Opens a session for a password that is right. If all sessions of the person are ended while it is
 * checked, such as by a new password, the sign-in is refused, or its session does not count.
 * @throws {Refusal} 401 for any that is not.
 */
export async function openSession(
  parts: SignInParts,
  request: FastifyRequest,
  credentials: { readonly email: string; readonly password: string },
): Promise<AuthAnswer> {
  const epoch = await readSessionEpoch(parts.store.general, credentials.email);
  const answer = await callAuth(parts.signIn.auth, {
    path: '/sign-in/email',
    origin: parts.signIn.origins.main,
    source: parts.sources.of(request.raw),
    requestId: request.id,
    userAgent: request.headers['user-agent'],
    body: credentials,
    epoch,
  });
  if (answer.status >= 500) {
    throw new Error(`better-auth answered ${String(answer.status)} to a sign-in`);
  }
  if (answer.status !== 200) throw wrongPassword();
  return answer;
}

/**
 * Records that a person was locked out. Not for an address that is nobody's: what was typed may be a
 * password, and the number of entries would have no bound.
 */
async function auditLockOut(
  general: Store['general'],
  lockOut: { readonly email: string; readonly source: string | null },
): Promise<void> {
  const personId = await findPersonId(general, lockOut.email);
  if (personId === undefined) return;
  await writeAudit(general, {
    actor: 'sign-in',
    role: 'none',
    action: 'people.lockOut',
    resource: `person:${personId}`,
    source: lockOut.source,
    detail: { email: lockOut.email },
  });
}
