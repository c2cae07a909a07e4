import proxyAddr from '@fastify/proxy-addr';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

/** The address that a request comes from, as far as it can be believed. */
export type SourceAddress = (request: IncomingMessage) => string | null;

/** Whether a text is an address or a network that may be trusted. */
export function isTrustedProxy(text: string): boolean {
  try {
    // The library takes more: names of ranges, and addresses without their end.
    if (isIP(text.replace(/\/\d{1,3}$/u, '')) === 0) return false;
    proxyAddr.compile([text]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Finds out where requests come from. What `x-forwarded-for` says counts as long as a trusted proxy says
 * it: it is read from its end, and the first address that is not a trusted proxy is the caller's.
 * A direct caller can write anything into it. Text that is no address is ignored,
 * and so is everything before it: then the caller is the proxy that wrote it.
 */
export function createSourceAddress(trustedProxies: readonly string[]): SourceAddress {
  const trusts = proxyAddr.compile([...trustedProxies]);
  return (request) => {
    const peer = request.socket.remoteAddress;
    if (peer === undefined) return null;
    let source = withoutMapping(peer);
    for (const hop of hopsOf(request).reverse()) {
      if (!trusts(source, 0) || !isAddress(hop)) break;
      source = withoutMapping(hop);
    }
    return source;
  };
}

function hopsOf(request: IncomingMessage): string[] {
  const said = [request.headers['x-forwarded-for'] ?? []].flat();
  return said.flatMap((text) => text.split(',')).map((hop) => hop.trim());
}

/** A zone means something only on its own machine, and may be any text. */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && !text.includes('%');
}

/** An IPv4 address stays one, also where a socket for both kinds shows it as IPv6. */
function withoutMapping(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/iu.exec(address)?.[1] ?? address;
}
