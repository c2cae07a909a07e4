/** The service of this slice, and what apps and other slices may use of it. */
import { createHash } from 'node:crypto';
import { type AuditEntry, writeAudit } from '../access/index.ts';
import { canonicalJson } from '../grants/index.ts';
import { type Actor, roleAllows } from '../kernel/access.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import type {
  GatewayRoute,
  GatewayRouteState,
  GatewaySynced,
  GatewayTokenClaims,
  GatewayUse,
} from '../kernel/gateway.ts';
import { toleratedClockRatio } from '../kernel/ladder.ts';
import { namespaceText, settledTopic } from '../kernel/resource.ts';
import {
  type ConnectInput,
  type ConnectResult,
  type SpawnRequest,
  touchBackends,
  type UsedBackend,
  waitUntilReady,
} from '../keys/index.ts';
import { pause } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { isoDates, isoOf } from '../postgres/sql.ts';
import {
  createSigningKey,
  type GatewaySigningKey,
  importGatewayKeys,
  importSigningKey,
  isRevoked,
  millisecondsOf,
  signGatewayToken,
  type SigningKey,
  verifyGatewayToken,
} from './gateway-tokens.ts';
import {
  addFirstKey,
  addRevocation,
  type GatewayView,
  keepStart,
  listGateways,
  readNews,
  readRevocations,
  readSigning,
  readStart,
  replaceKey,
  type Signing,
  recordUses,
} from './sql.ts';

export type { GatewayAddresses } from './gateway-addresses.ts';
export { type GatewayView, removeOldGatewayRows } from './sql.ts';

/**
 * What a controller does for gateways, which pass requests of browsers to backends and have no database: it signs and
 * revokes tokens of people, answers where requests for a key go, and keeps routes in use valid.
 */

/** A key as callers name it. */
type NamedKey = NonNullable<ConnectInput['key']>;

/** Who may reach a key through a gateway, for how long, and what its backend is told about them. */
export interface GatewayAccess {
  readonly user: string;
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
  readonly expiresInSeconds: number;
}

export interface SignInput {
  readonly key: NamedKey;
  readonly access: GatewayAccess;
  /** The only grant that it is for. */
  readonly leaseId?: string | undefined;
  /** What a request may start. */
  readonly spawn?: SpawnRequest | undefined;
}

export interface SignedToken {
  readonly token: string;
  /** ISO-8601, by the database's clock. */
  readonly expiresAt: string;
}

export interface RevokeTokensInput {
  /** Includes its children; the root for all. */
  readonly namespace: string;
  readonly name?: string | undefined;
  readonly user?: string | undefined;
  readonly leaseId?: string | undefined;
  readonly reason: string;
}

export interface RouteInput {
  readonly key: NamedKey;
  readonly leaseId?: string | undefined;
  readonly start?: string | undefined;
  readonly waitMs: number;
}

export interface SyncInput {
  readonly gatewayId: string;
  readonly version: string;
  readonly revision?: string | undefined;
  /** Of all its routes, however many of them are among the uses. */
  readonly connections: number;
  readonly routes: number;
  readonly uses: readonly GatewayUse[];
}

interface FoundRoute {
  readonly route: GatewayRoute;
  /** Whether a backend was started for it. */
  readonly spawned: boolean;
}

/** Every method may throw `store.unavailable` and `request.outcome_unknown`. */
export interface GatewayService {
  /** Makes a token. What it may start is kept for as long as it is in force. */
  sign(input: SignInput): Promise<SignedToken>;
  /**
   * What a token was made for, with what is left of its time. @throws {LeaseError} `gateway.token_over` when it is not
   * in force, or for less than a second.
   */
  read(token: string): Promise<SignInput>;
  /**
   * Refuses all tokens that were issued up to now and have all that is given: each gateway once it has asked for
   * news. It is audited, unless it `isRepeated`. @throws {LeaseError} `gateway.too_many_revocations`.
   */
  revoke(
    input: RevokeTokensInput,
    actor: Actor,
    isRepeated?: boolean,
  ): Promise<{ id: string; revokedAt: string }>;
  /** New tokens are signed with a new key. With `now` all others are over at once. */
  rotate(
    input: { readonly now: boolean; readonly reason: string },
    actor: Actor,
  ): Promise<{ kid: string }>;
  /**
   * Where requests for a key go: to its running backend, or to one that is started if `start` allows it.
   * @throws {LeaseError} `gateway.elsewhere`, with the datacenter in which the key lives; `gateway.grant_over`,
   * `gateway.start_over`; as `KeyService.connect` with `waitFor: 'ready'`.
   */
  route(input: RouteInput, caller: Caller, signal: AbortSignal): Promise<FoundRoute>;
  /** Keeps routes in use valid, notes their use, and answers what is new for the gateway. */
  sync(input: SyncInput): Promise<GatewaySynced>;
  list(): Promise<GatewayView[]>;
}

