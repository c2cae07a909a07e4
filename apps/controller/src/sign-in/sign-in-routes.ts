/**
 * Sign-in, below `/api/auth`. These routes and no others: what else better-auth could answer is not
 * reachable. A request from another site is refused, bodies are small and JSON only, and each
 * address may try a limited number of passwords a second.
 */
import type { IncomingMessage } from 'node:http';
import { LeaseError } from '@leasehold/keys-core';
import { endSession, endSessionsOf, PEOPLE_TOPIC, writeAudit } from '@leasehold/keys-core/access';
import type { FastifyInstance } from 'fastify';
import { addressOf, asOurs, callOfRoute } from '../http/request-context.ts';
import { AUTH_PATH } from './auth.ts';
import { mountOidc } from './oidc-routes.ts';
import { mountInvitations, mountPasswords } from './password-routes.ts';
import {
  createPasswordGate,
  Refusal,
  replyWithRefusal,
  type SignInDeps,
  type SignInParts,
} from './sign-in-parts.ts';

const BODY_BYTES_MAX = 16 * 1_024;
/** For a small body of a caller that nobody knows. */
const BODY_MS_MAX = 5_000;

export async function mountSignIn(server: FastifyInstance, deps: SignInDeps): Promise<void> {
  const parts: SignInParts = {
    ...deps,
    atGate: createPasswordGate(),
    countTry: (request) => deps.rates.signIn(addressOf(deps, request.raw)),
  };
  await server.register(
    (scope, _options, done) => {
      guard(scope, deps);
      scope.get('/sign-in-options', () => ({
        password: true,
        oidc: deps.signIn.oidc === null ? null : { name: deps.signIn.oidc.config.name },
      }));
      mountPasswords(scope, parts);
      mountInvitations(scope, parts);
      mountSessions(scope, parts);
      mountOidc(scope, parts);
      done();
    },
    { prefix: AUTH_PATH, bodyLimit: BODY_BYTES_MAX },
  );
}

/** What holds for every route: who may call, how often, and what a refusal looks like. */
function guard(scope: FastifyInstance, deps: SignInDeps): void {
  // A form of another site can send text and forms, and nothing here takes them.
  scope.removeContentTypeParser('text/plain');
  scope.addHook('onRequest', (request, _reply, done) => {
    limitBodyTime(request.raw);
    if (!deps.signIn.origins.mayCome(request.headers.origin)) {
      done(new Refusal(403, 'INVALID_ORIGIN', 'The request comes from another site.'));
      return;
    }
    done();
  });
  scope.setErrorHandler((error: Error, request, reply) => {
    const ours = error instanceof Refusal ? error : asOurs(error);
    if (!(ours instanceof Refusal)) deps.failures.note(ours, callOfRoute(request), 'warn');
    return replyWithRefusal(reply, ours);
  });
}

/** Ends the connection of a request whose body does not arrive. */
function limitBodyTime(request: IncomingMessage): void {
  // Whether it has arrived, and not whether it was read: nobody reads the body of a GET.
  const timer = setTimeout(() => {
    if (!request.complete) request.socket.destroy();
  }, BODY_MS_MAX);
  timer.unref();
  request.once('close', () => clearTimeout(timer));
}

/** Signing out: here, or everywhere. What is open in those sessions ends with them. */
function mountSessions(scope: FastifyInstance, parts: SignInParts): void {
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
