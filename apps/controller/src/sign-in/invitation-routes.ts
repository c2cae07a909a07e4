import { personInviteInputSchema } from '@leasehold/api/contract';
import {
  acceptInvitation,
  hashPassword,
  isInvitationOpen,
  setPassword,
  writeAudit,
} from '@leasehold/keys-core/store';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { newPasswordSchema } from './password-routes.ts';
import { checkedBody, Refusal } from './refusal.ts';
import { setCookies, type SignInParts } from './sign-in-routes.ts';
import { openSession } from './sign-in-with-password.ts';

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
    'This invitation was used, replaced, or has expired. Ask for a new one.',
  );
}

/** Taking an invitation up: it sets the password, and signs in. */
export function mountInvitations(scope: FastifyInstance, parts: SignInParts): void {
  const { prisma } = parts.store;

  scope.post('/accept-invitation', async (request, reply) => {
    parts.countTry(request);
    const { invitation, password, name } = checkedBody(acceptSchema, request.body);
    // Before the work of hashing: guesses are cheap for us.
    if (!(await isInvitationOpen(prisma, invitation))) throw notOpen();
    const answer = await parts.atGate(async () => {
      const passwordHash = await hashPassword(password);
      const email = await prisma.$transaction(async (tx) => {
        const person = await acceptInvitation(tx, { secret: invitation, name: name ?? null });
        if (person === undefined) throw notOpen();
        await setPassword(tx, person.personId, passwordHash);
        await writeAudit(tx, {
          actor: person.email,
          role: person.role,
          action: 'people.acceptInvitation',
          resource: `person:${person.personId}`,
          source: parts.sourceOf(request.raw),
        });
        return person.email;
      });
      return { email, ...(await openSession(parts, request, { email, password })) };
    });
    setCookies(reply, answer.cookies);
    return { email: answer.email };
  });
}
