import {
  bootstrapCredentials,
  ensureFirstAdmin,
  FIRST_ADMIN_EMAIL,
  isAdminSignIn,
  type AdminSignIn,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import { credentialsPath, readCredentials, writePrivateJson } from '../config/home.ts';
import type { CliConfig } from '../config/config.ts';
import { withStore } from '../with-store.ts';
import type { UpDrone } from './up-drone.ts';

/**
 * Makes sure that there is a token for each role and an administrator of the console, and writes
 * `credentials.json`.
 * @returns both; no sign-in when the file has none that is valid.
 */
export function prepareCredentials(
  config: CliConfig,
  databaseUrl: string,
  { droneId, bindings }: Pick<UpDrone, 'droneId' | 'bindings'>,
) {
  return withStore(databaseUrl, config.datacenter, async (store) => {
    const path = credentialsPath(config.home);
    const tokens = await bootstrapCredentials(store, path, {
      droneIds: [droneId],
      bindings,
    });
    return { tokens, signIn: await prepareSignIn(store, config.home) };
  });
}

/**
 * A password is made once, when there is no administrator; later ones are for people to choose. It is
 * in the file before the administrator is in the database: a crash between the two loses nothing.
 */
async function prepareSignIn(store: Store, home: string): Promise<AdminSignIn | undefined> {
  const known = readCredentials(home);
  const first = { email: FIRST_ADMIN_EMAIL, name: 'Administrator' };
  const made = await ensureFirstAdmin(store, first, (signIn) =>
    writePrivateJson(credentialsPath(home), { ...known, console: signIn }),
  );
  if (made !== undefined) return made;
  const kept: Partial<Record<keyof AdminSignIn, unknown>> = known?.console ?? {};
  if (typeof kept.email !== 'string' || typeof kept.password !== 'string') return undefined;
  const signIn = { email: kept.email, password: kept.password };
  return (await isAdminSignIn(store.general, signIn)) ? signIn : undefined;
}
