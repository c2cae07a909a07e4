/** A small real identity provider. In an entry of its own: few tests need what it loads. */
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';

/** A person whom the provider knows; the name that they sign in with is the key of `people`. */
export interface OidcPerson {
  readonly email: string;
  readonly isVerified: boolean;
  readonly groups?: readonly string[];
}

/** What is wrong with an id_token, or with userinfo. */
export interface Forgery {
  /** In place of the provider's own. */
  readonly claims?: Readonly<Record<string, unknown>>;
  /** In place of the provider's own; or it answers with this status, or with a signed token. */
  readonly userinfo?: Readonly<Record<string, unknown>> | number | 'signed';
  /** Whose signature it has; the provider's, unless it is said. */
  readonly signedBy?: 'another' | 'nobody';
}

/** An identity provider that answers. Any password is right. */
export interface OidcProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Makes something wrong with each id_token and userinfo from now on. */
  forge(forgery: Forgery): void;
  close(): Promise<void>;
}

/** Where it is by default. */
const USERINFO_PATH = '/me';

/** Starts one on a free port, for the console at this origin. */
export async function startOidcProvider(options: {
  readonly consoleOrigin: string;
  readonly people: Readonly<Record<string, OidcPerson>>;
}): Promise<OidcProvider> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  const [clientId, clientSecret] = ['leasehold', 'a secret of the client'];
  const key = keyOf('provider');
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...key.export({ format: 'jwk' }), use: 'sig' }] },
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [`${options.consoleOrigin}/api/auth/callback/oidc`],
      },
    ],
    claims: {
      openid: ['sub'],
      groups: ['groups'],
      email: ['email', 'email_verified'],
      profile: ['name'],
    },
    cookies: { keys: ['a key of the test'] },
    findAccount: (_ctx, sub) => {
      const person = options.people[sub];
      if (person === undefined) return undefined;
      return {
        accountId: sub,
        // As they are when they are asked for: a person may join a group between two sign-ins.
        claims: () => {
          const { email, isVerified, groups } = options.people[sub] ?? person;
          return { sub, name: sub, email, email_verified: isVerified, groups: groups?.slice() };
        },
      };
    },
  });
  let forgery: Forgery = {};
  provider.use(async (ctx, next) => {
    await next();
    const { userinfo } = forgery;
    if (ctx.path === USERINFO_PATH && userinfo !== undefined) {
      if (typeof userinfo === 'number') ctx.status = userinfo;
      else if (userinfo === 'signed') [ctx.body, ctx.type] = ['e30.e30.c2ln', 'application/jwt'];
      else ctx.body = { ...(ctx.body as object), ...userinfo };
    }
    const body = ctx.body as { id_token?: string } | undefined;
    if (body?.id_token !== undefined) body.id_token = forged(body.id_token, forgery, key);
  });
  const answer = provider.callback();
  server.on('request', (request, response) => void answer(request, response));
  return {
    issuer,
    clientId,
    clientSecret,
    forge: (next) => {
      forgery = next;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const keys = new Map<'provider' | 'another', KeyObject>();

/** Made once for all providers of a process: it takes a tenth of a second. */
function keyOf(whose: 'provider' | 'another'): KeyObject {
  const known = keys.get(whose);
  if (known !== undefined) return known;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  keys.set(whose, privateKey);
  return privateKey;
}

/** The same token with other claims, or the signature of somebody else. */
function forged(idToken: string, { claims, signedBy }: Forgery, key: KeyObject): string {
  const [header, payload] = idToken
    .split('.', 2)
    .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()) as object);
  const unsigned = signedBy === 'nobody' ? { alg: 'none' } : {};
  const content = [
    { ...header, ...unsigned },
    { ...payload, ...claims },
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  if (signedBy === 'nobody') return `${content}.`;
  const signer = signedBy === 'another' ? keyOf('another') : key;
  return `${content}.${sign('sha256', Buffer.from(content), signer).toString('base64url')}`;
}
