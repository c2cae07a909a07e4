/** What an environment says of the other datacenters, and of the etcd that they share. Pure. */
import { isDatacenterName } from './reservation.ts';

const PEERS_MAX = 64;
const ENDPOINTS_MAX = 32;
/** At least as long as a token: `lh_` and 43 characters. */
const SECRET_FORM = /^lh_[A-Za-z0-9_-]{43,200}$/u;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/u;

/** Whether a text is one secret, for all peers or for one. */
export function isPeerSecret(text: string): boolean {
  return SECRET_FORM.test(text);
}

type Entry = readonly [name: string, value: string];

/** The items of a list with commas. */
export const listItems = (text: string): string[] => text.split(',').map((item) => item.trim());

/** `a=1,b=2`; what has no `=` has an empty value. */
export const listEntries = (text: string): Entry[] =>
  listItems(text).map((item) => {
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

/** Why a text is not a list of other datacenters. */
export function peersProblem(text: string): string | undefined {
  const entries = listEntries(text);
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
export function peerSecretsProblem(text: string): string | undefined {
  if (isPeerSecret(text)) return undefined;
  const entries = listEntries(text);
  const isValid = entries.every(([name, secret]) => isDatacenterName(name) && isPeerSecret(secret));
  if (!isValid) {
    return 'must be a secret, lh_ and at least 43 of A-Z, a-z, 0-9, "-" and "_", or a list as in dc2=lh_…,dc3=lh_…';
  }
  const names = entries.map(([name]) => name);
  return new Set(names).size === names.length ? undefined : 'names a datacenter twice';
}

/** Why a text is not a list of the addresses of an etcd's members. */
export function endpointsProblem(text: string): string | undefined {
  const endpoints = listItems(text);
  if (endpoints.length > ENDPOINTS_MAX) return `must have at most ${String(ENDPOINTS_MAX)} URLs`;
  const isValid = endpoints.every((endpoint) => {
    if (!URL.canParse(endpoint)) return false;
    const { protocol, username, password } = new URL(endpoint);
    return ['http:', 'https:'].includes(protocol) && `${username}${password}` === '';
  });
  return isValid
    ? undefined
    : 'must be a list of URLs, as in http://10.0.0.1:2379,http://10.0.0.2:2379';
}

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

type DatacenterValues = Readonly<Record<'LEASEHOLD_DATACENTER', string>> &
  Readonly<Partial<Record<(typeof NEEDS)[number][0 | 1], string | undefined>>>;

/** What is wrong with the values as a whole; each problem names its variable. */
export function datacenterProblems(values: DatacenterValues): string[] {
  const problems = NEEDS.filter(
    ([one, other]) => values[one] !== undefined && values[other] === undefined,
  ).map(([one, other, why]) => `${other}: must be set where ${one} is: ${why}`);
  const names = listEntries(values.LEASEHOLD_PEERS ?? '').map(([name]) => name);
  if (names.includes(values.LEASEHOLD_DATACENTER)) {
    problems.push(
      `LEASEHOLD_PEERS: names "${values.LEASEHOLD_DATACENTER}", which is this datacenter`,
    );
  }
  const { LEASEHOLD_PEERS: peers, LEASEHOLD_PEER_TOKEN: secrets } = values;
  if (peers !== undefined && secrets !== undefined && !isPeerSecret(secrets)) {
    const given = listEntries(secrets).map(([name]) => name);
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
    listItems(etcd).some((url) => url.startsWith('http:'))
  ) {
    problems.push('LEASEHOLD_ETCD: must have https:// URLs where LEASEHOLD_ETCD_CA_FILE is set');
  }
  return problems;
}
