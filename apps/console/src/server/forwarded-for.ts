import type { IncomingMessage } from 'node:http';

/**
 * Writes into the request from where it comes: what it said itself, and then the address of its
 * socket. The controller believes such a list from its end, only as far as it trusts who wrote it,
 * so that nobody can put another address before their own.
 */
export function noteSource(request: IncomingMessage): void {
  const said = request.headers['x-forwarded-for'];
  const address = request.socket.remoteAddress;
  const chain = [...(said === undefined ? [] : [said].flat()), ...(address ? [address] : [])];
  request.headers['x-forwarded-for'] = chain.join(', ');
}