interface GatewayServiceDeps {
  readonly store: Store;
  /** Connects to a key wherever it lives. */
  readonly connect: (
    input: ConnectInput,
    caller: Caller,
    signal: AbortSignal,
  ) => Promise<ConnectResult>;
}

export function createGatewayService(deps: GatewayServiceDeps): GatewayService {
  const { store } = deps;
  const sign = createSigner(store);
  return {
    sign,
    read: (token) => readToken(store, token),

    async revoke(input, actor, isRepeated = false) {
      const { namespace, name, user, leaseId, reason } = input;
      const id = store.ids.uuid();
      const what = { namespace, name: name ?? null, user: user ?? null, leaseId: leaseId ?? null };
      const at = await store.general.$transaction(async (tx) => {
        const addedAt = await addRevocation(tx, {
          id,
          ...what,
          by: actor.actor,
          reason,
          leavesRoom: !roleAllows(actor.role, 'operator'),
        });
        const isNew = addedAt !== undefined && !isRepeated;
        if (isNew) await writeAudit(tx, revocationEntry(input, actor));
        return addedAt;
      });
      if (at === undefined) throw new LeaseError('gateway.too_many_revocations');
      return { id, revokedAt: isoOf(at) };
    },

    async rotate({ now, reason }, actor) {
      const key = newKey(store);
      const { kid } = key;
      await store.general.$transaction(async (tx) => {
        await replaceKey(tx, key, now);
        const resource = `gateway-key:${kid}`;
        await writeAudit(tx, {
          ...actor,
          action: 'gateway.rotate',
          resource,
          reason,
          detail: { now },
        });
      });
      return { kid };
    },

    route: (input, caller, signal) => routeOf(deps, input, { caller, signal }),
    sync: (input) => syncOf(store, input),
    list: async () => (await listGateways(store.reads)).map(isoDates),
  };
}

/** It names the key, or the namespace. */
function revocationEntry({ reason, ...detail }: RevokeTokensInput, actor: Actor): AuditEntry {
  const { namespace, name } = detail;
  const place = namespaceText(namespace);
  return {
    ...actor,
    action: 'gateway.revoke',
    resource: name === undefined ? `namespace:${place}` : `key:${place}/${name}`,
    reason,
    detail: { ...detail, face: name === undefined ? undefined : 'key' },
  };
}

const KID_LENGTH = 14;

function newKey({ ids }: Pick<Store, 'ids'>): GatewaySigningKey {
  return createSigningKey(`gk-${ids.alphanumeric(KID_LENGTH)}`);
}

function createSigner(store: Store): GatewayService['sign'] {
  /** The key that signed last: to prepare one takes as long as to sign. */
  let last: SigningKey | undefined;

  async function signing(): Promise<Signing> {
    for (;;) {
      const found = await readSigning(store.general);
      if (found !== undefined) return found;
      await addFirstKey(store.general, newKey(store));
    }
  }

  return async ({ key, access, leaseId, spawn }) => {
    const { nowMs, issuedMs, ...signingKey } = await signing();
    const prepared = last?.kid === signingKey.kid ? last : await importSigningKey(signingKey);
    last = prepared;
    const expiresMs = Math.floor(nowMs) + access.expiresInSeconds * 1_000;
    const claims: GatewayTokenClaims = {
      sub: access.user,
      ns: key.namespace,
      key: key.name,
      tag: key.tag,
      claims: access.claims,
      grant: leaseId,
      start: spawn === undefined ? undefined : await kept(store, spawn, expiresMs),
      iat: issuedMs / 1_000,
      exp: expiresMs / 1_000,
      jti: store.ids.uuid(),
    };
    return { token: await signGatewayToken(claims, prepared), expiresAt: isoOf(expiresMs) };
  };
}

