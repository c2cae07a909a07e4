import { LeaseError } from '@leasehold/keys-core';
import { createSessionAuthority } from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import {
  AUTH_SECRET,
  CONSOLE_SECRET,
  readHomeSecret,
  type HomeSecret,
  type Logger,
} from '@leasehold/service-kit';
import { createAuth } from './auth.ts';
import { createOrigins } from './origins.ts';
import { createPersonAccess } from './person-access.ts';
import { createSessionCookies } from './session/session-cookies.ts';
import type { SignInConfig } from './sign-in-config.ts';

/** What a controller signs people in with, and the authority that knows who is signed in; to be closed. */
export type SignIn = Awaited<ReturnType<typeof createSignIn>>;

/**
 * What people sign in with under this configuration.
 * @throws {LeaseError} `config.invalid` when a secret in the home cannot be used.
 */
export async function createSignIn(
  store: Store,
  config: SignInConfig & { readonly home: string },
  log: Logger,
) {
  const secret = await secretOf(AUTH_SECRET, config.authSecret, config.home);
  const consoleSecret = await secretOf(CONSOLE_SECRET, config.consoleSecret, config.home);
  const origins = createOrigins(config.consoleOrigin);
  const cookies = createSessionCookies({ secret, isSecure: origins.isSecure });
  const authority = createSessionAuthority(store);
  const deps = { store, secret, origins, log };
  return {
    /** For passwords: it waits for no identity provider. */
    auth: createAuth(deps, null),
    // Separate, because this one asks the provider before it answers anything at all.
    oidc:
      config.oidc === null ? null : { auth: createAuth(deps, config.oidc), config: config.oidc },
    origins,
    cookies,
    /** What the console proves itself by. */
    consoleSecret,
    people: createPersonAccess({ authority, cookies, origins }),
    authority,
  };
}

async function secretOf(
  secret: HomeSecret,
  configured: string | null,
  home: string,
): Promise<string> {
  try {
    return await readHomeSecret(secret, { configured, home });
  } catch (cause) {
    throw new LeaseError('config.invalid', (cause as Error).message, { cause });
  }
}
