import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

const BITS = { ipv4: 32, ipv6: 128 } as const;

interface Network {
  readonly address: string;
  readonly bits: number;
  readonly family: keyof typeof BITS;
}

/** Whether a text is an address or a network that may be trusted, as in 10.0.0.0/8 or ::1. */
export function isTrustedProxy(text: string): boolean {
  return networkOf(text) !== undefined;
}

function networkOf(text: string): Network | undefined {
  const { address = '', prefix } =
    /^(?<address>[\d.a-f:]+)(?:\/(?<prefix>\d{1,3}))?$/iu.exec(text)?.groups ?? {};
  if (isIP(address) === 0) return undefined;
  const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
  const bits = prefix === undefined ? BITS[family] : Number(prefix);
  return bits >= 1 && bits <= BITS[family] ? { address, bits, family } : undefined;
}

/** Writes the source of a request into its headers. See {@link createNoteSource}. */
type NoteSource = (request: IncomingMessage) => void;

/**
 * The source of a request is the address of its socket. Its own `x-forwarded-for` is dropped, unless
 * a trusted proxy sent it: then it is kept before the proxy's address. The controller reads this list
 * from its end, only as far as it trusts the proxies that wrote it.
 */
export function createNoteSource(trustedProxies: readonly string[]): NoteSource {
  const trusted = new BlockList();
  for (const text of trustedProxies) {
    const network = networkOf(text);
    if (network !== undefined) trusted.addSubnet(network.address, network.bits, network.family);
  }
  return (request) => {
    const said = request.headers['x-forwarded-for'];
    const { remoteAddress: peer, remoteFamily } = request.socket;
    delete request.headers['x-forwarded-for'];
    if (peer === undefined) return;
    // An IPv4 address that a dual-stack socket shows as IPv6 is found in IPv4 networks too.
    const isTrusted = trusted.check(
      peer.replace(/%.*$/u, ''),
      remoteFamily === 'IPv4' ? 'ipv4' : 'ipv6',
    );
    const before = isTrusted && said !== undefined ? [said].flat() : [];
    request.headers['x-forwarded-for'] = [...before, peer].join(', ');
  };
}
