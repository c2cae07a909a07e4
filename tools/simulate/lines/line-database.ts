/** A database of lines in a simulated world: the oracle that a test keeps equal to PostgreSQL (`lines.model.pg.test.ts`). */
import {
  LineModel,
  type LineAsk,
  type ModelHold,
  type ModelPart,
  type ModelTicket,
} from '../../../libs/keys-core/src/testing/model/line-model.ts';
import { resourceKey, type Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import type { Machine } from '../engine/process.ts';
import type { World } from '../engine/world.ts';
import { type GivenLease, LineLedger, type LineRequest } from './line-ledger.ts';

export type LineAnswer =
  | { readonly outcome: 'granted'; readonly leases: readonly GivenLease[]; readonly asOf: number }
  | { readonly outcome: 'waiting' | 'superseded' };

interface Known {
  readonly ticket: ModelTicket;
  answer: LineAnswer | undefined;
}

export class LineDatabase {
  readonly ledger: LineLedger;
  readonly #world: World;
  readonly #machine: Machine;
  readonly #model: LineModel;
  readonly #known = new Map<string, Known>();
  readonly #holds = new Map<string, ModelHold>();

  constructor(world: World, machine: Machine) {
    this.#world = world;
    this.#machine = machine;
    this.#model = new LineModel(Math.floor(machine.wallMs()));
    this.ledger = new LineLedger(world);
  }

  now(): number {
    this.#model.nowMs = Math.floor(this.#machine.wallMs());
    return this.#model.nowMs;
  }

  declare(namespace: string, permits: { perKey: number; total: number | null }): void {
    this.#model.permits.set(namespace, permits);
    this.ledger.declared(namespace, permits);
  }

  freeze(resource: Resource, ms: number): void {
    const freeze = { key: resourceKey(resource), action: undefined, untilMs: this.now() + ms };
    this.#model.freezes.push(freeze);
    this.ledger.frozen(freeze.key, freeze.untilMs);
  }

  /** Joins the line, or takes its place there again, and asks for its turn. The same request may come often. */
  ask(request: LineRequest, acts: () => boolean): LineAnswer {
    const nowMs = this.now();
    const known = this.#known.get(request.id) ?? this.#join(request);
    if (known.answer !== undefined) return known.answer;
    const { ticket } = known;
    if (!this.#model.rejoin(ticket)) return { outcome: 'superseded' };
    this.ledger.asked(request, nowMs);
    const wanted = this.#decide(request.ask, ticket);
    if (wanted === undefined) return { outcome: 'waiting' };
    const leases = this.#take(wanted, ticket);
    known.answer = { outcome: 'granted', leases, asOf: nowMs };
    this.ledger.granted(request, leases, { nowMs, acts });
    return known.answer;
  }

  #join(request: LineRequest): Known {
    const known: Known = { ticket: this.#model.join(request.ask), answer: undefined };
    this.#known.set(request.id, known);
    if (request.supersede !== undefined) {
      const isIgnored = this.#world.has('superseded-still-runs');
      this.#model.supersede(known.ticket, isIgnored ? 'waiting' : request.supersede);
    }
    return known;
  }

  /** What of the request is granted now; undefined if nothing is. */
  #decide(ask: LineAsk, ticket: ModelTicket): LineAsk | undefined {
    if (this.#model.decide(ask, ticket) === 'granted') return ask;
    const [part] = ask.parts;
    const plant = this.#world.has('half-of-all')
      ? this.#half(ask, ticket)
      : part !== undefined && this.#isWronglyFree(ask, part, ticket) && ask;
    return plant === false ? undefined : plant;
  }

  #half(ask: LineAsk, ticket: ModelTicket): LineAsk | undefined {
    const parts = ask.parts.filter(
      (one) => this.#model.decide({ ...ask, parts: [one] }, ticket) === 'granted',
    );
    return parts.length > 0 ? { ...ask, parts } : undefined;
  }

  #isWronglyFree(ask: LineAsk, { resource, mode }: ModelPart, ticket: ModelTicket): boolean {
    const model = this.#model;
    if (this.#world.has('reader-beside-writer') && mode === 'shared') {
      const holders = model.holdersOf(resource);
      return holders.length === 1 && holders[0]?.mode === 'alone';
    }
    if (this.#world.has('one-permit-too-many') && mode === 'permit') {
      const permits = model.permits.get(resource.namespace) ?? { perKey: 0, total: null };
      model.permits.set(resource.namespace, { ...permits, perKey: permits.perKey + 1 });
      const isFree = model.decide(ask, ticket) === 'granted';
      model.permits.set(resource.namespace, permits);
      return isFree;
    }
    if (!this.#world.has('frozen-yet-granted')) return false;
    const { freezes } = model;
    model.freezes = [];
    const isFree = model.decide(ask, ticket) === 'granted';
    model.freezes = freezes;
    return isFree;
  }

  #take(ask: LineAsk, ticket: ModelTicket): GivenLease[] {
    const tokens = ask.parts.map(({ resource }) => {
      const next = (this.#model.largest.get(resourceKey(resource)) ?? 0n) + 1n;
      return next > BigInt(this.#model.nowMs) ? next : BigInt(this.#model.nowMs);
    });
    const holds = this.#model.take(ask, tokens, ticket);
    for (const hold of holds) this.#holds.set(hold.leaseId, hold);
    return ask.parts.map((part, place) => ({
      part,
      token: tokens[place] ?? 0n,
      expiresAt: holds[place]?.expiresAt ?? 0,
    }));
  }

  /** @returns what is left of it; undefined if it is not renewed. */
  renew(leaseId: string): number | undefined {
    const nowMs = this.now();
    const hold = this.#holds.get(leaseId);
    if (hold === undefined || !this.#model.renew(hold)) return undefined;
    this.ledger.renewed(leaseId, hold.expiresAt, nowMs);
    return hold.expiresAt - nowMs;
  }

  release(leaseId: string): void {
    this.now();
    const hold = this.#holds.get(leaseId);
    if (hold !== undefined && this.#model.end(hold)) this.ledger.ended(leaseId);
  }

  downgrade(leaseId: string): void {
    this.now();
    const hold = this.#holds.get(leaseId);
    if (hold !== undefined && this.#model.downgrade(hold)) this.ledger.shared(leaseId);
  }

  leave(id: string): void {
    const known = this.#known.get(id);
    if (known === undefined || known.answer !== undefined) return;
    this.#model.leave(known.ticket);
    this.ledger.left(id);
  }
}
