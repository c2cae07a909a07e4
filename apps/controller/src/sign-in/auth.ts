/**
 * better-auth, as far as Leasehold uses it: it checks a password or talks to the identity provider,
 * and opens a session with its signed cookie. What ends a session, and everything about roles and
 * invitations, are statements of Leasehold's own, each with its audit entry.
 *
 * It never creates a person: a person who is not invited cannot sign in, whatever a provider says.
 */
import { randomUUID } from 'node:crypto';
import {
  getCurrentAuthContextAsyncLocalStorage,
  getCurrentDBAdapterAsyncLocalStorage,
  getRequestStateAsyncLocalStorage,
} from '@better-auth/core/context';
import { prismaAdapter } from '@better-auth/prisma-adapter';
import {
  hashPassword,
  hasOidcAccount,
  oidcSubjectOf,
  PASSWORD_LENGTH,
  PEOPLE_TOPIC,
  readForRefusal,
  recordSignIn,
  removeAccountOfOtherIssuer,
  SESSION_DAYS_MAX,
  verifyPassword,
  writeAudit,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import { jsonOf, type Logger } from '@leasehold/service-kit';
import { APIError } from 'better-auth/api';
import { betterAuth } from 'better-auth/minimal';
import { genericOAuth } from 'better-auth/plugins/generic-oauth';
import { cookiePrefix, type Origins } from './browser-session.ts';
import { accountOf, applyGrant, callOfAuth, takeGroups, type CallState } from './oidc-claims.ts';
import type { OidcConfig } from './sign-in-config.ts';

export const AUTH_PATH = '/api/auth';
/** The name of the identity provider in better-auth. */
export const OIDC_PROVIDER = 'oidc';
/** Carries the caller's address to better-auth; what a caller sends under this name is dropped. */
const SOURCE_HEADER = 'x-leasehold-source';
/** Carries the epoch of the person's sessions to better-auth, as it was before the password is checked. */
const EPOCH_HEADER = 'x-leasehold-epoch';
/** The page of the console that shows an identity provider's refusal. */
export const SIGN_IN_PAGE = '/sign-in';

const DAY_SECONDS = 86_400;

interface AuthDeps {
  readonly store: Pick<Store, 'general' | 'hints'>;
  readonly secret: string;
  readonly origins: Origins;
  readonly log: Logger;
}

/** What is asked of better-auth: to answer a request for one of its endpoints. */
interface Auth {
  handler(request: Request): Promise<Response>;
}

/** @param oidc - null: passwords alone. */
export function createAuth(deps: AuthDeps, oidc: OidcConfig | null): Auth {
  const { store, secret, origins } = deps;
  const auth = betterAuth({
    appName: 'Leasehold',
    baseURL: origins.main,
    basePath: AUTH_PATH,
    secret,
    trustedOrigins: [...origins.all],
    // Its names of models and fields are those of our schema.
    database: prismaAdapter(store.general.records, { provider: 'postgresql' }),
    telemetry: { enabled: false },
    rateLimit: { enabled: false },
    logger: loggerOf(deps.log),
    onAPIError: { errorURL: `${origins.main}${SIGN_IN_PAGE}` },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: PASSWORD_LENGTH.min,
      maxPasswordLength: PASSWORD_LENGTH.max,
      password: {
        hash: hashPassword,
        verify: ({ hash, password }) => verifyPassword(hash, password),
      },
    },
    user: { modelName: 'person' },
    session: {
      modelName: 'personSession',
      fields: { userId: 'personId' },
      additionalFields: {
        epoch: { type: 'number', required: false, input: false, returned: false },
      },
      // The bound of its age; the session authority ends it when it is idle.
      expiresIn: SESSION_DAYS_MAX * DAY_SECONDS,
      disableSessionRefresh: true,
    },
    account: {
      modelName: 'personAccount',
      fields: { userId: 'personId' },
      updateAccountOnSignIn: false,
      // An administrator chose whom to invite, so the provider's word for the address is enough.
      accountLinking: { enabled: true, requireLocalEmailVerified: false },
    },
    verification: { modelName: 'personVerification' },
    advanced: {
      cookiePrefix: cookiePrefix(origins.isSecure),
      // It would begin every name with `__Secure-`.
      useSecureCookies: false,
      defaultCookieAttributes: { secure: origins.isSecure },
      ipAddress: { ipAddressHeaders: [SOURCE_HEADER] },
      database: { generateId: () => randomUUID() },
    },
    databaseHooks: hooksOf(store),
    plugins: oidc === null ? [] : [oidcPlugin(deps, oidc)],
  });
  return { handler: (request) => auth.handler(request) };
}

