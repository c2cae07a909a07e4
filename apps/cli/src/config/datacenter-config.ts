/** What the environment says about the other datacenters, and about the etcd that they share. */
import {
  endpointsProblem,
  isPeerSecret,
  listEntries,
  listItems,
  peersProblem,
  peerSecretsProblem,
} from '@leasehold/keys-core';
import { checkedText } from '@leasehold/service-kit/variables';
import { z } from 'zod';

/** The other datacenters and the reservation store, as the command line knows them. */
export type DatacenterConfig = ReturnType<typeof datacenterConfig>;
export type EtcdConfig = NonNullable<DatacenterConfig['etcd']>;

export const datacenterEnvironment = {
  LEASEHOLD_PEERS: checkedText(peersProblem).optional(),
  LEASEHOLD_PEER_TOKEN: checkedText(peerSecretsProblem).optional(),
  LEASEHOLD_ETCD: checkedText(endpointsProblem).optional(),
  LEASEHOLD_ETCD_USER: z.string().optional(),
  LEASEHOLD_ETCD_PASSWORD: z.string().optional(),
  LEASEHOLD_ETCD_CA_FILE: z.string().optional(),
  LEASEHOLD_ETCD_CERT_FILE: z.string().optional(),
  LEASEHOLD_ETCD_KEY_FILE: z.string().optional(),
};

type Values = z.infer<z.ZodObject<typeof datacenterEnvironment>>;

/** What the variables give, once each is well-formed. */
export function datacenterConfig(env: Values) {
  const { LEASEHOLD_PEERS: peers } = env;
  const entries = peers === undefined ? [] : listEntries(peers);
  return {
    /** The URLs of the other datacenters' controllers, by name. */
    peers: Object.fromEntries(entries.map(([name, url]) => [name, new URL(url).origin])),
    /** One secret for all peers, or one for each: as it was given. null: none exists. */
    peerToken: env.LEASEHOLD_PEER_TOKEN ?? null,
    /** null: this datacenter's PostgreSQL is the reservation store. */
    etcd: env.LEASEHOLD_ETCD === undefined ? null : etcdConfig(env.LEASEHOLD_ETCD, env),
  };
}

function etcdConfig(endpoints: string, env: Values) {
  return {
    endpoints: listItems(endpoints),
    user: env.LEASEHOLD_ETCD_USER ?? null,
    password: env.LEASEHOLD_ETCD_PASSWORD ?? null,
    /** Paths of PEM files. */
    caFile: env.LEASEHOLD_ETCD_CA_FILE ?? null,
    certFile: env.LEASEHOLD_ETCD_CERT_FILE ?? null,
    keyFile: env.LEASEHOLD_ETCD_KEY_FILE ?? null,
  };
}

/** The same configuration as it may be shown, without secrets. No URL in it has a password. */
export function redactedDatacenters(config: DatacenterConfig): DatacenterConfig {
  const { peers, peerToken, etcd } = config;
  return {
    peers,
    peerToken: peerToken === null ? null : redactedSecrets(peerToken),
    etcd: etcd?.password == null ? etcd : { ...etcd, password: '***' },
  };
}

function redactedSecrets(text: string): string {
  if (isPeerSecret(text)) return 'lh_…';
  return listEntries(text)
    .map(([name]) => `${name}=lh_…`)
    .join(',');
}
