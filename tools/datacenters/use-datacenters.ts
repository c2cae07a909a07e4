import { startDatacenters, type Datacenters } from '@leasehold/testing/datacenters';
import { afterAll, afterEach, beforeAll, inject } from 'vitest';

/** Three datacenters for all tests of a file, whole again after each, and what clients ask of them. */
export function useDatacenters() {
  let world: Datacenters;
  let keysCount = 0;

  beforeAll(async () => {
    world = await startDatacenters({ clusterUrl: inject('clusterUrl') });
  }, 120_000);

  afterEach(async () => {
    world.heal();
    await world.untilInTouch();
  });

  afterAll(async () => {
    await (world as Datacenters | undefined)?.close();
  });

  const client = (at: string) => world.dc(at).api('client');
  return {
    get world() {
      return world;
    },
    freshName: (): string => {
      keysCount += 1;
      return `key-${String(keysCount)}`;
    },
    connect: (at: string, name: string, datacenter?: string) =>
      client(at).keys.connect.mutate({
        key: { name },
        spawn: { program: 'idle', datacenter },
        waitMs: 0,
      }),
    reserve: (at: string, name: string) =>
      client(at).reservations.reserve.mutate({ key: ['', name] }),
  };
}
