import { createCoalescer } from '../grants/index.ts';
import type { Actor, Role } from '../kernel/access.ts';
import type { Coalescer } from '../kernel/coalesce.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Count, Page, Searched, SearchedPage } from '../kernel/face-types.ts';
import type { FairUseLimit, FairUseOverrides } from '../kernel/fair-use.ts';
import { keepNewest } from '../kernel/requests.ts';
import type { Store } from '../postgres/open-store.ts';
import {
  countTokens,
  findTokens,
  hashTokenSecret,
  insertToken,
  isTokenSecret,
  listTokens,
  markTokensUsed,
  newTokenSecret,
  readToken,
  revokeToken,
  type TokenAccess,
  type TokenView,
} from './sql/api-tokens.ts';
import { writeAudit } from './sql/audit.ts';

/** The properties of a new token. */
export interface TokenRequest {
  readonly name: string;
  readonly role: Role;
  readonly namespaces?: readonly string[] | undefined;
  readonly droneId?: string | undefined;
  readonly expiresAt?: string | undefined;
  readonly programs?: readonly string[] | undefined;
  readonly capacity?: number | undefined;
  readonly addresses?: readonly string[] | undefined;
  readonly limits?: FairUseOverrides | undefined;
}

/** One limit of fair use of a principal, with how much of it is used now. */
export interface LimitUse {
  readonly limit: FairUseLimit;
  readonly max: number;
  /** Whether the limit is the token's own instead of its role's. */
  readonly isOwn: boolean;
  /** At the controller that answers; held leases at all controllers. Null where it is not counted. */
  readonly used: number | null;
}

/** API tokens. */
export interface TokenService {
  /** The secret is in this answer and nowhere else. */
  create(request: TokenRequest, actor: Actor): Promise<TokenView & { secret: string }>;
  /** Newest first; searched by a part of a name or of a drone's id. */
  list(input: SearchedPage): Promise<Page<TokenView>>;
  /** How many tokens all pages of the list have. */
  count(input: Searched): Promise<Count>;
  /** @throws {LeaseError} `token.not_found`. */
  get(
    tokenId: string,
  ): Promise<{ readonly token: TokenView; readonly fairUse: readonly LimitUse[] }>;
  /** Ends the token and its open connections. */
  revoke(
    input: { tokenId: string; reason?: string | undefined },
    actor: Actor,
  ): Promise<{ changed: boolean }>;
}

/** Reports how much principals use. */
interface UseReport {
  report(who: {
    readonly principal: string;
    readonly role: Role;
    readonly overrides: FairUseOverrides | null;
  }): readonly LimitUse[];
}

/** API tokens over the store. Every change is audited in its own transaction. */
export function createTokenService(store: Store, fairUse: UseReport): TokenService {
  return {
    async create(request, actor) {
      const secret = newTokenSecret();
      const token = await store.general.$transaction(async (tx) => {
        const made = await insertToken(tx, {
          ...request,
          tokenId: store.ids.uuid(),
          secret,
          createdBy: actor.actor,
        });
        const { role, namespaces, droneId, expiresAt } = made;
        const { programs, capacity, addresses, limits } = made;
        await writeAudit(tx, {
          ...actor,
          action: 'tokens.create',
          resource: `token:${made.tokenId}`,
          detail: {
            name: made.name,
            role,
            namespaces,
            droneId,
            expiresAt,
            programs,
            capacity,
            addresses,
            limits,
          },
        });
        return made;
      });
      return { ...token, secret };
    },
    list: (input) => listTokens(store.reads, input),
    count: (input) => countTokens(store.reads, input),
    async get(tokenId) {
      const token = await readToken(store.general, tokenId);
      if (token === undefined) throw new LeaseError('token.not_found');
      const { role, limits: overrides } = token;
      return { token, fairUse: fairUse.report({ principal: tokenId, role, overrides }) };
    },
    async revoke(input, actor) {
      const { changed } = await store.general.$transaction(async (tx) => {
        const revoked = await revokeToken(tx, input.tokenId);
        if (revoked.changed) {
          await writeAudit(tx, {
            ...actor,
            action: 'tokens.revoke',
            resource: `token:${input.tokenId}`,
            reason: input.reason,
            detail: { name: revoked.name },
          });
        }
        return revoked;
      });
      if (changed) store.hints.notify(TOKENS_TOPIC);
      return { changed };
    },
  };
}

// Finds the token of a secret. Frequent calls need no statement: answers are kept for
// `CACHE_MS`, refusals too, so that a caller with a wrong token costs the database nothing.
// A revocation made anywhere makes every answer stale by a hint; without the hint it takes effect
// after `CACHE_MS` at the latest. Wrong secrets are kept apart: however many come, they
// displace no good one.

