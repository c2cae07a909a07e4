import { writeAudit } from '../access/index.ts';
import type { Actor } from '../kernel/access.ts';
import { LeaseError } from '../kernel/errors.ts';
import { LIMITS } from '../kernel/limits.ts';
import { datacenterOf, reservationIdOf, type ReservationKey } from '../kernel/reservation.ts';
import type { Store } from '../postgres/open-store.ts';
import { laterToken } from '../postgres/witness/witness-stamp.ts';
import type { EtcdGivenUp, ReadGivenUp } from './etcd/etcd-given-up.ts';
import {
  type GivenUp,
  givenUpError,
  type GivenUpView,
  type GiveUpInput,
  type GiveUpService,
  type Opened,
} from './given-up.ts';
import { pointerFrom, type ProveDeps } from './publish.ts';
import type { Home, PeerProbes } from './reservation-types.ts';
import type { Resolver } from './resolver.ts';
import { readClockMs } from './sql/membership.ts';
import type { KnownGivenUp } from './standing.ts';

interface GiveUpDeps {
  readonly store: Pick<Store, 'datacenter' | 'general'>;
  readonly shared: EtcdGivenUp;
  readonly known: Pick<KnownGivenUp, 'list' | 'refresh'>;
  readonly peers: PeerProbes;
}

/** A clock of etcd that runs fast ends the wait too early by no more than this part of it. */
const WAIT_RATE = 1.05;
/** For the step from one process to the next: an answer under way, a signal, a kill. */
const WAIT_EXTRA_MS = 5_000;

export function createGiveUpService(deps: GiveUpDeps): GiveUpService {
  return new GivingUp(deps);
}

/** A datacenter that is alone has nobody to give up. */
export function createNoGiveUpService(datacenter: string): GiveUpService {
  const refuse = (name: string): Promise<never> => Promise.reject(unknown(name, [datacenter]));
  return {
    list: () => [],
    giveUp: (input) => refuse(input.datacenter),
    takeBack: (input) => refuse(input.datacenter),
  };
}

/** Its keys need not wait any more. */
const FINAL = { isFinal: true, remainingMs: 0 } as const;

class GivingUp implements GiveUpService {
  readonly #deps: GiveUpDeps;
  /** When those were declared, by datacenter, whose declaration this process has recorded. */
  readonly #recorded = new Map<string, string>();

  constructor(deps: GiveUpDeps) {
    this.#deps = deps;
  }

  list(): GivenUpView[] {
    return this.#deps.known.list();
  }

  async giveUp(input: GiveUpInput, actor: Actor): Promise<GivenUpView> {
    const { datacenter } = input;
    await this.#assertOther(datacenter);
    const seen = await this.#find(datacenter);
    if (seen?.opened != null) {
      await this.#record(input, actor, FINAL);
      return { ...seen, remainingMs: 0 };
    }
    await this.#assertSilent(datacenter);
    if (seen === undefined) {
      await this.#declare(input, actor);
      const declared = await this.#find(datacenter);
      if (declared === undefined) throw notGivenUp(datacenter);
      if (!input.abandon) return this.#viewOf(declared);
      return this.#open(declared, input, actor);
    }
    return this.#open(seen, input, actor);
  }

  async takeBack(input: Parameters<GiveUpService['takeBack']>[0], actor: Actor): Promise<void> {
    const { shared, known, store } = this.#deps;
    const { datacenter, reason } = input;
    const resource = `datacenter:${datacenter}`;
    let isTried = false;
    for (;;) {
      const seen = await this.#find(datacenter);
      // Removed by the try whose answer was lost, or by somebody else meanwhile: it is taken back.
      if (seen === undefined && isTried) break;
      if (seen === undefined) throw notGivenUp(datacenter);
      if (seen.opened !== null) throw givenUpError(seen);
      // Before it is done, and so as asked for: once it is removed, nothing is left that would show to the same call,
      // repeated here or at another controller, that there is something to record.
      if (!isTried) {
        const entry = { action: 'datacenters.takeBack', resource, reason } as const;
        await writeAudit(store.general, { ...actor, ...entry, detail: { outcome: 'asked' } });
      }
      isTried = true;
      // Not removed: it was changed in between, or this was its second try.
      if (await shared.takeBack(seen)) break;
    }
    await known.refresh();
  }

