/**
 * What a datacenter owes etcd, its reservation store:
 *
 * 1. to register its name there, which another database may not have;
 * 2. to read from it which keys have left, when this database was restored or failed over since it
 *    last did: until then the grant statement refuses keys;
 * 3. to tell it what lives here, when it does not have all of it, because it is new or restored.
 *
 * A start carries them out before it is ready. A start while etcd is unreachable leaves them for the first
 * contact, and a failover under a running controller makes the second one due again.
 */
import { LeaseError, invariant } from '../kernel/errors/index.ts';
import {
  markPublishing,
  noteMembership,
  readMembership,
  type Membership,
} from './sql/membership.ts';
import type { Logger } from '@leasehold/service-kit';
import { assertOwn } from './invalid.ts';
import { hasForgotten, publishAll, type Publishing } from './publish.ts';
import { readBack } from './read-back.ts';

/** The database is one whose epoch has been checked. */
export interface DutiesDeps extends Publishing {
  readonly log: Logger;
}

export interface Duties {
  /** Whether they have been carried out since this controller was started. */
  readonly isDone: () => boolean;
  /**
   * Carries all of them out. Doing it again changes nothing, also in several controllers at once.
   * @throws {LeaseError} `reservation.store_unreachable`: to be tried again; `config.invalid`.
   */
  carryOut(): Promise<void>;
  /**
   * Carries them out when there is something to do, and otherwise asks etcd whether it is there. After a
   * `config.invalid`, which it logs, it no longer tries: somebody must correct it and restart the controller.
   * @throws {LeaseError} `reservation.store_unreachable`.
   */
  catchUp(): Promise<void>;
}

export function createDuties(deps: DutiesDeps): Duties {
  const { datacenter, shared, store, log } = deps;
  const witness = `${datacenter}/${store.ids.uuid()}`;
  let isDone = false;
  let hasFatalConfigError = false;

  async function carryOut(): Promise<void> {
    const etcdId = await registerDatacenter(deps);
    const membership = await readMembership(store.general);
    // Before anything is published: a database that joins must not refuse its keys in the meantime.
    if (!isSynced(membership)) await importDepartures(deps, membership);
    if (membership.storeId !== etcdId || (await hasForgotten(deps))) {
      await markPublishing(store);
      await publishAll(deps);
      await noteMembership(store.general, { storeId: etcdId });
    }
    // Before anything new is reserved.
    await shared.beat(witness);
    isDone = true;
  }

  return {
    isDone: () => isDone,
    carryOut,
    async catchUp() {
      const hasNothingToDo = isDone && isSynced(await readMembership(store.general));
      if (hasNothingToDo || hasFatalConfigError) {
        await shared.beat(witness);
        return;
      }
      try {
        await carryOut();
      } catch (error) {
        if (!(error instanceof LeaseError && error.code === 'config.invalid')) throw error;
        [isDone, hasFatalConfigError] = [false, true];
        log.error(
          { err: error },
          'no new key gets a home here: correct this, and restart this controller',
        );
      }
    },
  };
}

/** Whether this database knows of every key that has left it. One that has just joined must ask. */
export function isSynced({ storeId, syncedEpoch, epoch }: Membership): boolean {
  return storeId !== null && syncedEpoch === epoch;
}

/** Registers this datacenter's name. @returns which etcd this is: answers of another do not count. */
async function registerDatacenter({ datacenter, shared, store }: DutiesDeps): Promise<string> {
  const etcdId = await shared.clusterId();
  const { clusterId } = await readMembership(store.general);
  assertOwn(datacenter, await shared.register(datacenter, clusterId), clusterId);
  shared.expectCluster(etcdId);
  await noteMembership(store.general, { datacenter });
  return etcdId;
}

/** Reads back what has left. The epoch is the one from before: after another restore it is done again. */
async function importDepartures(deps: DutiesDeps, { epoch }: Membership): Promise<void> {
  invariant(epoch !== null, 'the epoch of the database has been checked');
  const departed = await readBack(deps);
  await noteMembership(deps.store.general, { syncedEpoch: epoch });
  if (departed > 0) deps.log.info({ departed }, 'read back which keys have left this datacenter');
}
