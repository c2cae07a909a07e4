/** Callers that are granted leases all the time, and remember what was acknowledged to them. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { leaseholdErrorOf, type ControllerApi } from '@leasehold/client';
import type { Grant } from '../../leases/stage/words.ts';
import { machineMs } from '../../stage/machine-time.ts';

/** The namespace of what they hold. */
export const LOAD = 'load';

const LANES_COUNT = 6;
/** What a lane takes again and again lasts no longer, when nobody knows whether it was granted. */
const SHORT_TTL_MS = 1_000;
const AFTER_FAILURE_MS = 50;

/** A word of the database about a grant that a caller has received. */
export interface Acknowledged extends Grant {
  /** When the caller asked for it: from then on it counts how long it may act on the grant. */
  readonly askedAtMs: number;
  /** When the caller received it. */
  readonly atMs: number;
}

export class Load {
  readonly granted: Acknowledged[] = [];
  readonly released: Acknowledged[] = [];
  readonly renewed: Acknowledged[] = [];
  /** When a caller was told that grants are held off. */
  readonly heldOffAtMs: number[] = [];
  /** Until when the caller may act on each lease, by its id. */
  readonly #claims = new Map<string, number>();
  readonly #apis: readonly ControllerApi[];
  readonly #keptTtlMs: number;
  readonly #lanes: Promise<unknown>;
  #isOver = false;

  /** `keptTtlMs` is how long the leases are that nobody releases. */
  constructor(apis: readonly ControllerApi[], keptTtlMs: number) {
    this.#apis = apis;
    this.#keptTtlMs = keptTtlMs;
    this.#lanes = Promise.all(Array.from({ length: LANES_COUNT }, (_, lane) => this.#run(lane)));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#lanes;
  }

  /** Until when the caller may act on a lease, as it knows from the newest answer. */
  claimedUntilMs({ leaseId }: Acknowledged): number {
    return this.#claims.get(leaseId) ?? Infinity;
  }

  /** In turn: a fresh lease that is kept, and one that is released and taken again. */
  async #run(lane: number): Promise<void> {
    for (let round = 0; !this.#isOver; round += 1) {
      const api = this.#apis[(lane + round) % this.#apis.length] as ControllerApi;
      const isKept = round % 2 === 0;
      const key = isKept ? randomUUID() : `lane-${String(lane)}`;
      try {
        await this.#hold(api, { key, isKept });
      } catch (error) {
        const failure = leaseholdErrorOf(error);
        if (failure?.code === 'grant.hold_off') this.heldOffAtMs.push(machineMs());
        await pause(AFTER_FAILURE_MS);
      }
    }
  }

  async #hold(api: ControllerApi, of: { key: string; isKept: boolean }): Promise<void> {
    const { key, isKept } = of;
    const askedAtMs = machineMs();
    const answer = await api.leases.acquire.mutate({
      namespace: [LOAD],
      key,
      holder: randomUUID(),
      localTimeMs: askedAtMs,
      ttlMs: this.#ttlMs(isKept),
    });
    if (answer.outcome !== 'granted') {
      await pause(AFTER_FAILURE_MS);
      return;
    }
    const { leaseId, fencingToken } = answer.lease;
    const grant = { key, leaseId, token: fencingToken };
    this.granted.push({ ...grant, askedAtMs, atMs: machineMs() });
    this.#claims.set(leaseId, askedAtMs + this.#ttlMs(isKept));
    const renewedAtMs = machineMs();
    const { results } = await api.leases.heartbeat.mutate({
      localTimeMs: renewedAtMs,
      renewals: [{ leaseId, fencingToken }],
    });
    if (results[0]?.outcome === 'renewed') {
      this.renewed.push({ ...grant, askedAtMs: renewedAtMs, atMs: machineMs() });
      this.#claims.set(leaseId, renewedAtMs + this.#ttlMs(isKept));
    }
    if (isKept) return;
    const releasedAtMs = machineMs();
    const { outcome } = await api.leases.release.mutate({ leaseId, fencingToken });
    if (outcome === 'released') {
      this.released.push({ ...grant, askedAtMs: releasedAtMs, atMs: machineMs() });
      this.#claims.set(leaseId, releasedAtMs);
    }
  }

  #ttlMs(isKept: boolean): number {
    return isKept ? this.#keptTtlMs : SHORT_TTL_MS;
  }
}