async function readToken(store: Store, token: string): Promise<SignInput> {
  const [{ keys, asOf }, revocations] = await Promise.all([
    readNews(store.vital),
    readRevocations(store.vital),
  ]);
  const verified = await verifyGatewayToken(token, {
    keys: await importGatewayKeys(keys),
    nowMs: asOf,
  });
  const claims = verified.outcome === 'valid' ? verified.claims : undefined;
  const leftMs = claims === undefined ? 0 : millisecondsOf(claims.exp) - asOf;
  const isOver = leftMs < 1_000 || revocations.some((one) => claims && isRevoked(claims, one));
  if (claims === undefined || isOver) {
    throw new LeaseError('gateway.token_over');
  }
  const { sub: user, ns: namespace, key: name, tag, grant, start } = claims;
  return {
    key: { name, namespace, tag },
    access: { user, claims: claims.claims, expiresInSeconds: Math.floor(leftMs / 1_000) },
    leaseId: grant,
    spawn: start === undefined ? undefined : await readStart(store.general, start),
  };
}

/** Keeps what a token may start. @returns its id, which is a hash of it. */
async function kept(store: Store, spawn: SpawnRequest, untilMs: number): Promise<string> {
  const spec = canonicalJson(spawn);
  const id = createHash('sha256').update(spec).digest('base64url');
  await keepStart(store.general, { id, spec, untilMs });
  return id;
}

type UsableBackend = Extract<UsedBackend, { readonly state: 'usable' }>;

/**
 * For how long a gateway may pass requests, counted from when it sent its question: as long as no other grant of the
 * key can exist, and its backend is not stopped for idleness, by any clock whose rate the ladder tolerates.
 */
function validForMs({ remainingMs, ladder, idleRemainingMs }: UsableBackend): number {
  // A fresh grant can seem to have a fraction of a millisecond more than its TTL.
  const leftMs = Math.min(remainingMs, ladder.ttlMs, idleRemainingMs ?? Infinity);
  return Math.max(0, leftMs) / toleratedClockRatio(ladder);
}

interface Asking {
  readonly caller: Caller;
  readonly signal: AbortSignal;
}

/**
 * How often a route is asked for whose backend has ended without a failure of its program, or was asked to stop, when
 * it was read.
 */
const ROUTE_TRIES_MAX = 8;
/** Before the third try; twice as long before each further one. The second may go to another drone at once. */
const ROUTE_PAUSE_MS = 100;

async function routeOf(
  deps: GatewayServiceDeps,
  input: RouteInput,
  { caller, signal }: Asking,
): Promise<FoundRoute> {
  const { store } = deps;
  const untilMs = store.clock.nowMs() + input.waitMs;
  // A gateway asks for people whom a service has let in, to keys of every namespace.
  const asking = { caller: { ...caller, role: 'client', namespaces: null }, signal };
  let spawned = false;
  let lost = new LeaseError('key.terminating');
  for (let tries = 0; tries < ROUTE_TRIES_MAX; tries += 1) {
    if (tries > 1) {
      const leftMs = Math.max(0, untilMs - store.clock.nowMs());
      // A hint does not shorten it: the end of the start before is one, and may come late.
      await pause(store, Math.min(leftMs, ROUTE_PAUSE_MS * 2 ** (tries - 2)), signal);
    }
    const waitMs = Math.max(0, untilMs - store.clock.nowMs());
    const found = await connected(deps, { ...input, waitMs }, asking);
    spawned ||= found.spawned;
    // It is not known here how long a grant of another datacenter lasts.
    if (found.datacenter !== store.datacenter) {
      throw new LeaseError('gateway.elsewhere', undefined, {
        details: { datacenter: found.datacenter },
      });
    }
    const used = await usedWhenReady(store, found, { untilMs, signal });
    if (used !== undefined) return { spawned, route: routeTo(found, used) };
    const left = Math.max(0, untilMs - store.clock.nowMs());
    const ended = await waitUntilReady(store, found, signal, left).catch(lostStart);
    if (!(ended instanceof LeaseError)) continue;
    if (store.clock.nowMs() >= untilMs) throw ended;
    lost = ended;
  }
  throw lost;
}

