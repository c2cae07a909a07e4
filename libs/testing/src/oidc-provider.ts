/** A small real identity provider. In an entry of its own: few tests need what it loads. */
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

/** An identity provider that answers. Any password is right. */
export interface OidcProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  close(): Promise<void>;
}

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
  const provider = new Provider(issuer, {
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
  const answer = provider.callback();
  server.on('request', (request, response) => void answer(request, response));
  return {
    issuer,
    clientId,
    clientSecret,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
