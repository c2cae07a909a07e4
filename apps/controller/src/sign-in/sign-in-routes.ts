/**
 * Sign-in, below `/api/auth`. These routes and no others: what else better-auth could answer is not
 * reachable. A request from another site is refused, bodies are small and JSON only, and each
 * address may try a limited number of passwords a second.
 */
import type { IncomingMessage } from 'node:http';
import { emailSchema, personInviteInputSchema } from '@leasehold/api/contract';
import { LeaseError } from '@leasehold/keys-core';
import {
  endSession,
  endSessionsOf,
  PEOPLE_TOPIC,
  writeAudit,
  acceptInvitation,
  countSignInTry,
  endOtherSessions,
  findPersonId,
  forgetSignInFailures,
  hashPassword,
  isInvitationOpen,
  PASSWORD_LENGTH,
  readPasswordHash,
  readSessionEpoch,
  replacePassword,
  setPassword,
  takeBackSignInTry,
  verifyPassword,
  type Accepted,
  type TriedAt,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { addressOf, asOurs, callOfRoute } from '../http/request-context.ts';
import {
  AUTH_PATH,
  callAuth,
  OIDC_PROVIDER,
  SIGN_IN_PAGE,
  type AuthAnswer,
  type AuthCall,
} from './auth.ts';
import {
  createPasswordGate,
  Refusal,
  replyWithRefusal,
  type SignInDeps,
  type SignInParts,
  checkedBody,
  setCookies,
} from './sign-in-parts.ts';
import type { SignIn } from './sign-in.ts';

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

/** A provider that takes longer counts as unreachable. */
const PROVIDER_MS_MAX = 15_000;
const PATH_LENGTH_MAX = 2_048;

const providerSignInSchema = z.object({
  providerId: z.literal(OIDC_PROVIDER, `must be ${OIDC_PROVIDER}`),
  callbackURL: z
    .string()
    .max(PATH_LENGTH_MAX)
    .refine(
      (path) => /^\/(?![/\\])[\x21-\x7e]*$/u.test(path) && isOwnPath(path),
      'must be a path of the console, such as /',
    )
    .default('/'),
});

/** The errors of the sign-in page, by the name of better-auth; any other one is `oidc_failed`. */
const ERRORS: Readonly<Record<string, string>> = {
  signup_disabled: 'not_invited',
  not_invited: 'not_invited',
  no_role: 'no_role',
  account_linked: 'account_linked',
  account_not_linked: 'email_not_verified',
  email_not_found: 'email_not_verified',
  state_mismatch: 'state_mismatch',
  state_not_found: 'state_mismatch',
  state_security_mismatch: 'state_mismatch',
  access_denied: 'access_denied',
};

/**
 * Sign-in with an identity provider: a redirect there, and the one back with a code. Only people who
 * were invited come in, by the address that the provider has verified; a refusal is shown on
 * the sign-in page, as `/sign-in?error=…`.
 */
function mountOidc(scope: FastifyInstance, parts: SignInParts): void {
  const { signIn } = parts;
  const { oidc } = signIn;
  if (oidc === null) return;
  const ask = (call: Omit<AuthCall, 'origin'>): Promise<AuthAnswer> =>
    withinTime(callAuth(oidc.auth, { ...call, origin: signIn.origins.main }));

  scope.post('/sign-in/oauth2', async (request, reply) => {
    await parts.countTry(request);
    const { callbackURL } = checkedBody(providerSignInSchema, request.body);
    const answer = await ask({
      path: '/sign-in/social',
      source: parts.sources.of(request.raw),
      requestId: request.id,
      body: {
        provider: OIDC_PROVIDER,
        callbackURL,
        errorCallbackURL: SIGN_IN_PAGE,
        disableRedirect: true,
      },
    });
    const { url } = answer.body;
    if (answer.status !== 200 || typeof url !== 'string') {
      parts.log.warn(
        { requestId: request.id, status: answer.status, answer: answer.body['code'] },
        'no identity provider',
      );
      throw new Refusal(503, 'OIDC_UNREACHABLE', 'The identity provider cannot be reached.');
    }
    setCookies(reply, answer.cookies);
    return { url };
  });

  scope.get(`/callback/${OIDC_PROVIDER}`, async (request, reply) => {
    await parts.countTry(request);
    const question = request.raw.url?.indexOf('?') ?? -1;
    const answer = await ask({
      path: `/callback/${OIDC_PROVIDER}`,
      query: question < 0 ? '' : request.raw.url?.slice(question),
      cookie: request.headers.cookie,
      source: parts.sources.of(request.raw),
      requestId: request.id,
      userAgent: request.headers['user-agent'],
    });
    setCookies(reply, answer.cookies);
    return reply.redirect(landing(signIn, answer), 302);
  });
}

/** Where the browser goes next: within the console, whatever was answered. */
function landing(signIn: SignIn, answer: AuthAnswer): string {
  const { main } = signIn.origins;
  const target = answer.location === null ? undefined : new URL(answer.location, main);
  if (answer.isWithoutRole) return `${SIGN_IN_PAGE}?error=no_role`;
  if (target?.origin !== main) return `${SIGN_IN_PAGE}?error=oidc_failed`;
  const error = target.searchParams.get('error');
  if (error === null || target.pathname !== SIGN_IN_PAGE) {
    return landingOf(target);
  }
  return `${SIGN_IN_PAGE}?error=${ERRORS[error] ?? 'oidc_failed'}`;
}

async function withinTime<Answer>(answer: Promise<Answer>): Promise<Answer> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () =>
        reject(new LeaseError('request.deadline', 'The identity provider did not answer in time.')),
      PROVIDER_MS_MAX,
    );
  });
  try {
    return await Promise.race([answer, tooLong]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The path and query of an address of the console, as a browser would go there; `/` if the browser
 * would leave it: a path that begins with two slashes names another host. `/.//host` begins so too,
 * once it is read as an address.
 */
export function landingOf({ pathname, search }: URL): string {
  return /^\/[/\\]|\/\.\/\//u.test(pathname) ? '/' : `${pathname}${search}`;
}

/** Whether a path, read as a browser reads it, stays what it is: one within the console. */
export function isOwnPath(path: string): boolean {
  const base = 'http://console.invalid';
  if (!path.startsWith('/') || !URL.canParse(path, base)) return false;
  const url = new URL(path, base);
  return url.origin === base && landingOf(url) === `${url.pathname}${url.search}`;
}

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

const passwordSignInSchema = z.object({ email: emailSchema, password: typedPasswordSchema });
const changeSchema = z.object({
  currentPassword: typedPasswordSchema,
  newPassword: newPasswordSchema,
});

/** Signing in with a password, and changing it. */
function mountPasswords(scope: FastifyInstance, parts: SignInParts): void {
  scope.post('/sign-in/email', async (request, reply) => {
    await parts.countTry(request);
    const credentials = checkedBody(passwordSignInSchema, request.body);
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
    'This link was used, replaced, or has expired. If you have just chosen a password, sign in with it; otherwise ask for a new link.',
  );
}

/** Accepting the link of an invitation or of a password reset: it sets the password, and signs in. */
function mountInvitations(scope: FastifyInstance, parts: SignInParts): void {
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
