/**
 * Where a request comes from. A proxy knows, and its own address proves nothing: any program on its machine has the
 * same one. So the console proves itself by a secret. Other proxies speak `x-forwarded-for` alone, and are believed
 * if an operator has listed their address.
 */
import proxyAddr from '@fastify/proxy-addr';
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { withoutMapping } from './network.ts';

/** Has the secret of the console. */
export const CONSOLE_SECRET_HEADER = 'leasehold-console-secret';
/** Where a request comes from that the console passes on, as the console has found out. */
export const CALLER_HEADER = 'leasehold-caller';

export interface Sources {
  /** The address that a request comes from, as far as it can be believed. */
  of(request: IncomingMessage): string | null;
  /** Whether the other end of its connection is a proxy that is believed, which passes on requests of many. */
  isFromProxy(request: IncomingMessage): boolean;
  /** Whether an address is that of a proxy that is believed. */
  isProxyAddress(address: string): boolean;
}

/** Whether a text is an address or a network that may be trusted, as in 10.0.0.0/8 or ::1. */
export function isTrustedProxy(text: string): boolean {
  try {
    // The library takes more: names of ranges, and addresses without their end.
    if (!isAddress(text.replace(/\/\d{1,3}$/u, '')) || /\/0+$/u.test(text)) return false;
    proxyAddr.compile([text]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Finds out where requests come from.
 * - A request with the secret of the console comes from where the console says.
 * - Else what `x-forwarded-for` says counts as long as a trusted proxy says it: it is read from its end, and the first
 *   address that is not a trusted proxy is the caller's. A direct caller can write anything into it. Text that is no
 *   address is ignored, and so is everything before it: then the caller is the proxy that wrote it.
 */
export function createSources({
  trustedProxies,
  consoleSecret = null,
  onWrongSecret,
}: {
  readonly trustedProxies: readonly string[];
  /** null: no console is believed. */
  readonly consoleSecret?: string | null;
  /** Called when a request has another secret: a console has the wrong one, or somebody guesses. */
  readonly onWrongSecret?: (() => void) | undefined;
}): Sources {
  const compiled = proxyAddr.compile([...trustedProxies]);
  const trusts = (address: string): boolean => compiled(address, 0);
  const isConsole = consoleCheck(consoleSecret, onWrongSecret);
  return {
    of(request) {
      const peer = request.socket.remoteAddress;
      if (peer === undefined) return null;
      if (isConsole(request)) {
        const said = request.headers[CALLER_HEADER];
        if (typeof said === 'string' && isAddress(said)) return withoutMapping(said);
        return withoutMapping(peer);
      }
      let source = withoutMapping(peer);
      for (const hop of hopsOf(request).reverse()) {
        if (!trusts(source) || !isAddress(hop)) break;
        source = withoutMapping(hop);
      }
      return source;
    },
    isFromProxy(request) {
      const peer = request.socket.remoteAddress;
      return isConsole(request) || (peer !== undefined && trusts(withoutMapping(peer)));
    },
    isProxyAddress: (address) => isIP(address) !== 0 && trusts(withoutMapping(address)),
  };
}

/** Compares hashes in constant time: the time that it takes reveals nothing about the secret. */
function consoleCheck(
  secret: string | null,
  onWrongSecret: (() => void) | undefined,
): (request: IncomingMessage) => boolean {
  if (secret === null) return () => false;
  const expected = hashOf(secret);
  // Asked several times for one request.
  const known = new WeakMap<IncomingMessage, boolean>();
  return (request) => {
    const said = request.headers[CONSOLE_SECRET_HEADER];
    if (typeof said !== 'string') return false;
    const before = known.get(request);
    if (before !== undefined) return before;
    const isRight = timingSafeEqual(hashOf(said), expected);
    known.set(request, isRight);
    if (!isRight) onWrongSecret?.();
    return isRight;
  };
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

function hopsOf(request: IncomingMessage): string[] {
  const said = [request.headers['x-forwarded-for'] ?? []].flat();
  return said.flatMap((text) => text.split(',')).map((hop) => hop.trim());
}

/** A zone means something only on its own machine, and may be any text. */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && !text.includes('%');
}
