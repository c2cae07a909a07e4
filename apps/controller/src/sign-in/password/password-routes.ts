import { emailSchema } from '@leasehold/api/contract';
import { LeaseError } from '@leasehold/keys-core';
import {
  hashPassword,
  PASSWORD_LENGTH,
  PEOPLE_TOPIC,
  readPasswordHash,
  replacePassword,
  endOtherSessions,
  verifyPassword,
  writeAudit,
} from '@leasehold/keys-core/access';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { checkedBody, Refusal } from '../refusal.ts';
import { setCookies, type SignInParts } from '../sign-in-parts.ts';
import { openSession, withLockOut } from './sign-in-with-password.ts';

/** A password as somebody types it to prove who they are. */
const typedPasswordSchema = z
  .string()
  .min(1, 'must not be empty')
  .max(PASSWORD_LENGTH.max, `must have at most ${String(PASSWORD_LENGTH.max)} characters`);

/** A password that somebody chooses. */
export const newPasswordSchema = z
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
