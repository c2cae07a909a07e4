/**
 * Leasehold for unit tests: `import { createTestLeasehold } from '@leasehold/client/testing'`. It needs no
 * server, and time is the test's own.
 */
import type { GrantRef, ReleaseOutcome, UpdateOutcome } from '@leasehold/keys-core';
import type {
  AcquireAnswer,
  LeaseRenewResult,
  RevocationNotice,
} from '@leasehold/keys-core/leases';
import { TICK_MS, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { assertInput, passedMs, testClientShape } from '../inputs.ts';
import { Background } from '../lease/calls.ts';
import { createFaces, type Faces } from '../lease/lease-faces.ts';
import {
  type AcquireRequest,
  heldAlone,
  type LeaseWire,
  type ReleaseRequest,
  type UpdateRequest,
} from '../lease/lease-wire.ts';
import type { LeaseScope } from '../lease/lease.ts';
import { type Leasehold, leasesOf, type LeasesOfClient } from '../leasehold-parts.ts';
import type { Machine } from '../machine.ts';
import type { Ending } from '../signals.ts';
import { UnreachableError } from '../transport/errors.ts';
import {
  oneAtATime,
  type TestEvent,
  type TestFace,
  type TestHolding,
  TestRegistry,
} from './registry.ts';

export type { TestEvent, TestHolding } from './registry.ts';

/** A Leasehold without a server, for the unit tests of services. */

/** A lease or an environment. A `Lease` is one too. */
export interface TestScope {
  readonly namespace: readonly string[];
  readonly key: string;
  /** By default `lease`. */
  readonly face?: TestFace | undefined;
}

export interface TestClientOptions {
  /** The holder of its leases; by default `client-1`, `client-2`, … */
  readonly holder?: string | undefined;
}

export interface TestFreeze {
  readonly reason: string;
  /** Milliseconds. */
  readonly forMs: number;
}

export interface TestRevoke {
  /** `graceful`: it is not renewed any more. `force`: it is over at once. By default `force`. */
  readonly mode?: 'graceful' | 'force' | undefined;
  readonly reason?: string | undefined;
}

/**
 * Clients that share leases in memory, by the same rules as those of a controller: fencing tokens grow,
 * waiting callers are served in order, leases are renewed in time and lost at their deadline. The clients
 * are the real ones of this library.
 *
 * Time stands still until {@link advance} or {@link stall} is called. So a call that waits, for a lease that
 * somebody holds or for an answer that does not arrive, must not be awaited before time has passed.
 *
 * A lease has one holder, and there is one datacenter: other modes are refused, and a `datacenter` is
 * an error.
 *
 * There is no controller: `acquireAll`, `api`, `keys`, `backends`, `gateway` and `reservations` of a client throw an error. Replace them
 * in your test, or use a real Leasehold.
 */
export interface TestLeasehold extends AsyncDisposable {
  /** A client, as `createLeasehold` makes it. Each stands for a process. */
  client(options?: TestClientOptions): Leasehold;
  /** Lets time pass, in steps of 50 ms. What falls due runs on the way: renewals, timeouts, losses. */
  advance(ms: number): Promise<void>;
  /**
   * Time passes and nothing runs, as when a process is suspended or its event loop is blocked. Leases may be
   * over before any of your code learns of it. Call {@link advance} next, even with 50, to let it go on.
   */
  stall(ms: number): void;
  /** From now on nothing that the client sends arrives, and it receives nothing. */
  cutOff(client: Leasehold): void;
  /** Ends {@link cutOff}. */
  heal(client: Leasehold): void;
  /** Revokes a lease as an operator does. @throws {Error} if nobody holds it. */
  revoke(scope: TestScope, how?: TestRevoke): Promise<void>;
  /** Refuses renewals from now on, without telling the holder. @throws {Error} if nobody holds it. */
  blockRenewal(scope: TestScope): void;
  /** Ends {@link blockRenewal}. @throws {Error} if nobody holds it. */
  allowRenewal(scope: TestScope): void;
  /**
   * Freezes an environment as an operator does, for so long; 0 ends it. Who has begun goes on. A caller with an
   * `override` is let in: the roles of callers are not checked.
   */
  freeze(environment: TestScope, how: TestFreeze): void;
  /** Who holds it now; undefined when it is free. */
  holdingOf(scope: TestScope): TestHolding | undefined;
  /** The holders that wait in line, the next one first. */
  waitersOf(scope: TestScope): string[];
  /** What has happened to it, in order. */
  historyOf(scope: TestScope): TestEvent[];
  /** Closes all clients. */
  close(): Promise<void>;
}

/** The time that one answer takes at most, in addition to the time in line; as with a real controller. */
const ANSWER_MS = 10_000;
/** A controller repeats the notices of this time to a session that begins. */
const NOTICES_REPEATED_MS = 60_000;
/** The clock at the start. Not 0, so that a time in the past is not negative. */
const START_MS = 1_000_000;

interface Client {
  readonly leasehold: Leasehold;
  readonly link: TestLink;
  readonly faces: Faces;
  /** The notices that were sent while its link was cut, the oldest first. */
  readonly missed: { readonly notice: RevocationNotice; readonly atMs: number }[];
}

export function createTestLeasehold(): TestLeasehold {
  const clock = new ManualClock(START_MS);
  const clients = new Map<Leasehold, Client>();
  const tell = (notice: RevocationNotice): void => {
    for (const { link, faces, missed } of clients.values()) {
      if (link.isCut()) missed.push({ notice, atMs: clock.nowMs() });
      else faces.revoked(notice);
    }
  };
  const registry = new TestRegistry(clock, tell);
  let idsCount = 0;
  const machine: Machine = {
    clock,
    uuid: () => `test-${String((idsCount += 1))}`,
    random: () => 0.5,
  };

  const clientOf = (leasehold: Leasehold): Client => {
    const client = clients.get(leasehold);
    if (client === undefined) throw new Error('The client is of another test Leasehold.');
    return client;
  };

  const close = async (): Promise<void> => {
    for (const leasehold of [...clients.keys()]) await leasehold.close();
  };

  return {
    client(options = {}) {
      assertInput(testClientShape, options, '');
      const { holder = `client-${String(clients.size + 1)}` } = options;
      const client = createClient({ machine, registry, clock, holder });
      clients.set(client.leasehold, client);
      return client.leasehold;
    },
    advance(ms) {
      assertInput(passedMs, ms, 'ms');
      return clock.advance(ms);
    },
    stall(ms) {
      assertInput(passedMs, ms, 'ms');
      clock.jump(ms);
    },
    cutOff: (leasehold) => clientOf(leasehold).link.cut(),
    heal(leasehold) {
      const { link, faces, missed } = clientOf(leasehold);
      link.heal();
      registry.tellObservers();
      const sinceMs = clock.nowMs() - NOTICES_REPEATED_MS;
      for (const { notice, atMs } of missed.splice(0)) {
        if (atMs >= sinceMs) faces.revoked(notice);
      }
      faces.recheck();
    },
    async revoke(scope, { mode = 'force', reason } = {}) {
      tell(registry.revoke(scopeOf(scope), mode, reason ?? null));
      await settled();
    },
    blockRenewal: (scope) => registry.setRenewable(scopeOf(scope), false),
    allowRenewal: (scope) => registry.setRenewable(scopeOf(scope), true),
    freeze(scope, { reason, forMs }) {
      assertInput(passedMs, forMs, 'forMs');
      registry.freeze({ ...scopeOf(scope), face: 'environment' }, reason, forMs);
    },
    holdingOf: (scope) => registry.holdingOf(scopeOf(scope)),
    waitersOf: (scope) => registry.waitersOf(scopeOf(scope)),
    historyOf: (scope) => registry.historyOf(scopeOf(scope)),
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface ClientDeps {
  readonly machine: Machine;
  readonly registry: TestRegistry;
  readonly clock: ManualClock;
  readonly holder: string;
}

function createClient({ machine, registry, clock, holder }: ClientDeps): Client {
  const link = new TestLink(clock);
  const background = new Background();
  const wires = {
    leases: new TestWire('lease', { registry, link, clock }),
    environments: new TestWire('environment', { registry, link, clock }),
  };
  const faces = createFaces({
    machine,
    wires,
    background,
    url: 'test',
    answerMs: ANSWER_MS,
    beforeAcquire: () => undefined,
    // Time stands still: calls without an answer would never end.
    patience: settled,
  });
  const leases = leasesOf({
    machine,
    holder,
    faces,
    onDefine: () => undefined,
    whenDeclared: (_definitions, intent, ask) => ask(intent),
    observed: (scope, { onState }) =>
      registry.observe(scope, (state) => {
        if (!link.isCut()) onState(state);
      }),
    closing: background.closing,
    close: () => faces.close(),
  });
  const leasehold = withoutController(leases);
  return { leasehold, link, faces, missed: [] };
}

function scopeOf({ face = 'lease', namespace, key }: TestScope): LeaseScope {
  return { face, namespace, key };
}

// What is between one client of a test and the leases: it may be cut.

/** Whether what a client sends arrives. */
class TestLink {
  readonly #clock: ManualClock;
  #cutAtMs = Infinity;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  isCut(): boolean {
    return this.#cutAtMs < Infinity;
  }

  cut(): void {
    this.#cutAtMs = Math.min(this.#cutAtMs, this.#clock.nowMs());
  }

  heal(): void {
    this.#cutAtMs = Infinity;
  }

  wasOpenSince(momentMs: number): boolean {
    return this.#cutAtMs > momentMs;
  }

  /** Over a link that is cut nothing arrives and nothing is answered. */
  async send<T>({ signal }: Ending, carryOut: () => T | Promise<T>): Promise<T> {
    if (!this.isCut()) {
      const answer = await carryOut();
      if (!this.isCut()) return answer;
    }
    return new Promise((_resolve, reject) => {
      if (signal.aborted) reject(signal.reason as Error);
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  }
}

interface WireDeps {
  readonly registry: TestRegistry;
  readonly link: TestLink;
  readonly clock: ManualClock;
}

/** A lease of a datacenter that is named is another one than that of the caller's own, unless both are the same. */
function datacenterError(): Error {
  return new Error(
    '`datacenter` needs a controller, and a test Leasehold has none: leave it out in your test, or use a real one.',
  );
}

class TestWire implements LeaseWire {
  readonly #face: TestFace;
  readonly #deps: WireDeps;

  constructor(face: TestFace, deps: WireDeps) {
    this.#face = face;
    this.#deps = deps;
  }

  acquire(
    request: AcquireRequest,
    waitMs: number,
    ending: Ending,
    callMs?: number,
  ): Promise<AcquireAnswer> {
    if (request.datacenter !== undefined) return Promise.reject(datacenterError());
    const { registry, link, clock } = this.#deps;
    const localTimeMs = clock.nowMs();
    const isThere = (): boolean => link.wasOpenSince(localTimeMs);
    const face = this.#face;
    return link.send(ending, () =>
      registry.acquire({ face, request, localTimeMs, isThere, callMs, waitMs: Math.ceil(waitMs) }),
    );
  }

  giveUp({ idempotencyKey }: AcquireRequest, ending: Ending): Promise<void> {
    return this.#deps.link.send(ending, () => this.#deps.registry.giveUp(idempotencyKey));
  }

  heartbeat(renewals: readonly GrantRef[], ending: Ending): Promise<LeaseRenewResult[]> {
    const { registry, link, clock } = this.#deps;
    const localTimeMs = clock.nowMs();
    return link.send(ending, () =>
      renewals.map((ref) => registry.renewal(this.#face, ref, localTimeMs)),
    );
  }

  release(request: ReleaseRequest, ending: Ending): Promise<ReleaseOutcome> {
    const { registry, link } = this.#deps;
    return link.send(ending, () => registry.release(this.#face, request, request.result));
  }

  update({ metadata, ...ref }: UpdateRequest, ending: Ending): Promise<UpdateOutcome> {
    return this.#deps.link.send(ending, () =>
      this.#deps.registry.update(this.#face, ref, metadata),
    );
  }

  downgrade(): Promise<UpdateOutcome> {
    return Promise.reject(this.#face === 'environment' ? heldAlone() : oneAtATime());
  }

  unreachableSince(momentMs: number): UnreachableError | undefined {
    return this.#deps.link.wasOpenSince(momentMs) ? undefined : new UnreachableError();
  }
}

/** A clock that a test moves, with real tick intervals, and no ticks while the machine is asleep. */
export class ManualClock implements TickingClock {
  readonly #listeners = new Set<(nowMs: number) => void>();
  #nowMs: number;

  constructor(nowMs = 1_000_000) {
    this.#nowMs = nowMs;
  }

  /** How many timers wait for it: 0 means that none is left. */
  get waitingCount(): number {
    return this.#listeners.size;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  at(atMs: number, fn: () => void): () => void {
    const cancel = this.onTick((nowMs) => {
      if (nowMs < atMs) return;
      cancel();
      fn();
    });
    return cancel;
  }

  onTick(fn: (nowMs: number) => void): () => void {
    const listener = (nowMs: number): void => {
      fn(nowMs);
    };
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Lets time pass, with a tick every {@link TICK_MS} and room for promises after each. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    while (this.#nowMs < endMs) {
      this.#nowMs = Math.min(this.#nowMs + TICK_MS, endMs);
      this.#tick();
      await settled();
    }
  }

  /** Time passes while nothing runs: a stall, or a suspend. No tick comes until {@link advance}. */
  jump(ms: number): void {
    this.#nowMs += ms;
  }

  #tick(): void {
    for (const listener of [...this.#listeners]) {
      if (this.#listeners.has(listener)) listener(this.#nowMs);
    }
  }
}

/** Lets every promise that can settle do so. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** What a client has besides, which needs a controller. */
const NOT_HERE = ['acquireAll', 'api', 'keys', 'reservations', 'backends', 'gateway'] as const;

/** A client each of whose other parts throws when it is used, and not when the client is printed or copied. */
function withoutController(leases: LeasesOfClient): Leasehold {
  const parts = NOT_HERE.map((name) => {
    const get = (): never => {
      throw new Error(
        `\`${name}\` needs a controller, and a test Leasehold has none: replace it in your test, or use a real one.`,
      );
    };
    return [name, { get, configurable: true, enumerable: false }] as const;
  });
  return Object.defineProperties(leases, Object.fromEntries(parts)) as Leasehold;
}
