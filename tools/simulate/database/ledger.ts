import type { World } from '../engine/world.ts';

/** A grant as the database has answered it. Instants are of the database's clock. */
export interface LedgerGrant {
  readonly key: string;
  readonly leaseId: string;
  readonly holder: string;
  readonly token: bigint;
  expiresAt: number;
  isOver: boolean;
}

/** Says what its holder still does, if it does anything. */
export type StillActs = () => string | undefined;

/**
 * Every change of a grant, in the order of the commits, and what must hold of it. It believes nothing that
 * the database says of itself: a planted defect of the database is found here.
 */
export class Ledger {
  readonly #world: World;
  readonly #grants = new Map<string, LedgerGrant>();
  readonly #newest = new Map<string, LedgerGrant>();
  readonly #holders = new Map<string, { readonly leaseId: string; readonly acts: StillActs }[]>();

  constructor(world: World) {
    this.#world = world;
  }

  /** From now on nobody else may be granted the key while `acts` finds something. */
  watch({ key, leaseId }: { key: string; leaseId: string }, acts: StillActs): void {
    const watched = this.#holders.get(key) ?? [];
    watched.push({ leaseId, acts });
    this.#holders.set(key, watched);
  }

  /** The holders of a key that still act, except the one of a grant. */
  acting(key: string, exceptId?: string): string[] {
    const watched = this.#holders.get(key) ?? [];
    return watched.flatMap(({ leaseId, acts }) => (leaseId === exceptId ? [] : (acts() ?? [])));
  }

  granted(grant: Omit<LedgerGrant, 'isOver'>, nowMs: number): void {
    const { key, leaseId, holder, token, expiresAt } = grant;
    const world = this.#world;
    world.trace(
      () =>
        `${key} is granted to ${holder} (${leaseId.slice(0, 8)}) for ${String(expiresAt - nowMs)} ms`,
    );
    world.grantCount += 1;
    const before = this.#newest.get(key);
    if (before !== undefined && token <= before.token) {
      world.fail('I2 tokens grow', `${key}: ${String(token)} after ${String(before.token)}`);
    }
    if (before !== undefined && !before.isOver && nowMs < before.expiresAt) {
      world.fail('I1 one grant at a time', `${key}: ${before.holder} had it`);
    }
    for (const what of this.acting(key, leaseId)) {
      world.fail('I5 no early steal', `${key} is granted to ${holder} while ${what}`);
    }
    if (this.#grants.has(leaseId)) {
      world.fail('I7 a request is granted once', `${key}: ${leaseId} again`);
    }
    const entry = { ...grant, isOver: false };
    this.#newest.set(key, entry);
    this.#grants.set(leaseId, entry);
  }

  renewed(leaseId: string, expiresAt: number, nowMs: number): void {
    const grant = this.#grants.get(leaseId);
    const world = this.#world;
    if (grant === undefined) {
      world.fail('I6 renewal needs a grant', leaseId);
      return;
    }
    const { key, holder } = grant;
    world.trace(() => `${holder} has renewed ${key}`);
    if (this.#newest.get(key) !== grant) {
      world.fail('I6 renewal needs the newest grant', `${holder} renews ${key}`);
    }
    if (grant.isOver || nowMs >= grant.expiresAt) {
      const lateMs = nowMs - grant.expiresAt;
      world.fail('I6 renewal never revives', `${key} of ${holder}, ${String(lateMs)} ms late`);
    }
    grant.expiresAt = expiresAt;
  }

  /** The database has found that it is over, and has recorded that: a clock that goes back changes nothing. */
  lapsed(leaseId: string, nowMs: number): void {
    const grant = this.#grants.get(leaseId);
    if (grant === undefined || grant.isOver) return;
    if (nowMs < grant.expiresAt) this.#world.fail('C18 the instant of expiry', grant.key);
    this.ended(leaseId, 'expired');
  }

  ended(leaseId: string, how: string): void {
    const grant = this.#grants.get(leaseId);
    if (grant === undefined) return;
    this.#world.trace(() => `${grant.key} of ${grant.holder} is ${how}`);
    grant.isOver = true;
  }
}
