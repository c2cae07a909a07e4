/**
 * Fair use: what each principal may use of this controller, and uses now. The limits are those of its
 * role, or its token's own (`kernel/fair-use.ts`). What is counted here is counted by each controller
 * for itself; held leases are counted in the database, declarations by the statement that writes them.
 */
import type { Access, CallerUse, LimitUse } from '@leasehold/api';
import {
  FAIR_USE_LIMITS,
  LIMITS,
  limitsWith,
  type FairUseConfig,
  type FairUseLimit,
  type FairUseLimits,
  type FairUseOverrides,
  type Role,
} from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/postgres';
import { countHeldLeases, sharedRead } from '@leasehold/keys-core/stats';
import type { Logger } from '@leasehold/service-kit';
import type { Registry } from 'prom-client';
import { addFairUseGauges, countRefusals } from '../metrics.ts';
import {
  createRates,
  createReadLane,
  createStreamPacer,
  once,
  quotaExceeded,
  rateLimited,
  type ReadLane,
  SHUT_TIMES,
} from './pacing.ts';

/** Principals that use nothing now are forgotten when there are more than this. */
const PRINCIPALS_MAX = 10_000;
/** From this share of a principal's held leases on, each grant waits for a fresh count. */
const HELD_SHARE_NEAR = 0.9;
/** A controller that has granted this share of the limit since the last count asks for another. */
const HELD_SHARE_RECOUNT = 0.05;
/** Bytes may arrive so much sooner than their limit has them: one large message is read at once. */
const EARLY_MS = 100;
/** Messages that have not ended may have what arrives in this time, all together. */
const HELD_SECONDS_MAX = 4;
/** The longest pause of one who sends too fast. */
const LATE_MS_MAX = 10_000;
const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

/** The present use of the limits that count what is open. */
type Open = Record<'connections' | 'streams' | 'waiters' | 'unreadBytes', number>;

/** The limits that count what happens in an hour. */
type Hourly = 'reservationsPerHour' | 'eventBytesPerHour';

/** What one principal uses of this controller. */
export interface PrincipalUse extends CallerUse {
  readonly principal: string;
  readonly role: Role;
  /** Counts calls that arrived together. @throws {LeaseError} `request.rate_limited`. */
  countCalls(count: number, isUrgent: boolean): void;
  /** Whether it has sent so many calls in this second that it is not answered any more. */
  readonly isShut: boolean;
  /** @throws {LeaseError} `quota.exceeded` for a request or message of more calls than it may have. */
  assertBatch(count: number): void;
  /** @throws {LeaseError} `quota.exceeded`. @returns a function that counts it as closed. */
  openConnection(): () => void;
  /** The same for reads that nobody waits for at this moment, such as the pages of an export. */
  inBackground(): CallerUse;
  /**
   * Counts bytes that were received.
   * @returns how long nothing else that is large should be read of this principal, in milliseconds; mostly 0.
   */
  received(bytes: number): number;
  /**
   * Counts bytes of messages that have not ended, or takes them back.
   * @returns whether they are more than its connections may hold together.
   */
  holds(change: number): boolean;
  /** Counts bytes of answers: sent, and unread until the returned function is called. */
  sent(bytes: number): () => void;
  /** @throws {LeaseError} `quota.exceeded` for a caller that has too many bytes unread. */
  assertHasRead(): void;
  /** Whether the caller has too many bytes unread, or was sent too many bytes in this second. */
  isBehind(): boolean;
}

export interface FairUse {
  /** What this caller may use and uses; the same object for all of its connections. */
  of(access: Access): PrincipalUse;
  /** The limits of a principal, with what it uses of each at this controller. */
  report(who: {
    readonly principal: string;
    readonly role: Role;
    readonly overrides: FairUseOverrides | null;
  }): LimitUse[];
  /** The greatest share of a limit that one principal uses, 1 for all of it; undefined if not counted. */
  greatestUseOf(limit: FairUseLimit): number | undefined;
  /** Reads that wait for their turn, for metrics. */
  readonly waitingReads: number;
}

