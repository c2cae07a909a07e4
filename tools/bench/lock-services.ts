import { startEtcd } from './etcd-service.ts';
import { startLeasehold } from './leasehold-service.ts';
import type { LockService } from './lock-service.ts';
import { startRedlock } from './redlock-service.ts';
import type { Rig } from './rig.ts';

export interface LockServices {
  readonly ours: LockService;
  /** Those that this machine has. */
  readonly peers: readonly LockService[];
}

const OPENED = new WeakMap<Rig, Promise<LockServices>>();

/** Every service that is compared, each on a server of its own; started once and ended with the rig. */
export function openLockServices(rig: Rig): Promise<LockServices> {
  const opened = OPENED.get(rig) ?? open(rig);
  OPENED.set(rig, opened);
  return opened;
}

async function open(rig: Rig): Promise<LockServices> {
  const ours = await startLeasehold(rig);
  const peers: LockService[] = [];
  for (const start of [startRedlock, startEtcd]) {
    const peer = await start(rig);
    if (peer !== undefined) peers.push(peer);
  }
  return { ours, peers };
}