const CACHE_MS = 5_000;
/** Of good tokens, and as many of wrong secrets. */
const CACHED_TOKENS_MAX = 10_000;
/** Secrets that are looked up by one statement: many arrive at once when a controller has restarted. */
const LOOKUPS_PER_STATEMENT_MAX = 500;
const LOOKUPS_IN_FLIGHT_MAX = 2;
const LOOKUPS_WAITING_MAX = 10_000;
/** A token's last use is written at most this often. */
const LAST_USE_EVERY_MS = 60_000;

/** The topic of the hint that a token was revoked. */
export const TOKENS_TOPIC = 'tokens';

/**
 * What is known of a secret without asking the database. `good`: it was a token's when last looked
 * up. `seen`: it was looked up and is wrong, or is being looked up, or is malformed: it costs no
 * statement. `new`: to authenticate it costs one.
 */
type SecretStatus = 'good' | 'seen' | 'new';

export interface TokenAuthority {
  statusOf(secret: string): SecretStatus;
  /** The token of this secret, or undefined when it is malformed, unknown, expired or revoked. */
  authenticate(secret: string): Promise<TokenAccess | undefined>;
  /** Writes down last uses that are due; called from the background now and then. */
  flushLastUses(): Promise<void>;
  close(): void;
}

interface CachedToken {
  readonly access: Promise<TokenAccess | undefined>;
  readonly readAtMs: number;
}

function createLookups(store: Pick<Store, 'vital'>): Coalescer<string, TokenAccess | undefined> {
  return createCoalescer({
    run: async (secretHashes) => {
      const found = await findTokens(store.vital, secretHashes);
      return secretHashes.map((secretHash) => found.get(secretHash));
    },
    keysOf: () => [],
    batchSizeMax: LOOKUPS_PER_STATEMENT_MAX,
    inFlightMax: LOOKUPS_IN_FLIGHT_MAX,
    queueMax: LOOKUPS_WAITING_MAX,
    isGathering: true,
  });
}

export function createTokenAuthority(
  store: Pick<Store, 'vital' | 'hints' | 'clock'>,
): TokenAuthority {
  const lookups = createLookups(store);
  const good = new Map<string, CachedToken>();
  /** Looked up and wrong, or not answered yet. */
  const unproven = new Map<string, CachedToken>();
  const used = new Set<string>();
  const writtenAtMs = new Map<string, number>();
  const off = store.hints.on(TOKENS_TOPIC, () => {
    unproven.clear();
    for (const [secretHash, entry] of good) good.set(secretHash, { ...entry, readAtMs: -Infinity });
  });

  function cachedOf(secretHash: string): CachedToken | undefined {
    const nowMs = store.clock.nowMs();
    return [good.get(secretHash), unproven.get(secretHash)].find(
      (entry) => entry !== undefined && nowMs - entry.readAtMs < CACHE_MS,
    );
  }

  function look(secretHash: string): Promise<TokenAccess | undefined> {
    const cached = cachedOf(secretHash);
    if (cached !== undefined) return cached.access;
    const entry = {
      access: lookups.submit(secretHash),
      readAtMs: store.clock.nowMs(),
    };
    keepNewest(unproven, CACHED_TOKENS_MAX, [secretHash, entry]);
    entry.access.then(
      (access) => {
        if (access === undefined) {
          good.delete(secretHash);
        } else if (unproven.get(secretHash) === entry) {
          // Not when a hint came meanwhile: the answer may be from before the change.
          unproven.delete(secretHash);
          keepNewest(good, CACHED_TOKENS_MAX, [secretHash, entry]);
        }
      },
      () => {
        // A failure is not an answer: the next caller asks again.
        if (unproven.get(secretHash) === entry) unproven.delete(secretHash);
      },
    );
    return entry.access;
  }

  return {
    statusOf(secret) {
      if (!isTokenSecret(secret)) return 'seen';
      const secretHash = hashTokenSecret(secret);
      if (good.has(secretHash)) return 'good';
      return cachedOf(secretHash) === undefined ? 'new' : 'seen';
    },
    async authenticate(secret) {
      if (!isTokenSecret(secret)) return undefined;
      const access = await look(hashTokenSecret(secret));
      if (access !== undefined) used.add(access.tokenId);
      return access;
    },
    async flushLastUses() {
      const nowMs = store.clock.nowMs();
      const due = [...used].filter(
        (tokenId) => nowMs - (writtenAtMs.get(tokenId) ?? -Infinity) >= LAST_USE_EVERY_MS,
      );
      if (due.length === 0) return;
      await markTokensUsed(store.vital, due);
      for (const tokenId of due) {
        used.delete(tokenId);
        writtenAtMs.set(tokenId, nowMs);
      }
    },
    close: off,
  };
}
