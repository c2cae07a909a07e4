import { LeaseError } from '@leasehold/keys-core';
import { endSession, endSessionsOf, PEOPLE_TOPIC, writeAudit } from '@leasehold/keys-core/access';
import type { FastifyInstance } from 'fastify';
import type { SignInParts } from '../sign-in-parts.ts';

/** Signing out: here, or everywhere. What is open in those sessions ends with them. */
export function mountSessions(scope: FastifyInstance, parts: SignInParts): void {
  const { general, hints } = parts.store;
  const { people, cookies } = parts.signIn;

  scope.post('/sign-out', async (request, reply) => {
    const access = await people.sessionOf(request.raw);
    if (access?.session !== undefined) {
      await endSession(general, access.session.sessionId);
      hints.notify(PEOPLE_TOPIC);
    }
    // Without a session there is nothing left to do.
    void reply.header('set-cookie', cookies.removal);
    return { success: true };
  });

  scope.post('/revoke-sessions', async (request, reply) => {
    const access = await people.sessionOf(request.raw);
    if (access?.session === undefined) throw new LeaseError('auth.required');
    const { personId } = access.session;
    await general.$transaction(async (tx) => {
      const endedCount = await endSessionsOf(tx, personId);
      await writeAudit(tx, {
        actor: access.name,
        role: access.role,
        action: 'people.signOutEverywhere',
        resource: `person:${personId}`,
        source: parts.sources.of(request.raw),
        detail: { endedCount },
      });
    });
    hints.notify(PEOPLE_TOPIC);
    void reply.header('set-cookie', cookies.removal);
    return { status: true };
  });
}
