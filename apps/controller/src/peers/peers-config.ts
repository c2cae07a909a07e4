import { readFileSync } from 'node:fs';
import { checked } from '@leasehold/api/contract';
import { isDatacenterName } from '@leasehold/keys-core';
import type { EtcdOptions } from '@leasehold/keys-core/reservations';
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
}

/** The configuration of a datacenter that is alone. */
export const ALONE: DatacentersConfig = { peers: [], etcd: null };

const PEERS_MAX = 64;
const ENDPOINTS_MAX = 32;
/** At least as long as a token: `lh_` and 43 characters. */
const SECRET_FORM = /^lh_[A-Za-z0-9_-]{43,200}$/u;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/u;

type Entry = readonly [name: string, value: string];

const itemsOf = (text: string): string[] => text.split(',').map((item) => item.trim());

/** `a=1,b=2`; what has no `=` has an empty value. */
const entriesOf = (text: string): Entry[] =>
  itemsOf(text).map((item) => {
    const at = item.indexOf('=');
    return at === -1 ? [item, ''] : [item.slice(0, at), item.slice(at + 1)];
  });

/** Why an address is not one of a peer; its text is not repeated, because it may hold a password. */
function urlProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'must have a URL, as in dc2=https://leasehold.dc2.example.com';
  const url = new URL(text);
  const { protocol, hostname, username, password, pathname, search, hash } = url;
  if (!['http:', 'https:'].includes(protocol)) return 'must have an http:// or https:// URL';
  if (`${username}${password}${search}${hash}` !== '' || pathname !== '/') {
    return 'must have a URL of a host and a port alone';
  }
  return protocol === 'https:' || LOOPBACK.test(hostname)
    ? undefined
    : 'must have an https:// URL, for its host is not this machine';
}

function peersProblem(text: string): string | undefined {
  const entries = entriesOf(text);
  if (entries.length > PEERS_MAX) return `must have at most ${String(PEERS_MAX)} datacenters`;
  for (const [name, url] of entries) {
    if (!isDatacenterName(name)) {
      return 'must be a list as in dc2=https://host:port, each name 1 to 32 of a-z, 0-9 and "-"';
    }
    const problem = urlProblem(url);
    if (problem !== undefined) return `"${name}" ${problem}`;
    if (entries.filter(([other]) => other === name).length > 1) return `names "${name}" twice`;
  }
  return undefined;
}

/** Either one secret for all, or one for each. Nothing of the text is repeated. */
function secretsProblem(text: string): string | undefined {
  if (SECRET_FORM.test(text)) return undefined;
  const entries = entriesOf(text);
  const isValid = entries.every(
    ([name, secret]) => isDatacenterName(name) && SECRET_FORM.test(secret),
  );
  if (!isValid) {
    return 'must be a secret, lh_ and at least 43 of A-Z, a-z, 0-9, "-" and "_", or a list as in dc2=lh_…,dc3=lh_…';
  }
  const names = entries.map(([name]) => name);
  return new Set(names).size === names.length ? undefined : 'names a datacenter twice';
}

function endpointsProblem(text: string): string | undefined {
  const endpoints = itemsOf(text);
  if (endpoints.length > ENDPOINTS_MAX) return `must have at most ${String(ENDPOINTS_MAX)} URLs`;
  const isValid = endpoints.every(
    (endpoint) =>
      URL.canParse(endpoint) &&
      ['http:', 'https:'].includes(new URL(endpoint).protocol) &&
      new URL(endpoint).username === '',
  );
  return isValid
    ? undefined
    : 'must be a list of URLs, as in http://10.0.0.1:2379,http://10.0.0.2:2379';
}

const notEmpty = z.string().min(1, 'must not be empty').optional();

/** The variables of the configuration; every value that is not valid is named by its variable. */
export const peersEnvironment = {
  LEASEHOLD_PEERS: checked(z.string(), peersProblem).optional(),
  LEASEHOLD_PEER_TOKEN: checked(z.string(), secretsProblem).optional(),
  LEASEHOLD_ETCD: checked(z.string(), endpointsProblem).optional(),
  LEASEHOLD_ETCD_USER: notEmpty,
  LEASEHOLD_ETCD_PASSWORD: notEmpty,
  LEASEHOLD_ETCD_CA_FILE: checked(z.string(), fileProblem).optional(),
  LEASEHOLD_ETCD_CERT_FILE: checked(z.string(), fileProblem).optional(),
  LEASEHOLD_ETCD_KEY_FILE: checked(z.string(), fileProblem).optional(),
};

function fileProblem(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').includes('-----BEGIN ') ? undefined : 'must be a PEM file';
  } catch (error) {
    return `cannot be read: ${String((error as NodeJS.ErrnoException).code)}`;
  }
}

