/**
 * Where a drone's backends may be: a network as CIDR, with an optional port or range of ports.
 * `10.1.0.0/16`, `10.1.0.0/16:21000-29999`, `[fd00::/8]:21000`.
 */
export interface AddressRange {
  readonly network: string;
  readonly prefixLength: number;
  readonly family: 'ipv4' | 'ipv6';
  readonly portMin: number;
  /** Inclusive. */
  readonly portMax: number;
}

const PORT_MAX = 65_535;
const BRACKETED = /^\[([0-9a-f:.]+)\/(\d{1,3})\](?::(\d{1,5})(?:-(\d{1,5}))?)?$/iu;
const BARE_IPV6 = /^([0-9a-f.]*:[0-9a-f:.]*)\/(\d{1,3})$/iu;
const IPV4 = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})(?::(\d{1,5})(?:-(\d{1,5}))?)?$/u;

/** The parts of a range; undefined when the text is not a range. The network itself is not validated. */
export function parseAddressRange(text: string): AddressRange | undefined {
  const found = IPV4.exec(text) ?? BRACKETED.exec(text) ?? BARE_IPV6.exec(text);
  if (found === null) return undefined;
  const [, network = '', prefix, from, to] = found;
  const family = network.includes(':') ? 'ipv6' : 'ipv4';
  const range = { network, prefixLength: Number(prefix), family, ...portsOf(from, to) } as const;
  return isPossible(range) ? range : undefined;
}

function portsOf(from?: string, to?: string): Pick<AddressRange, 'portMin' | 'portMax'> {
  return from === undefined
    ? { portMin: 0, portMax: PORT_MAX }
    : { portMin: Number(from), portMax: Number(to ?? from) };
}

function isPossible({ prefixLength, family, portMin, portMax }: AddressRange): boolean {
  const isPrefix = prefixLength <= (family === 'ipv4' ? 32 : 128);
  return isPrefix && portMin <= portMax && portMax <= PORT_MAX;
}