interface FairUseDeps {
  readonly store: Pick<Store, 'guests' | 'clock'>;
  readonly limits: Readonly<Record<Role, FairUseLimits>>;
  /** A monotonic reading in milliseconds that is cheap enough for each call. */
  readonly nowMs: () => number;
  readonly log: Logger;
  /** Called for each refusal, for metrics. */
  readonly onRefusal: (limit: string, role: Role) => void;
}

export function createFairUse(deps: FairUseDeps): FairUse {
  const lane = createReadLane(deps.nowMs);
  const elsewhere = createReadLane(deps.nowMs);
  const held = createHeldCounts(deps.store);
  const uses = new Map<string, Use>();
  const shared: Shared = { ...deps, lane, elsewhere, held };
  return {
    get waitingReads() {
      return lane.waitingCount + elsewhere.waitingCount;
    },
    of(access) {
      const known = uses.get(access.principal);
      const limits = limitsWith(deps.limits[access.role], access.limits ?? null);
      if (known !== undefined) {
        known.allow(access.role, limits);
        return known;
      }
      if (uses.size >= PRINCIPALS_MAX) {
        for (const [principal, use] of uses) if (use.isIdle) uses.delete(principal);
      }
      const use = new Use(shared, access.principal);
      use.allow(access.role, limits);
      uses.set(access.principal, use);
      return use;
    },
    greatestUseOf(limit) {
      let greatest: number | undefined;
      for (const use of uses.values()) {
        const used = use.usedOf(limit);
        if (used !== null) {
          greatest = Math.max(greatest ?? 0, used / Math.max(1, use.limits[limit]));
        }
      }
      return greatest;
    },
    report({ principal, role, overrides }) {
      const limits = limitsWith(deps.limits[role], overrides);
      const use = uses.get(principal);
      return FAIR_USE_LIMITS.map((limit) => ({
        limit,
        max: limits[limit],
        isOwn: overrides?.[limit] !== undefined,
        used: use?.usedOf(limit) ?? null,
      }));
    },
  };
}

interface Shared extends FairUseDeps {
  readonly lane: ReadLane;
  /** Of reads that another datacenter carries out: a slow one must not keep anybody from those here. */
  readonly elsewhere: ReadLane;
  readonly held: HeldCounts;
}

class Use implements PrincipalUse {
  readonly principal: string;
  readonly #shared: Shared;
  readonly #open: Open = { connections: 0, streams: 0, waiters: 0, unreadBytes: 0 };
  #role: Role = 'viewer';
  #limits!: FairUseLimits;
  readonly #calls: Record<'ordinary' | 'urgent', CountWindow>;
  readonly #bytes: CountWindow;
  readonly #receivedBytes: CountWindow;
  /** Of messages that have not ended. */
  #heldBytes = 0;
  /** When what was received until now would have arrived at the rate of its limit. */
  #receivedUntilMs = -Infinity;
  readonly #hourly: Record<Hourly, CountWindow>;
  #shutUntilMs = -Infinity;

  constructor(shared: Shared, principal: string) {
    this.#shared = shared;
    this.principal = principal;
    const second = (): CountWindow => new CountWindow(SECOND_MS, shared.nowMs);
    this.#calls = { ordinary: second(), urgent: second() };
    this.#bytes = second();
    this.#receivedBytes = second();
    const hour = (): CountWindow => new CountWindow(HOUR_MS, shared.nowMs);
    this.#hourly = { reservationsPerHour: hour(), eventBytesPerHour: hour() };
  }

  get role(): Role {
    return this.#role;
  }

  get limits(): FairUseLimits {
    return this.#limits;
  }

  get isShut(): boolean {
    return this.#shared.nowMs() < this.#shutUntilMs;
  }

