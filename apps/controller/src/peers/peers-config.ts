import { createHash, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import type { Access } from '@leasehold/api';
import {
  endpointsProblem,
  isPeerSecret,
  LeaseError,
  listEntries,
  listItems,
  peerSecretsProblem,
  peersProblem,
} from '@leasehold/keys-core';
import type { EtcdOptions } from '@leasehold/keys-core/reservations';
import { checkedText, wholeNumber } from '@leasehold/service-kit/variables';
import { z } from 'zod';

/** Another datacenter, and how it and this one know each other. */
export interface PeerConfig {
  readonly name: string;
  /** `https://host:port` of its controllers, or of what is in front of them. */
  readonly url: string;
  /** Both have the same secret for each other. */
  readonly secret: string;
}

/** The other datacenters, and the store that records which key lives in which. */
export interface DatacentersConfig {
  /** In the order of their names. */
  readonly peers: readonly PeerConfig[];
  /** null: this datacenter's own PostgreSQL, if there is only one datacenter. */
  readonly etcd: EtcdOptions | null;
  /** For how long after the last contact with etcd a controller that was started since runs without it. */
  readonly startAloneMs: number;
}

/** An hour: longer than it takes to bring etcd back, and short enough to wait for when a datacenter is lost. */
const START_ALONE_MS = 3_600_000;
/** A month. */
const START_ALONE_MS_MAX = 2_592_000_000;

/** The configuration of a datacenter that is alone. */
export const ALONE: DatacentersConfig = {
  peers: [],
  etcd: null,
  startAloneMs: START_ALONE_MS,
};

const notEmpty = z.string().min(1, 'must not be empty').optional();

/** The variables of the configuration; every value that is not valid is named by its variable. */
export const peersEnvironment = {
  LEASEHOLD_PEERS: checkedText(peersProblem).optional(),
  LEASEHOLD_PEER_TOKEN: checkedText(peerSecretsProblem).optional(),
  LEASEHOLD_ETCD: checkedText(endpointsProblem).optional(),
  LEASEHOLD_START_WITHOUT_ETCD_MS: wholeNumber(0, START_ALONE_MS_MAX).default(START_ALONE_MS),
  LEASEHOLD_ETCD_USER: notEmpty,
  LEASEHOLD_ETCD_PASSWORD: notEmpty,
  LEASEHOLD_ETCD_CA_FILE: checkedText(fileProblem).optional(),
  LEASEHOLD_ETCD_CERT_FILE: checkedText(fileProblem).optional(),
  LEASEHOLD_ETCD_KEY_FILE: checkedText(fileProblem).optional(),
};

function fileProblem(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').includes('-----BEGIN ') ? undefined : 'must be a PEM file';
  } catch (error) {
    return `cannot be read: ${String((error as NodeJS.ErrnoException).code)}`;
  }
}

type PeersValues = z.output<z.ZodObject<typeof peersEnvironment>>;

/** The configuration that checked values describe. */
export function peersConfig(values: PeersValues): DatacentersConfig {
  const secrets = values.LEASEHOLD_PEER_TOKEN ?? '';
  const secretOf = new Map(listEntries(secrets));
  const entries = values.LEASEHOLD_PEERS === undefined ? [] : listEntries(values.LEASEHOLD_PEERS);
  const peers = entries
    .map(([name, url]) => ({
      name,
      url: new URL(url).origin,
      secret: isPeerSecret(secrets) ? secrets : (secretOf.get(name) ?? ''),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    peers,
    etcd: etcdOptions(values),
    startAloneMs: values.LEASEHOLD_START_WITHOUT_ETCD_MS,
  };
}

function etcdOptions(values: PeersValues): EtcdOptions | null {
  if (values.LEASEHOLD_ETCD === undefined) return null;
  const pemOf = (path: string | undefined): string | undefined =>
    path === undefined ? undefined : readFileSync(path, 'utf8');
  return {
    endpoints: listItems(values.LEASEHOLD_ETCD),
    user: values.LEASEHOLD_ETCD_USER,
    password: values.LEASEHOLD_ETCD_PASSWORD,
    ca: pemOf(values.LEASEHOLD_ETCD_CA_FILE),
    cert: pemOf(values.LEASEHOLD_ETCD_CERT_FILE),
    key: pemOf(values.LEASEHOLD_ETCD_KEY_FILE),
  };
}

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
