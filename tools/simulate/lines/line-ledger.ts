import type { World } from '../engine/world.ts';
import type { LineAsk, ModelPart } from '../../../libs/keys-core/src/testing/model/line-model.ts';
import { resourceKey, type Resource } from '../../../libs/keys-core/src/kernel/resource.ts';

/** A request, from its first message on. */
export interface LineRequest {
  readonly id: string;
  readonly ask: LineAsk;
  readonly supersede: 'waiting' | 'running' | undefined;
}

/** A lease that was granted, as the database has answered it. */
export interface GivenLease {
  readonly part: ModelPart;
  readonly token: bigint;
  readonly expiresAt: number;
}

interface Entry {
  readonly key: string;
  readonly namespace: string;
  readonly mode: () => ModelPart['mode'];
  readonly holder: string;
  readonly leaseId: string;
  readonly action: string;
  expiresAt: number;
  isOver: boolean;
  isSuperseded: boolean;
  isShared: boolean;
  /** Says whether its holder still acts. */
  acts: () => boolean;
}

interface Waiter {
  readonly request: LineRequest;
  readonly number: number;
  liveUntil: number;
}

const PLACE_MS = 500;
const ENVIRONMENT_PLACE_MS = 30_000;

/**
 * The judge: every change in the order of the commits, and what must hold of it. It believes nothing that the
 * database says of itself, and has the rules in another form: not who may be granted, but what must not be.
 */
export class LineLedger {
  readonly #world: World;
  readonly #entries: Entry[] = [];
  readonly #largest = new Map<string, bigint>();
  readonly #waiters = new Map<string, Waiter>();
  readonly #superseded = new Set<string>();
  readonly #permits = new Map<string, { readonly perKey: number; readonly total: number | null }>();
  readonly #freezes: { readonly key: string; readonly untilMs: number }[] = [];

  constructor(world: World) {
    this.#world = world;
  }

  declared(namespace: string, permits: { perKey: number; total: number | null }): void {
    this.#permits.set(namespace, permits);
  }

  frozen(key: string, untilMs: number): void {
    this.#freezes.push({ key, untilMs });
  }

  /** It waits, or has asked again. What it supersedes is over when it comes for the first time. */
  asked(request: LineRequest, nowMs: number): void {
    const isEnvironment = isOfEnvironment(request.ask);
    const liveUntil = nowMs + (isEnvironment ? ENVIRONMENT_PLACE_MS : PLACE_MS);
    const known = this.#waiters.get(request.id);
    if (known !== undefined) {
      known.liveUntil = liveUntil;
      return;
    }
    const number = this.#waiters.size;
    this.#waiters.set(request.id, { request, number, liveUntil });
    if (request.supersede !== undefined) this.#supersedes(request, number, nowMs);
  }

