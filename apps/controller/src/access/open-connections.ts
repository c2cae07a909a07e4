/**
 * The long-lived connections that were opened with a token or in a session: the caller is checked when
 * a connection opens, so a token that is revoked later, a session that ends, or a role that changes
 * must end it. At a hint, and once every {@link CHECK_MS}, one statement for each kind says which of
 * those in use are still what they were.
 */
import type { Access } from '@leasehold/api';
import {
  PEOPLE_TOPIC,
  personSessionsInForce,
  type Standing,
  TOKENS_TOPIC,
  tokensInForce,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import { once } from '../once.ts';

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