/** How often a backend that is not ready is looked at when no hint comes, such as that its drone was lost. */
const LOOK_MS = 1_000;

/**
 * Waits until a backend is ready, and uses it: to ask for a route is to use it.
 * @returns undefined when nobody may be sent to it, or the time is over.
 */
async function usedWhenReady(
  store: Store,
  { backendId, leaseId, status, spawned }: ConnectResult,
  { untilMs, signal }: { readonly untilMs: number; readonly signal: AbortSignal },
): Promise<UsableBackend | undefined> {
  const settled = (): Promise<void> => {
    const lookMs = Math.min(untilMs, store.clock.nowMs() + LOOK_MS);
    return store.hints.next(settledTopic(backendId), lookMs, signal);
  };
  // One that was started a moment ago is not ready.
  if (spawned) await settled();
  signal.throwIfAborted();
  for (let isReady = status === 'ready'; ; isReady = false) {
    // Waiting begins before the look, so that no hint in between is missed.
    const changed = isReady ? undefined : settled();
    const [used] = await touchBackends(store.vital, [{ leaseId, usedAgoMs: 0 }]);
    if (used?.state !== 'usable') return undefined;
    if (used.address !== null) return used;
    if (store.clock.nowMs() >= untilMs) return undefined;
    await changed;
    signal.throwIfAborted();
  }
}

/** The end of a start by no fault of its program, which may be started again at once: lost with its drone, or stopped. */
function lostStart(error: unknown): LeaseError {
  const isLost =
    error instanceof LeaseError &&
    error.code === 'backend.failed' &&
    error.details['hasFailed'] === false;
  if (!isLost) throw error;
  return error;
}

/** Connects to the key. @throws {LeaseError} when the token's grant, or what it may start, is over. */
async function connected(
  { store, connect }: GatewayServiceDeps,
  { key, leaseId, start, waitMs }: RouteInput,
  { caller, signal }: Asking,
): Promise<ConnectResult> {
  // A grant that is over has no successor for its tokens.
  const spawn =
    start === undefined || leaseId !== undefined
      ? undefined
      : await readStart(store.general, start);
  const input = { key, spawn, waitMs, waitFor: 'granted' } as const;
  const found = await connect(input, caller, signal).catch((error: unknown) => {
    const isUnheld = error instanceof LeaseError && error.code === 'key.unheld';
    if (isUnheld && leaseId !== undefined) throw new LeaseError('gateway.grant_over');
    if (isUnheld && start !== undefined) throw new LeaseError('gateway.start_over');
    throw error;
  });
  if (leaseId !== undefined && found.leaseId !== leaseId) {
    throw new LeaseError('gateway.grant_over');
  }
  return found;
}

function routeTo({ key, leaseId, fencingToken }: ConnectResult, used: UsableBackend): GatewayRoute {
  const { program, address } = used;
  const validMs = validForMs(used);
  return { key, leaseId, fencingToken, program, address: address ?? '', validForMs: validMs };
}

async function syncOf(
  store: Store,
  { revision, uses, ...gateway }: SyncInput,
): Promise<GatewaySynced> {
  const [news, states] = await Promise.all([
    readNews(store.vital),
    touchBackends(store.vital, uses),
  ]);
  const usable = new Set(states.flatMap((one) => (one.state === 'usable' ? [one.leaseId] : [])));
  // A grant that is named twice is noted once. What is said of grants that do not exist, or are over, is not kept.
  const byLease = new Map(uses.map((use) => [use.leaseId, use]));
  const used = [...byLease.values()].filter(({ leaseId }) => usable.has(leaseId));
  const [revocations] = await Promise.all([
    revision === news.revision ? null : readRevocations(store.vital),
    recordUses(store.vital, gateway, used),
  ]);
  return {
    ...news,
    revocations,
    routes: states.map((one): GatewayRouteState =>
      one.state === 'usable'
        ? { leaseId: one.leaseId, state: 'valid', validForMs: validForMs(one) }
        : one,
    ),
  };
}
