import { mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { Etcd3 } from 'etcd3';
import { HOLD_TTL_MS, type LockService } from './lock-service.ts';
import { freePort, provide, startPeerServer } from './peer-server.ts';
import type { Rig } from '../rig/rig.ts';

/** The server, and the package that has it. */
export const ETCD = { command: 'etcd', debianPackage: 'etcd-server', service: 'etcd' };
const TTL_S = HOLD_TTL_MS / 1_000;

/**
 * `etcd3` on one etcd with its own defaults, fsync among them. Its lock does not wait, so a waiter
 * is a candidate of its election, which is etcd's queue: each watches the one before it.
 * @returns undefined where there is no etcd.
 */
export async function startEtcd(rig: Rig): Promise<LockService | undefined> {
  const file = await provide(ETCD);
  if (file === undefined) return undefined;
  const folder = await mkdtemp(path.join(rig.folder, 'etcd-'));
  const url = `http://127.0.0.1:${String(await freePort())}`;
  const peerUrl = `http://127.0.0.1:${String(await freePort())}`;
  const etcd = new Etcd3({ hosts: url });
  rig.onClose(() => {
    etcd.close();
    return Promise.resolve();
  });
  const server = await startPeerServer(
    file,
    [
      '--data-dir',
      folder,
      '--log-level',
      'error',
      '--listen-client-urls',
      url,
      '--advertise-client-urls',
      url,
      '--listen-peer-urls',
      peerUrl,
      '--initial-advertise-peer-urls',
      peerUrl,
      '--initial-cluster',
      `default=${peerUrl}`,
    ],
    () =>
      etcd
        .get('ready')
        .exec()
        .then(
          () => true,
          () => false,
        ),
  );
  rig.onClose(() => server.stop());
  return {
    name: 'etcd3',
    take: (key) => etcd.lock(key).ttl(TTL_S).acquire(),
    async wait(key) {
      const campaign = etcd.election(key, TTL_S).campaign('bench');
      await campaign.wait();
      return { release: () => campaign.resign() };
    },
  };
}
