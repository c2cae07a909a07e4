/** What the environment says about the other datacenters, and about the etcd that they share. */
import { isDatacenterName } from '@leasehold/keys-core';
import { z } from 'zod';

/** The other datacenters and the reservation store, as the command line knows them. */
export type DatacenterConfig = ReturnType<typeof datacenterConfig>;
export type EtcdConfig = NonNullable<DatacenterConfig['etcd']>;

/** At least as long as a token. */
const SECRET = /^lh_[A-Za-z0-9_-]{43,200}$/u;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/u;

const parts = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

/** `dc2=…` as its two halves; the name is '' where there is no "=". */
function named(part: string): readonly [name: string, value: string] {
  const at = part.indexOf('=');
  return at === -1 ? ['', part] : [part.slice(0, at), part.slice(at + 1)];
}

const namesOf = (text: string): string[] => parts(text).map((part) => named(part)[0]);

const areNames = (names: readonly string[]): boolean =>
  names.every(isDatacenterName) && new Set(names).size === names.length;

const isWebUrl = (text: string): boolean =>
  URL.canParse(text) && /^https?:$/u.test(new URL(text).protocol);

/** Between machines, secrets and acts travel over TLS only. */
const isPeerUrl = (text: string): boolean =>
  isWebUrl(text) && (new URL(text).protocol === 'https:' || LOOPBACK.test(new URL(text).hostname));

const areEndpoints = (text: string): boolean =>
  parts(text).length > 0 && parts(text).every(isWebUrl);

const isPeerList = (text: string): boolean =>
  areNames(namesOf(text)) && parts(text).every((part) => isPeerUrl(named(part)[1]));

const isSecretOrList = (text: string): boolean =>
  SECRET.test(text) ||
  (areNames(namesOf(text)) && parts(text).every((part) => SECRET.test(named(part)[1])));

export const datacenterEnvironment = {
  LEASEHOLD_PEERS: z
    .string()
    .refine(
      isPeerList,
      'must be a list such as dc2=https://host:4600,dc3=https://host:4600; http:// only for this machine',
    )
    .optional(),
  LEASEHOLD_PEER_TOKEN: z
    .string()
    .refine(
      isSecretOrList,
      'must be lh_ and at least 43 characters, or dc2=lh_…,dc3=lh_… for each peer',
    )
    .optional(),
  LEASEHOLD_ETCD: z
    .string()
    .refine(areEndpoints, 'must be a list of http:// or https:// URLs, separated by commas')
    .optional(),
  LEASEHOLD_ETCD_USER: z.string().optional(),
  LEASEHOLD_ETCD_PASSWORD: z.string().optional(),
  LEASEHOLD_ETCD_CA_FILE: z.string().optional(),
  LEASEHOLD_ETCD_CERT_FILE: z.string().optional(),
  LEASEHOLD_ETCD_KEY_FILE: z.string().optional(),
};

type Values = z.infer<z.ZodObject<typeof datacenterEnvironment>>;

/** What the variables give, once each is well-formed. */
export function datacenterConfig(env: Values) {
  const peers = parts(env.LEASEHOLD_PEERS ?? '').map((part) => {
    const [name, url] = named(part);
    return [name, url.replace(/\/+$/u, '')] as const;
  });
  return {
    /** The URLs of the other datacenters' controllers, by name. */
    peers: Object.fromEntries(peers),
    /** One secret for all peers, or one for each: as it was given. null: none exists. */
    peerToken: env.LEASEHOLD_PEER_TOKEN ?? null,
    /** null: this datacenter's PostgreSQL is the reservation store. */
    etcd: env.LEASEHOLD_ETCD === undefined ? null : etcdConfig(env.LEASEHOLD_ETCD, env),
  };
}

function etcdConfig(endpoints: string, env: Values) {
  return {
    endpoints: parts(endpoints),
    user: env.LEASEHOLD_ETCD_USER ?? null,
    password: env.LEASEHOLD_ETCD_PASSWORD ?? null,
    /** Paths of PEM files. */
    caFile: env.LEASEHOLD_ETCD_CA_FILE ?? null,
    certFile: env.LEASEHOLD_ETCD_CERT_FILE ?? null,
    keyFile: env.LEASEHOLD_ETCD_KEY_FILE ?? null,
  };
}

type Name = keyof typeof datacenterEnvironment;

/** Which other variable each variable needs. */
const NEEDS: readonly (readonly [Name, Name])[] = [
  ['LEASEHOLD_PEERS', 'LEASEHOLD_PEER_TOKEN'],
  ['LEASEHOLD_PEER_TOKEN', 'LEASEHOLD_PEERS'],
  ['LEASEHOLD_PEERS', 'LEASEHOLD_ETCD'],
  ['LEASEHOLD_ETCD_USER', 'LEASEHOLD_ETCD_PASSWORD'],
  ['LEASEHOLD_ETCD_PASSWORD', 'LEASEHOLD_ETCD_USER'],
  ['LEASEHOLD_ETCD_CERT_FILE', 'LEASEHOLD_ETCD_KEY_FILE'],
  ['LEASEHOLD_ETCD_KEY_FILE', 'LEASEHOLD_ETCD_CERT_FILE'],
  ['LEASEHOLD_ETCD_CERT_FILE', 'LEASEHOLD_ETCD_CA_FILE'],
];

/** Contradictions between the variables, with which a controller would not start. */
export function datacenterProblems(env: Values, own: string): string[] {
  const problems = NEEDS.filter(
    ([one, other]) => env[one] !== undefined && env[other] === undefined,
  ).map(([one, other]) => `${other}: must be set where ${one} is`);
  const names = namesOf(env.LEASEHOLD_PEERS ?? '');
  if (names.includes(own)) {
    problems.push(`LEASEHOLD_PEERS: must not name ${own}, which is this datacenter`);
  }
  const secrets = env.LEASEHOLD_PEER_TOKEN;
  if (secrets === undefined || SECRET.test(secrets)) return problems;
  const missing = names.filter((name) => !namesOf(secrets).includes(name));
  return missing.length === 0
    ? problems
    : [...problems, `LEASEHOLD_PEER_TOKEN: has no secret for ${missing.join(', ')}`];
}

/** The same configuration as it may be shown: no secret, and no password in a URL. */
export function redactedDatacenters(
  config: DatacenterConfig,
  redactedUrl: (url: string) => string,
): DatacenterConfig {
  const { peers, peerToken, etcd } = config;
  return {
    peers: Object.fromEntries(Object.entries(peers).map(([name, url]) => [name, redactedUrl(url)])),
    peerToken: peerToken === null ? null : redactedSecrets(peerToken),
    etcd:
      etcd === null
        ? null
        : {
            ...etcd,
            endpoints: etcd.endpoints.map(redactedUrl),
            password: etcd.password === null ? null : '***',
          },
  };
}

function redactedSecrets(text: string): string {
  if (SECRET.test(text)) return 'lh_…';
  return namesOf(text)
    .map((name) => `${name}=lh_…`)
    .join(',');
}
