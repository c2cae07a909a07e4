/**
 * Sign-in with an identity provider: a redirect there, and the one back with a code. Only people who
 * were invited come in, by the address that the provider has verified; a refusal is shown on
 * the sign-in page, as `/sign-in?error=…`.
 */
import { LeaseError } from '@leasehold/keys-core';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { callAuth, OIDC_PROVIDER, SIGN_IN_PAGE, type AuthAnswer, type AuthCall } from './auth.ts';
import { checkedBody, Refusal, setCookies, type SignInParts } from './sign-in-parts.ts';
import type { SignIn } from './sign-in.ts';

/** A provider that takes longer counts as unreachable. */
const PROVIDER_MS_MAX = 15_000;
const PATH_LENGTH_MAX = 2_048;

const signInSchema = z.object({
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

export function mountOidc(scope: FastifyInstance, parts: SignInParts): void {
  const { signIn } = parts;
  const { oidc } = signIn;
  if (oidc === null) return;
  const ask = (call: Omit<AuthCall, 'origin'>): Promise<AuthAnswer> =>
    withinTime(callAuth(oidc.auth, { ...call, origin: signIn.origins.main }));

  scope.post('/sign-in/oauth2', async (request, reply) => {
    await parts.countTry(request);
    const { callbackURL } = checkedBody(signInSchema, request.body);
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