/** The parts of better-auth's hook arguments that are used. */
interface HookContext {
  readonly path?: string | undefined;
  readonly headers?: Headers | undefined;
}

type Hooks = NonNullable<Parameters<typeof betterAuth>[0]['databaseHooks']>;

function hooksOf(store: AuthDeps['store']): Hooks {
  return {
    user: { create: { before: () => Promise.resolve(false) } },
    account: {
      create: {
        before: async (account) => {
          const { issuer } = oidcSubjectOf(account.accountId);
          // An address may be given to somebody else at the provider: that is not the same person.
          if (await hasOidcAccount(store.general, account.userId, issuer)) {
            throw new APIError('UNAUTHORIZED', { code: 'account_linked' });
          }
          // After a change of the issuer, the verified address counts once more, as in an invitation.
          await removeAccountOfOtherIssuer(store.general, account.userId, issuer);
          // The provider is not called after the sign-in, so none of its tokens are kept.
          return {
            data: {
              ...account,
              accessToken: null,
              refreshToken: null,
              idToken: null,
              accessTokenExpiresAt: null,
              refreshTokenExpiresAt: null,
            },
          };
        },
        after: (account, context) => auditLink(store, account, context),
      },
    },
    session: {
      create: {
        before: async (session, context) => ({
          data: { ...session, epoch: await admit(store, session.userId, context) },
        }),
      },
    },
  };
}

/** Records in the audit with which account of the identity provider a person signs in from now on. */
async function auditLink(
  store: Pick<Store, 'general'>,
  account: { readonly userId: string; readonly providerId: string; readonly accountId: string },
  context: HookContext | null,
): Promise<void> {
  const { email, role } = await readForRefusal(store.general, account.userId);
  await writeAudit(store.general, {
    actor: email,
    role,
    action: 'people.linkAccount',
    resource: `person:${account.userId}`,
    source: context?.headers?.get(SOURCE_HEADER),
    detail: { provider: account.providerId, ...oidcSubjectOf(account.accountId) },
  });
}

/**
 * Lets a person begin a session, and records it in the audit; one who is disabled, or whose sessions were
 * all ended meanwhile, is refused. @returns the epoch of the session.
 */
async function admit(
  store: AuthDeps['store'],
  personId: string,
  context: HookContext | null,
): Promise<number> {
  const known = context?.headers?.get(EPOCH_HEADER);
  const grant = callOfAuth.getStore()?.grant;
  if (grant === null) throw new APIError('UNAUTHORIZED', { code: 'no_role' });
  const admitted = await store.general.$transaction(async (tx) => {
    const knownEpoch = known == null ? undefined : Number(known);
    const isChanged = grant === undefined ? false : await applyGrant(tx, personId, grant);
    const person = await recordSignIn(tx, personId, knownEpoch);
    // Nothing of this is kept.
    if (person === undefined) throw new APIError('UNAUTHORIZED', { code: 'not_invited' });
    await writeAudit(tx, {
      actor: person.email,
      role: person.role,
      action: 'people.signIn',
      resource: `person:${personId}`,
      source: context?.headers?.get(SOURCE_HEADER),
      detail: { method: context?.path?.startsWith('/callback/') === true ? 'oidc' : 'password' },
    });
    return { epoch: person.epoch, isChanged };
  });
  if (admitted.isChanged) store.hints.notify(PEOPLE_TOPIC);
  return admitted.epoch;
}

