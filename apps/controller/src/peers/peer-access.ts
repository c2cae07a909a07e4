import { timingSafeEqual, createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Access } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { PeerConfig } from './peers-config.ts';

/** Which datacenter a request is from, and which it is meant for: secrets may be shared by several. */
export const FROM_HEADER = 'leasehold-from';
export const TO_HEADER = 'leasehold-to';

/** Recognizes controllers of other datacenters by the secret of the pair. */
export interface PeerAccess {
  /**
   * The access of a request that says which datacenter it is from and has that one's secret; undefined
   * for any other.
   * @throws {LeaseError} `peer.refused` when it is meant for another datacenter than this one.
   */
  of(request: Pick<IncomingMessage, 'headers'>, secret: string): Access | undefined;
}

/** Compares hashes in constant time: the time that it takes reveals nothing about a secret. */
export function createPeerAccess(datacenter: string, peers: readonly PeerConfig[]): PeerAccess {
  const hashes = new Map(peers.map(({ name, secret }) => [name, hashOf(secret)]));
  return {
    of({ headers }, secret) {
      const from = headers[FROM_HEADER];
      const hash = typeof from === 'string' ? hashes.get(from) : undefined;
      if (typeof from !== 'string' || hash === undefined) return undefined;
      if (!timingSafeEqual(hash, hashOf(secret))) return undefined;
      if (headers[TO_HEADER] !== datacenter) {
        throw new LeaseError(
          'peer.refused',
          `This is the datacenter "${datacenter}", and the request is for another one.`,
          { details: { datacenter } },
        );
      }
      return {
        principal: `peer:${from}`,
        name: `peer:${from}`,
        role: 'peer',
        namespaces: null,
        droneId: null,
        peer: from,
      };
    },
  };
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
