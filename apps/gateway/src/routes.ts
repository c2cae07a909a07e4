/**
 * Where requests go, and until when. A route is asked for once, by whatever request comes first; the others wait for
 * the same answer. From then on one call for all routes keeps them valid.
 *
 * Validity is a duration, counted from when its question was sent, by a clock that goes on while the machine or this
 * process sleeps: so it is over early and never late. After it nothing is passed.
 */
import http from 'node:http';
import type net from 'node:net';
import {
  LIMITS,
  type GatewayRoute,
  type GatewaySynced,
  type GatewayTokenClaims,
} from '@leasehold/keys-core';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { onAbort } from '@leasehold/service-kit/signals';
import type { GatewayBounds } from './config.ts';
import { LinkDown, type ControllerLink, type SyncInput } from './controller-link.ts';
import { toldOfRoute } from './headers.ts';
import { Refusal, type RefusalCode } from './refusal.ts';

/** What a request may be sent to. */
export interface Wanted {
  readonly namespace: string;
  readonly name: string;
  readonly tag: string;
  /** The only grant that it is for. */
  readonly grant?: string | undefined;
  /** What may be started. */
  readonly start?: string | undefined;
  /** {@link keyOf} it, where many requests want the same. */
  readonly id?: string | undefined;
}

/** What the requests of a token are for. */
export function wantedBy(claims: GatewayTokenClaims): Wanted {
  const { ns: namespace, key: name, tag, grant, start } = claims;
  return { namespace, name, tag, grant, start, id: keyOf({ namespace, name, tag }) };
}

/** A request or a WebSocket that uses a route. */
export interface RouteUser {
  readonly user: string;
  /** Its place among the users of its route, which the route keeps. */
  place: number;
  /** Ends it; nothing of it is passed any more. */
  end(code: RefusalCode): void;
}

/** Sockets to one backend, in use and in reserve. */
const BACKEND_SOCKETS_MAX = 1_024;
const BACKEND_FREE_SOCKETS_MAX = 256;
/** From so many in use on, a user who has an eighth of all gets no more: the rest is for the others. */
const BACKEND_SHARED_FROM = BACKEND_SOCKETS_MAX / 2;
const BACKEND_SOCKETS_PER_USER_MAX = BACKEND_SOCKETS_MAX / 8;
/** Less than backends keep a connection without requests, so that none is closed while it is taken again. */
const BACKEND_FREE_MS = 2_000;
/** Of one that says for how long it does: so much less, and no longer than this. */
const BACKEND_FREE_LESS_MS = 1_000;
const BACKEND_FREE_MS_MAX = 60_000;

/** The connections to one backend. */
export class BackendAgent extends http.Agent {
  #said: string | string[] | undefined;
  #freeMs = BACKEND_FREE_MS;

  constructor() {
    super({
      keepAlive: true,
      maxSockets: BACKEND_SOCKETS_MAX,
      maxFreeSockets: BACKEND_FREE_SOCKETS_MAX,
    });
  }

  /** All its connections are to one place: Node asks for the name several times for each request. */
  override getName(): string {
    return 'backend';
  }

  /** Connections that have a request. */
  get inUse(): number {
    return this.sockets[this.getName()]?.length ?? 0;
  }

