/**
 * The long-lived connections that were opened with a token or in a session: the caller is checked when
 * a connection opens, so a token that is revoked later, a session that ends, or a role that changes
 * must end it. At a hint, and once every {@link CHECK_MS}, one statement for each kind says which of
 * those in use are still what they were.
 */
import type { ServerResponse } from 'node:http';
import type { Access } from '@leasehold/api';
import {
  PEOPLE_TOPIC,
  personSessionsInForce,
  TOKENS_TOPIC,
  tokensInForce,
  type Standing,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { WebSocket } from 'ws';
import { once } from '../../fair-use/pacing.ts';
import { endSocket, TOKEN_ENDED } from './socket-face.ts';

const CHECK_MS = 1_000;

export interface OpenConnections {
  /**
   * Calls `end` once the token or the session is no longer in force, or its role has changed.
   * @returns a function that forgets it.
   */
  add(access: Access, end: () => void): () => void;
  readonly count: number;
  close(): void;
}

/** The connections that were opened with the same token, or in the same session with the same role. */
interface Opened {
  readonly access: Access;
  readonly ends: Set<() => void>;
}

export function createOpenConnections(
  store: Pick<Store, 'vital' | 'hints'>,
  log: Logger,
): OpenConnections {
  const openedBy = new Map<string, Opened>();
  let count = 0;
  let isChecking = false;
  let isCheckWanted = false;

  async function check(): Promise<void> {
    isCheckWanted = true;
    if (isChecking) return;
    isChecking = true;
    try {
      while (isCheckWanted && openedBy.size > 0) {
        isCheckWanted = false;
        const opened = [...openedBy.values()];
        const isInForce = await readInForce(store, opened);
        for (const one of opened) {
          if (!isInForce(one.access)) for (const end of [...one.ends]) end();
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'open connections could not be checked; trying again');
    } finally {
      isChecking = false;
    }
  }

  const timer = setInterval(() => void check(), CHECK_MS);
  timer.unref();
  const offs = [TOKENS_TOPIC, PEOPLE_TOPIC].map((topic) =>
    store.hints.on(topic, () => void check()),
  );

  return {
    add(access, end) {
      const key = keyOf(access);
      const opened = openedBy.get(key) ?? { access, ends: new Set() };
      opened.ends.add(end);
      openedBy.set(key, opened);
      count += 1;
      return once(() => {
        count -= 1;
        opened.ends.delete(end);
        if (opened.ends.size === 0 && openedBy.get(key) === opened) openedBy.delete(key);
      });
    },
    get count() {
      return count;
    },
    close() {
      clearInterval(timer);
      for (const off of offs) off();
    },
  };
}

/** What a token may do never changes; what a session's person may do can. */
function keyOf({ principal, role, namespaces, session }: Access): string {
  return session === undefined ? principal : `${session.sessionId} ${role} ${limitsOf(namespaces)}`;
}

/** One statement for the tokens, one for the sessions, each only if there are any. */
async function readInForce(
  store: Pick<Store, 'vital'>,
  opened: readonly Opened[],
): Promise<(access: Access) => boolean> {
  const tokenIds = opened.flatMap(({ access }) =>
    access.session === undefined ? [access.principal] : [],
  );
  const sessionIds = opened.flatMap(({ access }) => access.session?.sessionId ?? []);
  const [tokens, standings] = await Promise.all([
    tokenIds.length === 0 ? new Set<string>() : tokensInForce(store.vital, tokenIds),
    sessionIds.length === 0
      ? new Map<string, Standing>()
      : personSessionsInForce(store.vital, sessionIds),
  ]);
  return ({ principal, role, namespaces, session }) => {
    if (session === undefined) return tokens.has(principal);
    const now = standings.get(session.sessionId);
    return now?.role === role && limitsOf(now.namespaces) === limitsOf(namespaces);
  };
}

function limitsOf(namespaces: readonly string[] | null): string {
  return namespaces?.join(' ') ?? '*';
}

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
