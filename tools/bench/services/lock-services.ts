import { openAdvisoryLocks } from './advisory-locks.ts';
import { startEtcd } from './etcd-service.ts';
import { startLeasehold } from './leasehold-service.ts';
import type { LockService } from './lock-service.ts';
import { startRedlock } from './redis-services.ts';
import type { Rig } from '../rig/rig.ts';

export interface LockServices {
  readonly ours: LockService;
  readonly controllerPids: readonly number[];
  /** Those that this machine has. */
  readonly peers: readonly LockService[];
}

/** Every service that is compared, each on a server of its own, ours on a new database. */
export async function openLockServices(rig: Rig, databaseName: string): Promise<LockServices> {
  const { ours, controllerPids } = await startLeasehold(rig, databaseName);
  const peers: LockService[] = [];
  for (const start of [startRedlock, startEtcd, openAdvisoryLocks]) {
    const peer = await start(rig);
    if (peer !== undefined) peers.push(peer);
  }
  return { ours, controllerPids, peers };
}