type PeersValues = z.output<z.ZodObject<typeof peersEnvironment>> & {
  readonly LEASEHOLD_DATACENTER: string;
};

/** What each variable needs besides itself. */
const NEEDS = [
  ['LEASEHOLD_PEERS', 'LEASEHOLD_PEER_TOKEN', 'datacenters authenticate each other with it'],
  ['LEASEHOLD_PEER_TOKEN', 'LEASEHOLD_PEERS', 'the secrets are for peers'],
  ['LEASEHOLD_PEERS', 'LEASEHOLD_ETCD', 'all datacenters record there which keys live where'],
  ['LEASEHOLD_ETCD_USER', 'LEASEHOLD_ETCD_PASSWORD', 'a user needs a password'],
  ['LEASEHOLD_ETCD_PASSWORD', 'LEASEHOLD_ETCD_USER', 'a password needs a user'],
  ['LEASEHOLD_ETCD_CERT_FILE', 'LEASEHOLD_ETCD_KEY_FILE', 'a certificate needs its key'],
  ['LEASEHOLD_ETCD_KEY_FILE', 'LEASEHOLD_ETCD_CERT_FILE', 'a key needs its certificate'],
  [
    'LEASEHOLD_ETCD_CERT_FILE',
    'LEASEHOLD_ETCD_CA_FILE',
    'the certificates of members are checked too',
  ],
  ['LEASEHOLD_ETCD_USER', 'LEASEHOLD_ETCD', 'without it no etcd is used'],
  ['LEASEHOLD_ETCD_CA_FILE', 'LEASEHOLD_ETCD', 'without it no etcd is used'],
] as const;

/** What is wrong with the values as a whole; each problem names its variable. */
export function peersProblems(values: PeersValues): string[] {
  const problems = NEEDS.filter(
    ([one, other]) => values[one] !== undefined && values[other] === undefined,
  ).map(([one, other, why]) => `${other}: must be set where ${one} is: ${why}`);
  const names = entriesOf(values.LEASEHOLD_PEERS ?? '').map(([name]) => name);
  if (names.includes(values.LEASEHOLD_DATACENTER)) {
    problems.push(
      `LEASEHOLD_PEERS: names "${values.LEASEHOLD_DATACENTER}", which is this datacenter`,
    );
  }
  const { LEASEHOLD_PEERS: peers, LEASEHOLD_PEER_TOKEN: secrets } = values;
  if (peers !== undefined && secrets !== undefined && !SECRET_FORM.test(secrets)) {
    const given = entriesOf(secrets).map(([name]) => name);
    const missing = names.filter((name) => !given.includes(name));
    const unknown = given.filter((name) => !names.includes(name));
    if (missing.length > 0) {
      problems.push(`LEASEHOLD_PEER_TOKEN: has none for ${missing.join(', ')}`);
    }
    if (unknown.length > 0) {
      problems.push(`LEASEHOLD_PEER_TOKEN: ${unknown.join(', ')} is not one of LEASEHOLD_PEERS`);
    }
  }
  const { LEASEHOLD_ETCD: etcd, LEASEHOLD_ETCD_CA_FILE: ca } = values;
  if (
    etcd !== undefined &&
    ca !== undefined &&
    itemsOf(etcd).some((url) => url.startsWith('http:'))
  ) {
    problems.push('LEASEHOLD_ETCD: must have https:// URLs where LEASEHOLD_ETCD_CA_FILE is set');
  }
  return problems;
}

/** The configuration that checked values describe. */
export function peersConfig(values: PeersValues): DatacentersConfig {
  const secrets = values.LEASEHOLD_PEER_TOKEN ?? '';
  const secretOf = new Map(entriesOf(secrets));
  const entries = values.LEASEHOLD_PEERS === undefined ? [] : entriesOf(values.LEASEHOLD_PEERS);
  const peers = entries
    .map(([name, url]) => ({
      name,
      url: new URL(url).origin,
      secret: SECRET_FORM.test(secrets) ? secrets : (secretOf.get(name) ?? ''),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return { peers, etcd: etcdOptions(values) };
}

function etcdOptions(values: PeersValues): EtcdOptions | null {
  if (values.LEASEHOLD_ETCD === undefined) return null;
  const pemOf = (path: string | undefined): string | undefined =>
    path === undefined ? undefined : readFileSync(path, 'utf8');
  return {
    endpoints: itemsOf(values.LEASEHOLD_ETCD),
    user: values.LEASEHOLD_ETCD_USER,
    password: values.LEASEHOLD_ETCD_PASSWORD,
    ca: pemOf(values.LEASEHOLD_ETCD_CA_FILE),
    cert: pemOf(values.LEASEHOLD_ETCD_CERT_FILE),
    key: pemOf(values.LEASEHOLD_ETCD_KEY_FILE),
  };
}
