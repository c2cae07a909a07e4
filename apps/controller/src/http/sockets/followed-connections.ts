import type { Access } from '@leasehold/api';
import type { ServerResponse } from 'node:http';
import type { WebSocket } from 'ws';
import type { OpenConnections } from '../../access/open-connections.ts';
import { endSocket, TOKEN_ENDED } from './socket-keeper.ts';

/** A call that is answered sooner is not worth following. */
const FOLLOWED_AFTER_MS = 1_000;

export interface FollowedConnections {
  readonly connections: OpenConnections;
}

/** Ends a connection when its token or session ends, or the role of its person changes. */
export function followAccess(
  { connections }: FollowedConnections,
  access: Access,
  connection: WebSocket | ServerResponse,
): void {
  // The secret of a pair of datacenters is in force for as long as this process runs.
  if (access.role === 'peer') return;
  // Nothing would tell of its end any more.
  if ('destroyed' in connection && connection.destroyed) return;
  const forget = connections.add(access, () => {
    if ('terminate' in connection) {
      endSocket(connection, TOKEN_ENDED, 'token is no longer in force');
    } else connection.destroy();
  });
  connection.once('close', forget);
}

/** A call that waits, such as in line for a lease, ends when its caller's token or session ends. */
export function followLater(
  followed: FollowedConnections,
  access: Access,
  response: ServerResponse,
): void {
  if (response.destroyed) return;
  const timer = setTimeout(() => followAccess(followed, access, response), FOLLOWED_AFTER_MS);
  timer.unref();
  response.once('close', () => clearTimeout(timer));
}
