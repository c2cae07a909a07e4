import { bootstrapCredentials, openStore, type Credentials } from '@leasehold/keys-core/store';
import { credentialsPath } from '../home.ts';
import { bootClock, systemIds } from '../machine.ts';
import type { CliConfig } from '../config.ts';

/** Sees to it that there is a token for each role, and writes `credentials.json`. */
export async function prepareCredentials(
  config: CliConfig,
  databaseUrl: string,
  droneId: string,
): Promise<Credentials> {
  const store = openStore({
    databaseUrl,
    datacenter: config.datacenter,
    clock: bootClock(),
    ids: systemIds(),
  });
  try {
    const path = credentialsPath(config.home);
    const credentials = await bootstrapCredentials(store, path, { droneIds: [droneId] });
    return credentials;
  } finally {
    await store.close();
  }
}
