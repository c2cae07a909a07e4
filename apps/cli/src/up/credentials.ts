import { bootstrapCredentials, openStore, type Credentials } from '@leasehold/keys-core/store';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { credentialsPath } from '../home.ts';
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
    clock: createBootClock(),
    ids: systemIds(),
  });
  try {
    const path = credentialsPath(config.home);
    return await bootstrapCredentials(store, path, { droneIds: [droneId] });
  } finally {
    await store.close();
  }
}