  async #declare(input: GiveUpInput, actor: Actor): Promise<void> {
    const { shared, store } = this.#deps;
    const { datacenter, reason } = input;
    const standing = await shared.readStanding(datacenter);
    // From now on no controller goes on there that asks. One that is started and cannot ask runs for as long as
    // it may, and what it has granted last ends one TTL later.
    const waitMs =
      standing === undefined
        ? null
        : Math.ceil((standing.startAloneMs + standing.keyTtlMs) * WAIT_RATE) + WAIT_EXTRA_MS;
    const declaration: GivenUp = {
      datacenter,
      reason,
      declaredBy: actor.actor,
      declaredIn: store.datacenter,
      declaredAt: await this.#now(),
      opened: null,
    };
    // Otherwise somebody else has declared it meanwhile.
    const isDeclared = await shared.declare(declaration, waitMs);
    if (isDeclared) await this.#recordDeclared(declaration, input, actor, waitMs);
  }

  /** Lets the keys be given other homes. @throws {LeaseError} `reservation.give_up_early`. */
  async #open(seen: ReadGivenUp, input: GiveUpInput, actor: Actor): Promise<GivenUpView> {
    const { shared, store, known } = this.#deps;
    const { datacenter, reason, abandon } = input;
    const standing = await shared.readStanding(datacenter);
    const nowMs = String(Math.ceil(await readClockMs(store.general)));
    const isOpened = await shared.open(seen, {
      at: await this.#now(),
      by: actor.actor,
      reason,
      isAbandoned: abandon,
      tokenFloor: withMargin(laterToken(standing?.token ?? '0', nowMs)),
    });
    if (isOpened) await this.#record(input, actor, FINAL);
    await known.refresh();
    const row = await this.#find(datacenter);
    // Somebody has taken it back in between.
    if (row === undefined) throw notGivenUp(datacenter);
    if (isOpened) return { ...row, remainingMs: 0 };
    if (row.opened !== null) {
      await this.#record(input, actor, FINAL);
      return { ...row, remainingMs: 0 };
    }
    const remainingMs = await shared.remainingMs(datacenter);
    const isRecorded = this.#recorded.get(datacenter) === row.declaredAt;
    // The call that declared it may have ended before it was recorded.
    if (row.declaredBy === actor.actor && !isRecorded) {
      await this.#recordDeclared(row, input, actor, remainingMs);
    }
    throw new LeaseError('reservation.give_up_early', undefined, {
      details: { datacenter, remainingMs },
    });
  }

  async #recordDeclared(
    { datacenter, declaredAt }: GivenUp,
    input: GiveUpInput,
    actor: Actor,
    remainingMs: number | null,
  ): Promise<void> {
    await this.#record(input, actor, { isFinal: false, remainingMs });
    this.#recorded.set(datacenter, declaredAt);
  }

  /** Into the audit, as soon as it is in the store: whatever fails then, it was done. */
  async #record(
    { datacenter, reason, abandon }: GiveUpInput,
    actor: Actor,
    outcome: { readonly isFinal: boolean; readonly remainingMs: number | null },
  ): Promise<void> {
    await writeAudit(this.#deps.store.general, {
      ...actor,
      action: 'datacenters.giveUp',
      resource: `datacenter:${datacenter}`,
      reason,
      detail: { abandon, ...outcome },
    });
  }

  async #viewOf(row: ReadGivenUp): Promise<GivenUpView> {
    const { shared, known } = this.#deps;
    await known.refresh();
    return { ...row, remainingMs: await shared.remainingMs(row.datacenter) };
  }

  async #find(datacenter: string): Promise<ReadGivenUp | undefined> {
    const rows = await this.#deps.shared.list();
    return rows.find((row) => row.datacenter === datacenter);
  }

  async #now(): Promise<string> {
    return new Date(await readClockMs(this.#deps.store.general)).toISOString();
  }

  /** @throws {LeaseError} `reservation.unknown_datacenter`. */
  async #assertOther(datacenter: string): Promise<void> {
    const { store, shared, peers } = this.#deps;
    const isOther = datacenter !== store.datacenter && (await shared.isRegistered(datacenter));
    if (!isOther) throw unknown(datacenter, peers.names);
  }

  /** @throws {LeaseError} `reservation.datacenter_reachable`. */
  async #assertSilent(datacenter: string): Promise<void> {
    const peer = this.#deps.peers.get(datacenter);
    if (peer === undefined) return;
    if (await peer.isSilent()) return;
    throw new LeaseError('reservation.datacenter_reachable', undefined, {
      details: { datacenter },
    });
  }
}

function unknown(datacenter: string, known: readonly string[]): LeaseError {
  return new LeaseError(
    'reservation.unknown_datacenter',
    `There is no other datacenter "${datacenter}".`,
    { details: { datacenter, known: [...known] } },
  );
}

function notGivenUp(datacenter: string): LeaseError {
  return new LeaseError(
    'reservation.not_given_up',
    `The datacenter "${datacenter}" was not given up.`,
    { details: { datacenter } },
  );
}

// Gives a key whose datacenter was given up another home: writes the pointer that a move would have written.
// Nothing is sealed there, because nobody can: the wait, or somebody who is certain, stands for the seal.

/**
 * How far above what is known the tokens of the new home begin: a month of milliseconds. The clock there may
 * have gone on from what it last made known, and nobody has seen how far.
 */
const TOKEN_MARGIN = 2_592_000_000n;

function withMargin(token: string): string {
  return String(BigInt(token) + TOKEN_MARGIN);
}

/**
 * Points the key's last reservation to a new one in a datacenter, unless somebody else has pointed it
 * elsewhere: the first pointer stays, and is followed from now on.
 * @throws {LeaseError} `reservation.store_unreachable`, `reservation.datacenter_unreachable`,
 * `reservation.chain_too_long`.
 */
export async function adopt(
  deps: ProveDeps & { readonly resolver: Resolver; readonly ids: Store['ids'] },
  home: Home,
  adoption: {
    readonly key: ReservationKey;
    readonly toDatacenter: string;
    readonly opened: Opened;
  },
): Promise<void> {
  if (home.chain.length > LIMITS.reservationChainMax) {
    throw new LeaseError('reservation.chain_too_long');
  }
  const { key, toDatacenter, opened } = adoption;
  const stored = await deps.store.putPointer({
    fromId: home.reservationId,
    toId: reservationIdOf(toDatacenter, deps.ids.uuid()),
    tokenFloor: laterToken(opened.tokenFloor, await floorBefore(deps, home, key)),
  });
  deps.resolver.learn(stored);
}

/** What the key's tokens had to exceed where it was last: the pointer there may be newer than what is known. */
async function floorBefore(deps: ProveDeps, home: Home, key: ReservationKey): Promise<string> {
  const cameFrom = home.chain.at(-2);
  if (cameFrom === undefined) return '0';
  const pointer = await pointerFrom(deps, cameFrom, key);
  if (pointer !== undefined) return withMargin(pointer.tokenFloor);
  throw new LeaseError('reservation.datacenter_unreachable', undefined, {
    details: { datacenter: datacenterOf(cameFrom) },
  });
}
