/** What is between one client of a test and the leases: it may be cut. */
import type { GrantRef, ReleaseOutcome } from '@leasehold/keys-core';
import type { AcquireAnswer, LeaseRenewResult } from '@leasehold/keys-core/leases';
import type { AcquireRequest, LeaseWire, ReleaseRequest } from '../lease/wire/lease-wire.ts';
import type { Ending } from '../signals.ts';
import { UnreachableError } from '../transport/call-errors.ts';
import type { ManualClock } from './manual-clock.ts';
import type { TestFace, TestRegistry } from './registry.ts';

/** Whether what a client sends arrives. */
export class TestLink {
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

export class TestWire implements LeaseWire {
  readonly #face: TestFace;
  readonly #deps: WireDeps;

  constructor(face: TestFace, deps: WireDeps) {
    this.#face = face;
    this.#deps = deps;
  }

  acquire(request: AcquireRequest, waitMs: number, ending: Ending): Promise<AcquireAnswer> {
    const { registry, link, clock } = this.#deps;
    const localTimeMs = clock.nowMs();
    const isThere = (): boolean => link.wasOpenSince(localTimeMs);
    const face = this.#face;
    return link.send(ending, () =>
      registry.acquire({ face, request, localTimeMs, isThere, waitMs: Math.ceil(waitMs) }),
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

  unreachableSince(momentMs: number): UnreachableError | undefined {
    return this.#deps.link.wasOpenSince(momentMs) ? undefined : new UnreachableError();
  }
}