function oidcPlugin(
  { store, log }: Pick<AuthDeps, 'store' | 'log'>,
  oidc: OidcConfig,
): ReturnType<typeof genericOAuth> {
  return genericOAuth({
    config: [
      {
        providerId: OIDC_PROVIDER,
        name: oidc.name,
        discoveryUrl: `${oidc.issuer}/.well-known/openid-configuration`,
        clientId: oidc.clientId,
        clientSecret: oidc.clientSecret,
        scopes: [...new Set(['openid', 'email', 'profile', ...(oidc.scopes ?? [])])],
        pkce: true,
        disableSignUp: true,
        requireIdTokenVerification: true,
        accountSubject: async (answer) => {
          const account = accountOf(oidc, answer);
          await takeGroups({ store, log, call: callOfAuth.getStore() }, oidc, answer);
          return account;
        },
        disableProviderLogout: true,
      },
    ],
  });
}

/** What better-auth logs may name what a caller typed: its messages are kept, not their arguments. */
function loggerOf(log: Logger): {
  log: (level: string, message: string, ...args: unknown[]) => void;
} {
  return {
    log(level, message, ...args) {
      const cause = args.find((arg) => arg instanceof Error);
      const requestId = callOfAuth.getStore()?.requestId;
      const about = { part: 'better-auth', requestId, cause: cause?.name };
      if (level === 'error') log.warn(about, message);
      else log.debug(about, message);
    },
  };
}

/** A call of better-auth, rebuilt from checked values: nothing of a caller reaches it unchecked. */
export interface AuthCall {
  readonly path: string;
  readonly origin: string;
  readonly source: string | null;
  readonly requestId: string;
  /** Posted as JSON; without it, a GET. */
  readonly body?: Readonly<Record<string, unknown>> | undefined;
  readonly query?: string | undefined;
  readonly cookie?: string | undefined;
  readonly userAgent?: string | undefined;
  /** The epoch of the person's sessions, as it was before the password is checked. */
  readonly epoch?: number | undefined;
}

const USER_AGENT_LENGTH_MAX = 255;

/** What better-auth answered, as far as it is passed on. */
export interface AuthAnswer {
  readonly status: number;
  readonly cookies: readonly string[];
  readonly location: string | null;
  readonly body: Readonly<Record<string, unknown>>;
  /** Whether the groups of the person, at the identity provider, allow nothing here. */
  readonly isWithoutRole: boolean;
}

/** Calls better-auth. */
export async function callAuth(auth: Auth, call: AuthCall): Promise<AuthAnswer> {
  const headers = new Headers({ origin: call.origin });
  if (call.source !== null) headers.set(SOURCE_HEADER, call.source);
  if (call.epoch !== undefined) headers.set(EPOCH_HEADER, String(call.epoch));
  if (call.cookie !== undefined) headers.set('cookie', call.cookie);
  if (call.userAgent !== undefined) {
    headers.set('user-agent', call.userAgent.slice(0, USER_AGENT_LENGTH_MAX));
  }
  if (call.body !== undefined) headers.set('content-type', 'application/json');
  const request = new Request(`${call.origin}${AUTH_PATH}${call.path}${call.query ?? ''}`, {
    method: call.body === undefined ? 'GET' : 'POST',
    headers,
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  });
  const state: CallState = { requestId: call.requestId, source: call.source };
  const response = await carryOut(() => callOfAuth.run(state, () => auth.handler(request)));
  // Redirections have no body.
  const body = jsonOf(await response.text());
  return {
    status: response.status,
    cookies: response.headers.getSetCookie(),
    location: response.headers.get('location'),
    body: typeof body === 'object' && body !== null ? { ...body } : {},
    isWithoutRole: state.grant === null,
  };
}

/** How many calls better-auth is carrying out now. */
let runningCount = 0;

/**
 * Lets better-auth carry out a call, and ends its storages when no other call needs them. Before Node 24 an
 * `AsyncLocalStorage` puts hooks on every promise of the process, from its first use until it is disabled. They
 * take a few percent of what a call takes.
 */
async function carryOut<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  runningCount += 1;
  try {
    return await call();
  } finally {
    runningCount -= 1;
    if (runningCount === 0) await endStorages();
  }
}

async function endStorages(): Promise<void> {
  const storages = await Promise.all([
    // oxlint-disable-next-line typescript/no-deprecated -- for its storage, what replaces it has no name
    getCurrentAuthContextAsyncLocalStorage(),
    getCurrentDBAdapterAsyncLocalStorage(),
    getRequestStateAsyncLocalStorage(),
  ]);
  if (runningCount > 0) return;
  for (const storage of [callOfAuth, ...storages]) storage.disable();
}
