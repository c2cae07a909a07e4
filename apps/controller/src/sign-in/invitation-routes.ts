import { personInviteInputSchema } from '@leasehold/api/contract';
import {
  acceptInvitation,
  endSessionsOf,
  forgetSignInFailures,
  hashPassword,
  isInvitationOpen,
  PEOPLE_TOPIC,
  setPassword,
  writeAudit,
  type Accepted,
} from '@leasehold/keys-core/access';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { newPasswordSchema } from './password/password-routes.ts';
import { checkedBody, Refusal } from './refusal.ts';
import { setCookies, type SignInParts } from './sign-in-parts.ts';
import { openSession } from './password/sign-in-with-password.ts';

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