  get isIdle(): boolean {
    const isClosed = Object.values(this.#open).every((count) => count === 0);
    const windows = [...Object.values(this.#hourly), ...Object.values(this.#calls)];
    return isClosed && windows.every(({ count }) => count === 0);
  }

  /** The role of a person may have changed since. */
  allow(role: Role, limits: FairUseLimits): void {
    this.#role = role;
    this.#limits = limits;
  }

  usedOf(limit: FairUseLimit): number | null {
    if (limit === 'responseBytesPerSecond') return this.#bytes.count;
    if (limit === 'requestBytesPerSecond') return this.#receivedBytes.count;
    if (limit in this.#hourly) return this.#hourly[limit as Hourly].count;
    if (limit === 'heldLeases') return this.#shared.held.estimateOf(this.principal);
    return limit in this.#open ? this.#open[limit as keyof Open] : null;
  }

  countCalls(count: number, isUrgent: boolean): void {
    const calls = this.#calls[isUrgent ? 'urgent' : 'ordinary'];
    const max = this.#limits.callsPerSecond;
    calls.add(count);
    if (calls.count <= max) return;
    if (calls.count > max * SHUT_TIMES) {
      this.#shutUntilMs = this.#shared.nowMs() + calls.remainingMs;
    }
    throw this.#limited('callsPerSecond', calls.remainingMs);
  }

  countItems(count: number, kind: 'ordinary' | 'urgent' = 'ordinary'): void {
    if (kind === 'ordinary') this.assertBatch(count);
    // The call itself is counted already.
    if (count > 1) this.countCalls(count - 1, kind === 'urgent');
  }

  assertBatch(count: number): void {
    const max = this.#limits.batchSize;
    if (count > max) throw this.#exceeded('batchSize', count);
  }

  openConnection(): () => void {
    return this.#take('connections');
  }

  openStream(): () => void {
    return this.#take('streams');
  }

  startWaiting(count = 1): () => void {
    return this.#take('waiters', count);
  }

  read<T>(run: () => Promise<T>, kind: 'asked' | 'background' | 'elsewhere' = 'asked'): Promise<T> {
    // Another datacenter's reads wait for their turn there. Here they would wait for each other.
    if (this.#role === 'peer') return run();
    const max = this.#limits.responseBytesPerSecond;
    if (this.#bytes.count > max) {
      return Promise.reject(this.#limited('responseBytesPerSecond', this.#bytes.remainingMs));
    }
    const { lane, elsewhere } = this.#shared;
    if (kind === 'elsewhere') return elsewhere.through(this.principal, run);
    return lane.through(this.principal, run, kind);
  }

  inBackground(): CallerUse {
    return {
      limits: this.#limits,
      countItems: (count, kind) => this.countItems(count, kind),
      read: (run) => this.read(run, 'background'),
      openStream: () => this.openStream(),
      startWaiting: (count) => this.startWaiting(count),
      mayHold: (count) => this.mayHold(count),
      startReserving: () => this.startReserving(),
      startWriting: (bytes) => this.startWriting(bytes),
      noteWritten: (bytes) => this.noteWritten(bytes),
      noteHeld: (change) => this.noteHeld(change),
      heldBy: (principal, role) => this.heldBy(principal, role),
    };
  }

  heldBy(principal: string, role: Role): CallerUse {
    const max = this.#shared.limits[role].heldLeases;
    return {
      ...this.inBackground(),
      read: (run, kind) => this.read(run, kind),
      mayHold: (count) => this.#mayHold(principal, max, count),
      noteHeld: (change) => this.#shared.held.note(principal, change),
    };
  }

  received(bytes: number): number {
    this.#receivedBytes.add(bytes);
    const nowMs = this.#shared.nowMs();
    const takesMs = (bytes / Math.max(1, this.#limits.requestBytesPerSecond)) * SECOND_MS;
    this.#receivedUntilMs = Math.max(nowMs, this.#receivedUntilMs) + takesMs;
    return Math.min(Math.max(0, this.#receivedUntilMs - nowMs - EARLY_MS), LATE_MS_MAX);
  }

  holds(change: number): boolean {
    this.#heldBytes += change;
    const { requestBytesPerSecond } = this.#limits;
    return (
      this.#heldBytes > Math.max(requestBytesPerSecond * HELD_SECONDS_MAX, LIMITS.bodyBytesMax)
    );
  }

  sent(bytes: number): () => void {
    this.#bytes.add(bytes);
    for (const lane of [this.#shared.lane, this.#shared.elsewhere]) {
      lane.answered(this.principal, bytes);
    }
    this.#open.unreadBytes += bytes;
    return () => {
      this.#open.unreadBytes -= bytes;
    };
  }

  assertHasRead(): void {
    const { unreadBytes } = this.#open;
    if (unreadBytes > this.#limits.unreadBytes) throw this.#exceeded('unreadBytes', unreadBytes);
  }

  isBehind(): boolean {
    return (
      this.#open.unreadBytes > this.#limits.unreadBytes ||
      this.#bytes.count > this.#limits.responseBytesPerSecond
    );
  }

  mayHold(count: number): Promise<void> | undefined {
    return this.#mayHold(this.principal, this.#limits.heldLeases, count);
  }

  #mayHold(principal: string, max: number, count: number): Promise<void> | undefined {
    const { held } = this.#shared;
    if (held.changeOf(principal) > max * HELD_SHARE_RECOUNT) this.#recount();
    if (held.estimateOf(principal) + count <= max * HELD_SHARE_NEAR) return undefined;
    return this.#assertMayHold(principal, max, count);
  }

  startReserving(): () => void {
    return this.#countInHour('reservationsPerHour', 1);
  }

  startWriting(bytes: number): () => void {
    return this.#countInHour('eventBytesPerHour', bytes);
  }

  noteWritten(bytes: number): void {
    this.#hourly.eventBytesPerHour.add(bytes);
  }

  noteHeld(change: number): void {
    this.#shared.held.note(this.principal, change);
  }

  async #assertMayHold(principal: string, max: number, count: number): Promise<void> {
    const { held } = this.#shared;
    await held.refresh();
    const needed = held.estimateOf(principal) + count;
    if (needed > max) throw this.#exceeded('heldLeases', needed, max);
  }

  #countInHour(limit: Hourly, count: number): () => void {
    const window = this.#hourly[limit];
    if (window.count + count > this.#limits[limit]) throw this.#limited(limit, window.remainingMs);
    return window.add(count);
  }

  #recount(): void {
    this.#shared.held
      .refresh()
      .catch((error: unknown) =>
        this.#shared.log.warn({ err: error }, 'held leases could not be counted; trying again'),
      );
  }

  #take(limit: 'connections' | 'streams' | 'waiters', count = 1): () => void {
    const used = this.#open[limit] + count;
    if (used > this.#limits[limit]) throw this.#exceeded(limit, used);
    this.#open[limit] = used;
    return once(() => {
      this.#open[limit] -= count;
    });
  }

  #limited(limit: FairUseLimit, retryAfterMs: number): Error {
    this.#shared.onRefusal(limit, this.#role);
    return rateLimited(limit, this.#limits[limit], Math.max(1, Math.ceil(retryAfterMs)));
  }

  #exceeded(limit: FairUseLimit, used: number, max: number = this.#limits[limit]): Error {
    this.#shared.onRefusal(limit, this.#role);
    return quotaExceeded(limit, max, used);
  }
}

/**
 * How many leases each principal holds, at all controllers: counted in the database now and then, and
 * in between by what this controller grants and releases. A count in each grant would cost more than
 * the grant; a counter row would make all grants wait for one another.
 */
interface HeldCounts {
  /** Notes that this controller granted (positive) or released (negative) so many. */
  note(principal: string, change: number): void;
  /** The newest count, with what this controller did since it began. */
  estimateOf(principal: string): number;
  /** How much the estimate has grown here since the newest count began. */
  changeOf(principal: string): number;
  /** Counts, or waits for a count under way; one that was just made is good enough. */
  refresh(): Promise<void>;
}

/** What was noted during one count, until the next one began. */
type Changes = Map<string, number>;

function createHeldCounts(store: Pick<Store, 'guests' | 'clock'>): HeldCounts {
  let counted = new Map<string, number>();
  /** One for each count since the newest complete one, the oldest first; changes go into the last. */
  let noted: Changes[] = [new Map<string, number>()];
  const refresh = sharedRead(store.clock, async () => {
    noted.push(new Map<string, number>());
    const since = noted.length - 1;
    try {
      counted = await countHeldLeases(store.guests);
      noted = noted.slice(since);
    } catch (error) {
      noted = [merged(noted)];
      throw error;
    }
  });
  const changeOf = (principal: string): number =>
    noted.reduce((sum, changes) => sum + (changes.get(principal) ?? 0), 0);
  return {
    note(principal, change) {
      const changes = noted.at(-1);
      changes?.set(principal, (changes.get(principal) ?? 0) + change);
    },
    changeOf,
    estimateOf: (principal) => (counted.get(principal) ?? 0) + changeOf(principal),
    refresh,
  };
}

function merged(all: readonly Changes[]): Changes {
  const sum: Changes = new Map();
  for (const changes of all) {
    for (const [principal, change] of changes) {
      sum.set(principal, (sum.get(principal) ?? 0) + change);
    }
  }
  return sum;
}

/** Counts within windows of one length. A window begins with the first count after the last one ended. */
class CountWindow {
  readonly #lengthMs: number;
  readonly #nowMs: () => number;
  #endMs = 0;
  #count = 0;

  /** @param nowMs a monotonic reading in milliseconds. */
  constructor(lengthMs: number, nowMs: () => number) {
    this.#lengthMs = lengthMs;
    this.#nowMs = nowMs;
  }

  /** What was counted in this window. */
  get count(): number {
    return this.#nowMs() < this.#endMs ? this.#count : 0;
  }

  /** How long this window still lasts; 0 when none has begun. */
  get remainingMs(): number {
    return Math.max(0, this.#endMs - this.#nowMs());
  }

  /** @returns a function that takes the count back, from the window that it was counted in. */
  add(count: number): () => void {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#endMs) {
      this.#endMs = nowMs + this.#lengthMs;
      this.#count = 0;
    }
    this.#count += count;
    const countedUntilMs = this.#endMs;
    return () => {
      if (this.#endMs === countedUntilMs) this.#count -= count;
    };
  }
}

/** Everything that keeps one caller from starving the others. */
export type FairUseParts = ReturnType<typeof openFairUse>;

export function openFairUse({
  store,
  config,
  metrics,
  log,
}: {
  readonly store: Pick<Store, 'guests' | 'clock'>;
  readonly config: FairUseConfig;
  readonly metrics: Registry;
  readonly log: Logger;
}) {
  const refusals = countRefusals(metrics);
  // Monotonic, and cheap enough for each call; only fair use goes by it.
  const nowMs = (): number => performance.now();
  const rates = createRates({
    nowMs,
    anonymousPerSecondMax: config.anonymous.callsPerSecond,
    onRefusal: (limit) => refusals.inc({ limit, role: 'none' }),
  });
  const fairUse = createFairUse({
    store,
    nowMs,
    log,
    limits: config.limits,
    onRefusal: (limit, role) => refusals.inc({ limit, role }),
  });
  addFairUseGauges(metrics, {
    greatestUseOf: (limit) => fairUse.greatestUseOf(limit),
    waitingReads: () => fairUse.waitingReads,
  });
  const onOverload = (role: Role): void => refusals.inc({ limit: 'load', role });
  return { rates, fairUse, pacer: createStreamPacer(nowMs), nowMs, onOverload };
}
