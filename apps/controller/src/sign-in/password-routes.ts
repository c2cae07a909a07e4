import { emailSchema, personInviteInputSchema } from '@leasehold/api/contract';
import { LeaseError } from '@leasehold/keys-core';
import {
  acceptInvitation,
  countSignInTry,
  endOtherSessions,
  endSessionsOf,
  findPersonId,
  forgetSignInFailures,
  hashPassword,
  isInvitationOpen,
  PASSWORD_LENGTH,
  PEOPLE_TOPIC,
  readPasswordHash,
  readSessionEpoch,
  replacePassword,
  setPassword,
  takeBackSignInTry,
  verifyPassword,
  writeAudit,
  type Accepted,
  type TriedAt,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { callAuth, type AuthAnswer } from './auth.ts';
import { checkedBody, Refusal, setCookies, type SignInParts } from './sign-in-parts.ts';

/** A password as somebody types it to prove who they are. */
const typedPasswordSchema = z
  .string()
  .min(1, 'must not be empty')
  .max(PASSWORD_LENGTH.max, `must have at most ${String(PASSWORD_LENGTH.max)} characters`);

/** A password that somebody chooses. */
const newPasswordSchema = z
  .string()
  .min(PASSWORD_LENGTH.min, `must have at least ${String(PASSWORD_LENGTH.min)} characters`)
  .max(PASSWORD_LENGTH.max, `must have at most ${String(PASSWORD_LENGTH.max)} characters`);

const signInSchema = z.object({ email: emailSchema, password: typedPasswordSchema });
const changeSchema = z.object({
  currentPassword: typedPasswordSchema,
  newPassword: newPasswordSchema,
});

/** Signing in with a password, and changing it. */
export function mountPasswords(scope: FastifyInstance, parts: SignInParts): void {
  scope.post('/sign-in/email', async (request, reply) => {
    await parts.countTry(request);
    const credentials = checkedBody(signInSchema, request.body);
    const answer = await withLockOut(parts, { email: credentials.email, request }, () =>
      openSession(parts, request, credentials),
    );
    setCookies(reply, answer.cookies);
    return { email: credentials.email };
  });

  scope.post('/change-password', async (request) => {
    await parts.countTry(request);
    const access = await parts.signIn.people.sessionOf(request.raw);
    if (access?.session === undefined) throw new LeaseError('auth.required');
    const { personId, sessionId, email } = access.session;
    const { currentPassword, newPassword } = checkedBody(changeSchema, request.body);
    await withLockOut(parts, { email, request, isChange: true }, async () => {
      const { general, hints } = parts.store;
      const knownHash = await readPasswordHash(general, personId);
      const isRight = knownHash !== undefined && (await verifyPassword(knownHash, currentPassword));
      const isReplaced =
        isRight &&
        (await replace(parts, {
          personId,
          sessionId,
          knownHash,
          newHash: await hashPassword(newPassword),
          audit: { actor: access.name, role: access.role, source: parts.sources.of(request.raw) },
        }));
      if (!isReplaced) throw new Refusal(400, 'INVALID_PASSWORD', 'The password is wrong.');
      hints.notify(PEOPLE_TOPIC);
    });
    return { status: true };
  });
}

/** The new password, the end of every other session, and the audit entry: all or nothing. */
function replace(
  parts: SignInParts,
  change: {
    readonly personId: string;
    readonly sessionId: string;
    readonly knownHash: string;
    readonly newHash: string;
    readonly audit: { actor: string; role: string; source: string | null };
  },
): Promise<boolean> {
  const { personId, sessionId, audit } = change;
  return parts.store.general.$transaction(async (tx) => {
    if (!(await replacePassword(tx, personId, change))) return false;
    const endedCount = await endOtherSessions(tx, personId, sessionId);
    await writeAudit(tx, {
      ...audit,
      action: 'people.changePassword',
      resource: `person:${personId}`,
      detail: { endedCount },
    });
    return true;
  });
}

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
async function withLockOut<Answer>(
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
async function openSession(
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

const INVITATION_LENGTH_MAX = 128;

const acceptSchema = z.object({
  invitation: z.string().min(1, 'must not be empty').max(INVITATION_LENGTH_MAX),
  password: newPasswordSchema,
  name: personInviteInputSchema.shape.name,
});

function notOpen(): Refusal {
  return new Refusal(
    400,
    'INVALID_INVITATION',
    'This link was used, replaced, or has expired. Ask for a new one.',
  );
}

/** Accepting the link of an invitation or of a password reset: it sets the password, and signs in. */
export function mountInvitations(scope: FastifyInstance, parts: SignInParts): void {
  const { general, hints } = parts.store;

  scope.post('/accept-invitation', async (request, reply) => {
    await parts.countTry(request);
    const { invitation, password, name } = checkedBody(acceptSchema, request.body);
    // Checked before the work of hashing, so that guesses are cheap for us.
    if (!(await isInvitationOpen(general, invitation))) throw notOpen();
    const answer = await parts.atGate(async () => {
      const passwordHash = await hashPassword(password);
      const email = await general.$transaction(async (tx) => {
        const person = await acceptInvitation(tx, { secret: invitation, name: name ?? null });
        if (person === undefined) throw notOpen();
        await setPassword(tx, person.personId, passwordHash);
        const detail = person.isReset ? await endOldAccess(tx, person) : undefined;
        await writeAudit(tx, {
          actor: person.email,
          role: person.role,
          action: person.isReset ? 'people.acceptPasswordReset' : 'people.acceptInvitation',
          resource: `person:${person.personId}`,
          source: parts.sources.of(request.raw),
          detail,
        });
        return person.email;
      });
      hints.notify(PEOPLE_TOPIC);
      return { email, ...(await openSession(parts, request, { email, password })) };
    });
    setCookies(reply, answer.cookies);
    return { email: answer.email };
  });
}

/** People who knew the old password are out, and the person is not kept out by failed tries. */
async function endOldAccess(
  tx: Parameters<typeof writeAudit>[0],
  { personId, email }: Accepted,
): Promise<Readonly<Record<string, unknown>>> {
  const endedCount = await endSessionsOf(tx, personId);
  return { endedCount, wasLocked: await forgetSignInFailures(tx, email) };
}