  #supersedes({ ask, supersede }: LineRequest, number: number, nowMs: number): void {
    const key = keyOf(ask.parts[0]);
    for (const { request, number: other } of this.#waiters.values()) {
      const isOlder = other < number && keyOf(request.ask.parts[0]) === key;
      if (!isOlder || request.ask.action !== ask.action) continue;
      if (request.ask.priority <= ask.priority) this.#superseded.add(request.id);
    }
    if (supersede !== 'running') return;
    for (const entry of this.#inForce(nowMs)) {
      if (entry.key === key && entry.action === ask.action) entry.isSuperseded = true;
    }
  }

  /** `acts` of each lease, in the order of the leases. */
  granted(
    request: LineRequest,
    leases: readonly GivenLease[],
    { nowMs, acts }: { readonly nowMs: number; readonly acts: () => boolean },
  ): void {
    const { ask, id } = request;
    const world = this.#world;
    world.grantCount += leases.length;
    world.trace(
      () => `${ask.holder} is granted ${leases.map(({ part }) => keyOf(part)).join(', ')}`,
    );
    if (leases.length !== ask.parts.length) {
      world.fail(
        'all or none',
        `${ask.holder} has ${String(leases.length)} of ${String(ask.parts.length)}`,
      );
    }
    if (this.#superseded.has(id)) world.fail('superseded', `${ask.holder} is granted what it lost`);
    if (this.#isFrozen(ask, nowMs)) world.fail('frozen', `${ask.holder} is granted it`);
    this.#judgeOrder(request, nowMs);
    for (const { part, token } of leases) this.#judgeLease(ask, part, { token, nowMs });
    for (const { part, expiresAt } of leases) {
      const entry: Entry = {
        ...{ key: keyOf(part), namespace: part.resource.namespace, holder: ask.holder, acts },
        ...{ leaseId: part.leaseId, action: ask.action, expiresAt },
        ...{ isOver: false, isSuperseded: false, isShared: part.mode === 'shared' },
        mode: () => (entry.isShared ? 'shared' : part.mode),
      };
      this.#entries.push(entry);
    }
    this.#waiters.delete(id);
    this.#waiters.set(`granted ${id}`, { request, number: -1, liveUntil: 0 });
  }

  #judgeLease(
    { holder }: LineAsk,
    part: ModelPart,
    { token, nowMs }: { readonly token: bigint; readonly nowMs: number },
  ): void {
    const key = keyOf(part);
    const before = this.#largest.get(key) ?? 0n;
    if (token <= before) this.#world.fail('I2 tokens grow', `${key}: ${String(token)}`);
    this.#largest.set(key, token);
    const inForce = this.#inForce(nowMs);
    const acting = this.#entries.filter((entry) => entry.acts());
    for (const [others, promise] of [
      [inForce, 'in force'],
      [acting, 'at work'],
    ] as const) {
      const ofKey = others.filter((entry) => entry.key === key);
      if (part.mode === 'permit') {
        const { perKey, total } = this.#permits.get(part.resource.namespace) ?? {
          perKey: 0,
          total: 0,
        };
        const ofAll = others.filter(({ namespace }) => namespace === part.resource.namespace);
        const isTooMany = ofKey.length >= perKey || (total !== null && ofAll.length >= total);
        if (isTooMany) this.#world.fail('permits', `${key}: one too many is ${promise}`);
      } else if (ofKey.some((entry) => part.mode === 'alone' || entry.mode() === 'alone')) {
        this.#world.fail('alone', `${key}: ${holder} beside another one ${promise}`);
      }
    }
  }

  /** Nobody passes one who came before for the same lease and could have had it. */
  #judgeOrder({ id, ask }: LineRequest, nowMs: number): void {
    const own = this.#waiters.get(id);
    for (const other of this.#waiters.values()) {
      const { request } = other;
      if (request.id === id || (own !== undefined && !isBefore(other, own))) continue;
      const passed = ask.parts.find((part) => isPassed(part, request.ask));
      if (passed === undefined || !this.#mayBeGranted(other, nowMs)) continue;
      this.#world.fail('order', `${ask.holder} before ${request.ask.holder} for ${keyOf(passed)}`);
    }
  }

  #mayBeGranted({ request, liveUntil }: Waiter, nowMs: number): boolean {
    return (
      nowMs < liveUntil && !this.#superseded.has(request.id) && !this.#isFrozen(request.ask, nowMs)
    );
  }

  #isFrozen({ parts }: LineAsk, nowMs: number): boolean {
    return this.#freezes.some(
      ({ key, untilMs }) => nowMs < untilMs && parts.some((part) => keyOf(part) === key),
    );
  }

  left(id: string): void {
    this.#waiters.delete(id);
  }

  renewed(leaseId: string, expiresAt: number, nowMs: number): void {
    const entry = this.#entries.find((one) => one.leaseId === leaseId);
    if (entry === undefined) return;
    if (entry.isOver || nowMs >= entry.expiresAt) {
      this.#world.fail('I6 renewal never revives', `${entry.key} of ${entry.holder}`);
    }
    if (entry.isSuperseded) {
      this.#world.fail('superseded', `${entry.holder} goes on in ${entry.key}`);
    }
    entry.expiresAt = expiresAt;
  }

  ended(leaseId: string): void {
    for (const entry of this.#entries) if (entry.leaseId === leaseId) entry.isOver = true;
  }

  shared(leaseId: string): void {
    for (const entry of this.#entries) if (entry.leaseId === leaseId) entry.isShared = true;
  }

  #inForce(nowMs: number): Entry[] {
    return this.#entries.filter(({ isOver, expiresAt }) => !isOver && nowMs < expiresAt);
  }
}

/** Whether one that wants this comes in the way of a request that wants some of the same. Those who share it do not. */
function isPassed(part: ModelPart, { parts }: LineAsk): boolean {
  const wanted = parts.find((one) => keyOf(one) === keyOf(part));
  return wanted !== undefined && (part.mode !== 'shared' || wanted.mode !== 'shared');
}

function keyOf(part: { readonly resource: Resource } | undefined): string {
  return part === undefined ? '' : resourceKey(part.resource);
}

function isOfEnvironment({ parts }: LineAsk): boolean {
  return parts[0]?.resource.face === 'environment';
}

function isBefore(one: Waiter, other: Waiter): boolean {
  const [a, b] = [one.request.ask, other.request.ask];
  if (a.priority !== b.priority) return a.priority > b.priority;
  if (a.isNewestFirst !== b.isNewestFirst) return a.isNewestFirst;
  return a.isNewestFirst ? one.number > other.number : one.number < other.number;
}