  /** Takes what the backend says in `Keep-Alive`. */
  heard(said: string | string[] | undefined): void {
    if (said === this.#said) return;
    this.#said = said;
    const seconds = /(?:^|[\s,])timeout=(\d+)/iu.exec(String(said ?? ''))?.[1];
    this.#freeMs =
      seconds === undefined
        ? BACKEND_FREE_MS
        : Math.min(Number(seconds) * 1_000 - BACKEND_FREE_LESS_MS, BACKEND_FREE_MS_MAX);
  }

  override keepSocketAlive(socket: net.Socket): boolean {
    // As the base class, whose own time would be that of no header: it is not passed on.
    socket.setKeepAlive(true);
    socket.unref();
    if (this.#freeMs <= 0) return false;
    if (socket.timeout !== this.#freeMs) socket.setTimeout(this.#freeMs);
    return true;
  }
}

/** A backend that requests are passed to. */
export class ActiveRoute {
  readonly route: GatewayRoute;
  /** Headers that its backend gets. */
  readonly told: http.IncomingHttpHeaders;
  /** By the clock of the table. */
  validUntilMs: number;
  /** Since when it is known. */
  readonly sinceMs: number;
  /** Connections of this grant alone: one of an earlier grant can never be taken for it. */
  readonly agent = new BackendAgent();
  /**
   * No set, and no map: where something is added and removed with each request, each of their old tables leads to the
   * next one, and what these hold stays in memory until all of it is looked through.
   */
  readonly #users: RouteUser[] = [];
  /** How many different people they are; undefined when that must be counted. */
  #userCount: number | undefined = 0;
  isEnded = false;
  /** When the question was sent whose answer counts. */
  askedAtMs = -Infinity;
  /** For when the end of its validity is looked at. */
  watchedUntilMs = Infinity;
  unwatch: () => void = () => undefined;
  /** A backend at its address refused a connection: it is asked for again before anything else is sent there. */
  isSuspect = false;
  requests = 0;
  lastUsedMs: number;

  constructor(route: GatewayRoute, validUntilMs: number, nowMs: number) {
    this.route = route;
    this.told = toldOfRoute(route);
    this.validUntilMs = validUntilMs;
    this.sinceMs = nowMs;
    this.lastUsedMs = nowMs;
  }

  get connections(): number {
    return this.#users.length;
  }

  get userCount(): number {
    this.#userCount ??= new Set(this.#users.map(({ user }) => user)).size;
    return this.#userCount;
  }

  get users(): readonly RouteUser[] {
    return this.#users;
  }

  isValid(nowMs: number): boolean {
    return !this.isEnded && nowMs < this.validUntilMs;
  }

  /** Whether a request of this user gets a connection at once: in Node's own queue it would wait without end. */
  hasPlaceFor(user: string): boolean {
    const { inUse } = this.agent;
    if (inUse < BACKEND_SHARED_FROM) return true;
    if (inUse >= BACKEND_SOCKETS_MAX) return false;
    const own = this.#users.reduce((count, other) => (other.user === user ? count + 1 : count), 0);
    return own < BACKEND_SOCKETS_PER_USER_MAX;
  }

  /** Counts a use. @returns ends it. */
  use(user: RouteUser, clock: Pick<TickingClock, 'nowMs'>): () => void {
    user.place = this.#users.push(user) - 1;
    this.#userCount = undefined;
    this.requests += 1;
    return () => {
      if (this.#users[user.place] !== user) return;
      const last = this.#users.pop();
      if (last !== undefined && last !== user) {
        this.#users[user.place] = last;
        last.place = user.place;
      }
      this.#userCount = undefined;
      this.lastUsedMs = clock.nowMs();
    };
  }

  end(code: RefusalCode): void {
    this.isEnded = true;
    this.unwatch();
    for (const user of [...this.#users]) user.end(code);
    this.agent.destroy();
  }
}

interface RoutesDeps {
  readonly clock: TickingClock;
  readonly link: Pick<ControllerLink, 'route' | 'sync'>;
  readonly gatewayId: string;
  readonly version: string;
  readonly bounds: Pick<GatewayBounds, 'heldMax' | 'heldBytesMax' | 'holdMs'>;
  /** What is known of tokens. */
  readonly tokens: {
    readonly revision: string | undefined;
    learn(news: GatewaySynced, sentAtMs: number): Promise<void>;
  };
  /** Called after each answer, and with why one did not come. */
  readonly onSync?: ((problem?: unknown) => void) | undefined;
}

/** Of the requests that wait, one key may have this share: it cannot keep out all others. */
const HELD_SHARE_OF_KEY = 4;
/** Routes that are known at once. */
export const ROUTES_MAX = 50_000;
/** A route that nobody has used for so long is not kept valid any more. */
const UNUSED_MS_MAX = 60_000;
/**
 * A route with less left is asked for again before a request is passed: its backend may be about to be stopped because
 * nobody uses it, and only the question counts as a use.
 */
const LEFT_MS_MIN = 750;
/** A controller answers so much sooner than a request is given up, or the reason would come too late for it. */
const ANSWER_MS = 500;
/** Between two tries when no controller answers, or when an answer came too late to be used. */
const RETRY_MS = 200;

/** How often the controller is asked about all routes. */
export const SYNC_MS = 500;
/** Between two calls that requests have asked for, from start to start: anybody can make up a token. */
const ASKED_SYNC_MS = 250;
const SYNC_TIMEOUT_MS = 1_500;

export class Routes {
  readonly #deps: RoutesDeps;
  readonly #clock: TickingClock;
  readonly #byKey = new Map<string, ActiveRoute>();
  /** Those that are under way. */
  readonly #questions = new Map<string, Promise<ActiveRoute>>();
  readonly #heldByKey = new Map<string, number>();
  /** When an end was asked about, by grant: an earlier answer that still names the grant is too old. */
  readonly #ended = new Map<string, number>();
  #heldBytes = 0;
  #held = 0;
  #syncing: Promise<void> | undefined;
  /** One that was asked for, and has not been sent yet. */
  #nextSync: Promise<void> | undefined;
  #askedSyncAtMs = -Infinity;
  #syncedAtMs: number | undefined;
  #cancelSync: () => void = () => undefined;
  readonly #closing = new AbortController();

  constructor(deps: RoutesDeps) {
    this.#deps = deps;
    this.#clock = deps.clock;
  }

  get active(): Iterable<ActiveRoute> {
    return this.#byKey.values();
  }

  get held(): { readonly count: number; readonly bytes: number } {
    return { count: this.#held, bytes: this.#heldBytes };
  }

  /** For how long the oldest route is known; 0 without one. */
  oldestMs(): number {
    const since = Math.min(...[...this.#byKey.values()].map((active) => active.sinceMs));
    return Number.isFinite(since) ? this.#clock.nowMs() - since : 0;
  }

  /** How long ago the question was sent that was answered last; undefined before the first answer. */
  syncAgeMs(): number | undefined {
    return this.#syncedAtMs === undefined ? undefined : this.#clock.nowMs() - this.#syncedAtMs;
  }

  /** The route of a key, if it can be used now. */
  current(wanted: Wanted): ActiveRoute | undefined {
    const active = this.#byKey.get(keyOf(wanted));
    if (active === undefined || active.isSuspect) return undefined;
    const isEnough = active.isValid(this.#clock.nowMs() + LEFT_MS_MIN);
    return isEnough && isFor(active, wanted) ? active : undefined;
  }

  /**
   * The route of a key; a request that must wait for it is held.
   * @throws {Refusal} `gateway.busy` when too much is held, `gateway.wait_over` after the time of the bounds, or what
   * the controller answered.
   */
  async take(
    wanted: Wanted,
    { bytes, signal }: { readonly bytes: number; readonly signal: AbortSignal },
  ): Promise<ActiveRoute> {
    const current = this.current(wanted);
    if (current !== undefined) return current;
    const release = this.#hold(keyOf(wanted), bytes);
    const ended = new AbortController();
    const onEnd = (reason: unknown): void => ended.abort(reason);
    const unfollow = [signal, this.#closing.signal].map((one) => onAbort(one, onEnd));
    try {
      return await this.#wait(wanted, ended.signal);
    } finally {
      for (const end of unfollow) end();
      release();
    }
  }

  /** Takes part in the bounds of what is held. @returns ends that. */
  #hold(key: string, bytes: number): () => void {
    const { heldMax, heldBytesMax } = this.#deps.bounds;
    const ofKey = this.#heldByKey.get(key) ?? 0;
    const isFull =
      this.#held >= heldMax ||
      this.#heldBytes + bytes > heldBytesMax ||
      ofKey >= Math.max(1, Math.floor(heldMax / HELD_SHARE_OF_KEY)) ||
      this.#byKey.size >= ROUTES_MAX;
    if (isFull) throw new Refusal('gateway.busy');
    this.#held += 1;
    this.#heldBytes += bytes;
    this.#heldByKey.set(key, ofKey + 1);
    return () => {
      this.#held -= 1;
      this.#heldBytes -= bytes;
      const left = (this.#heldByKey.get(key) ?? 1) - 1;
      if (left === 0) this.#heldByKey.delete(key);
      else this.#heldByKey.set(key, left);
    };
  }

  async #wait(wanted: Wanted, signal: AbortSignal): Promise<ActiveRoute> {
    const untilMs = this.#clock.nowMs() + this.#deps.bounds.holdMs;
    /** Why the last question led nowhere. */
    let problem: LinkDown | Refusal | undefined;
    for (;;) {
      // Before the question: a failure of one that nobody waits for would end the process.
      signal.throwIfAborted();
      const asked = await this.#within(this.#askedOnce(wanted, untilMs), { untilMs, signal });
      if (asked === 'over') break;
      problem = asked instanceof ActiveRoute ? undefined : asked;
      const isUsable = asked instanceof ActiveRoute && asked.isValid(this.#clock.nowMs());
      if (isUsable && isFor(asked, wanted)) return asked;
      if ((await this.#within(this.#pause(), { untilMs, signal })) === 'over') break;
    }
    if (problem instanceof LinkDown) throw new Refusal('gateway.cut_off', { cause: problem });
    throw problem ?? new Refusal('gateway.wait_over');
  }

  /** What may be different the next time is returned: the question may be that of a request whose time was over. */
  async #askedOnce(wanted: Wanted, untilMs: number): Promise<ActiveRoute | LinkDown | Refusal> {
    try {
      return await this.#ask(wanted, untilMs);
    } catch (error) {
      if (error instanceof LinkDown) return error;
      if (error instanceof Refusal && error.code === 'gateway.wait_over') return error;
      throw error;
    }
  }

  /** Joins a question that is under way, or asks. */
  #ask(wanted: Wanted, untilMs: number): Promise<ActiveRoute> {
    const id = [keyOf(wanted), wanted.grant ?? '', wanted.start ?? ''].join('\0');
    const underWay = this.#questions.get(id);
    if (underWay !== undefined) return underWay;
    const question = this.#question(wanted, untilMs).finally(() => this.#questions.delete(id));
    this.#questions.set(id, question);
    return question;
  }

  async #question(wanted: Wanted, untilMs: number): Promise<ActiveRoute> {
    const { namespace, name, tag, grant, start } = wanted;
    const sentAtMs = this.#clock.nowMs();
    const route = await this.#deps.link.route({
      key: { namespace, name, tag },
      ...(grant === undefined ? {} : { leaseId: grant }),
      ...(start === undefined ? {} : { start }),
      waitMs: Math.max(0, Math.min(LIMITS.waitMsMax, Math.floor(untilMs - sentAtMs) - ANSWER_MS)),
    });
    return this.#learn(route, sentAtMs);
  }

  #learn(route: GatewayRoute, sentAtMs: number): ActiveRoute {
    const nowMs = this.#clock.nowMs();
    const validUntilMs = sentAtMs + route.validForMs;
    if ((this.#ended.get(route.leaseId) ?? -Infinity) >= sentAtMs) {
      return new ActiveRoute(route, -Infinity, nowMs);
    }
    const key = keyOf({ ...route.key });
    const known = this.#byKey.get(key);
    if (known?.route.leaseId === route.leaseId && known.route.address === route.address) {
      known.isSuspect = false;
      known.lastUsedMs = nowMs;
      this.#prolong(known, validUntilMs, sentAtMs);
      return known;
    }
    // A token of a grant that is older than what is known: what is known stays.
    if (known !== undefined && isOlder(route, known.route)) {
      return new ActiveRoute(route, -Infinity, nowMs);
    }
    if (known !== undefined) this.#end(known, 'gateway.route_over');
    const active = new ActiveRoute(route, validUntilMs, nowMs);
    if (!active.isValid(nowMs) || this.#closing.signal.aborted) return active;
    this.#byKey.set(key, active);
    this.#prolong(active, validUntilMs, sentAtMs);
    return active;
  }

  /** Of two answers, the one counts whose question was sent later: it may also make the time shorter. */
  #prolong(active: ActiveRoute, validUntilMs: number, sentAtMs: number): void {
    if (sentAtMs < active.askedAtMs) return;
    active.askedAtMs = sentAtMs;
    active.validUntilMs = validUntilMs;
    // A later one is seen when the former is due: not each answer makes an appointment.
    if (validUntilMs < active.watchedUntilMs) this.#watch(active);
  }

  /** Ends a route when its validity does. */
  #watch(active: ActiveRoute): void {
    active.unwatch();
    active.watchedUntilMs = active.validUntilMs;
    active.unwatch = this.#clock.at(active.validUntilMs, () => {
      if (active.isEnded) return;
      if (active.isValid(this.#clock.nowMs())) this.#watch(active);
      else this.#end(active, 'gateway.route_over');
    });
  }

  #end(active: ActiveRoute, code: RefusalCode): void {
    const key = keyOf({ ...active.route.key });
    if (this.#byKey.get(key) === active) this.#byKey.delete(key);
    active.end(code);
  }

  /** Resolves as the work does, or at its time; rejects when the signal aborts. */
  async #within<Result>(
    work: Promise<Result>,
    { untilMs, signal }: { untilMs: number; signal: AbortSignal },
  ): Promise<Result | 'over'> {
    let stop = (): void => undefined;
    const end = new Promise<'over'>((resolve, reject) => {
      const onAbort = (): void => reject(signal.reason as Error);
      if (signal.aborted) onAbort();
      signal.addEventListener('abort', onAbort, { once: true });
      const cancel = this.#clock.at(untilMs, () => resolve('over'));
      stop = () => {
        signal.removeEventListener('abort', onAbort);
        cancel();
      };
    });
    try {
      return await Promise.race([work, end]);
    } finally {
      stop();
    }
  }

  #pause(): Promise<void> {
    return this.#until(this.#clock.nowMs() + RETRY_MS);
  }

  async #until(atMs: number): Promise<void> {
    if (this.#clock.nowMs() >= atMs) return;
    await new Promise<void>((resolve) => {
      this.#clock.at(atMs, resolve);
    });
  }

  // Keeping routes valid.

  /** Begins to keep routes valid, and tokens known. */
  start(): void {
    const next = (): void => {
      if (this.#closing.signal.aborted) return;
      const sentAtMs = this.#clock.nowMs();
      void this.sync().finally(() => {
        // After a question that took long, the next one follows at once.
        this.#cancelSync = this.#clock.at(sentAtMs + SYNC_MS, next);
      });
    };
    next();
  }

  /** Asks about all routes once. One question is under way at a time. */
  sync(): Promise<void> {
    this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = undefined;
    });
    return this.#syncing;
  }

  /** Resolves when a question that was sent after this call has been answered, or has failed. */
  syncAfresh(): Promise<void> {
    this.#nextSync ??= this.#syncNext();
    return this.#nextSync;
  }

  async #syncNext(): Promise<void> {
    await this.#until(this.#askedSyncAtMs + ASKED_SYNC_MS);
    while (this.#syncing !== undefined) await this.#syncing;
    this.#nextSync = undefined;
    this.#askedSyncAtMs = this.#clock.nowMs();
    await this.sync();
  }

  async #sync(): Promise<void> {
    const routes = this.#dropUnused();
    const connections = routes.reduce((sum, active) => sum + active.connections, 0);
    const total = { connections, routes: routes.length };
    let at = 0;
    try {
      do {
        const part = routes.slice(at, at + LIMITS.gatewayUsesPerCallMax);
        await this.#syncPart(part, total);
        at += LIMITS.gatewayUsesPerCallMax;
      } while (at < routes.length);
      this.#deps.onSync?.();
    } catch (error) {
      this.#deps.onSync?.(error);
    }
  }

  /** @returns those that are left, the one first that was asked about longest ago. */
  #dropUnused(): ActiveRoute[] {
    const nowMs = this.#clock.nowMs();
    for (const active of [...this.#byKey.values()]) {
      const isUsed = active.connections > 0 || nowMs - active.lastUsedMs < UNUSED_MS_MAX;
      if (!isUsed) this.#end(active, 'gateway.route_over');
    }
    for (const [leaseId, askedAtMs] of this.#ended) {
      if (nowMs - askedAtMs > LIMITS.waitMsMax + UNUSED_MS_MAX) this.#ended.delete(leaseId);
    }
    // Where one part of the last call was refused, the next call begins with it: else it would always be the same one.
    return [...this.#byKey.values()].sort((one, other) => one.askedAtMs - other.askedAtMs);
  }

  async #syncPart(
    routes: readonly ActiveRoute[],
    total: Pick<SyncInput, 'connections' | 'routes'>,
  ): Promise<void> {
    const { link, tokens, gatewayId, version } = this.#deps;
    const sentAtMs = this.#clock.nowMs();
    const told = routes.map((active) => active.requests);
    const { revision } = tokens;
    const answer = await link.sync(
      {
        gatewayId,
        version,
        ...total,
        ...(revision === undefined ? {} : { revision }),
        uses: routes.map((active) => useOf(active, sentAtMs)),
      },
      SYNC_TIMEOUT_MS,
    );
    await tokens.learn(answer, sentAtMs);
    this.#syncedAtMs = sentAtMs;
    const states = new Map(answer.routes.map((state) => [state.leaseId, state]));
    for (const [index, active] of routes.entries()) {
      active.requests -= told[index] ?? 0;
      const state = states.get(active.route.leaseId);
      if (state?.state === 'valid') {
        this.#prolong(active, sentAtMs + state.validForMs, sentAtMs);
      } else if (state?.state === 'ended') {
        this.#ended.set(active.route.leaseId, sentAtMs);
        this.#end(active, 'gateway.route_over');
      }
    }
  }

  /** Ends all routes, what uses them, and what is held. Nothing is asked any more. */
  close(code: RefusalCode): void {
    this.#closing.abort(new Refusal(code));
    this.#cancelSync();
    for (const active of [...this.#byKey.values()]) this.#end(active, code);
  }
}

function keyOf({ namespace, name, tag, id }: Wanted): string {
  return id ?? [namespace, name, tag].join('\0');
}

function isFor(active: ActiveRoute, { grant }: Wanted): boolean {
  return grant === undefined || active.route.leaseId === grant;
}

function isOlder(one: GatewayRoute, other: GatewayRoute): boolean {
  return BigInt(one.fencingToken) < BigInt(other.fencingToken);
}

function useOf(active: ActiveRoute, nowMs: number): SyncInput['uses'][number] {
  return {
    leaseId: active.route.leaseId,
    connections: active.connections,
    users: active.userCount,
    requests: active.requests,
    usedAgoMs: active.connections > 0 ? 0 : Math.max(0, nowMs - active.lastUsedMs),
  };
}
