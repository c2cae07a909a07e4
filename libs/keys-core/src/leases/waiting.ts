/**
 * Waiting in line for leases, across controllers.
 *
 * A caller that waits takes a ticket: a row with a number. The waiter with the smallest number of those
 * that count is granted next, by a statement that locks the ticket, grants, and removes the ticket of
 * what it granted. A ticket counts for half a second and is prolonged by the controller for as long as
 * the caller itself answers, so that neither a dead caller nor a dead controller holds up the line for
 * longer. Hints say when to look; occasional looks make up for lost hints.
 */
import { onAbort } from '@leasehold/service-kit/signals';
import {
  createCoalescer,
  type Departure,
  dropGrantedTickets,
  joinLine,
  joinLines,
  keyText,
  leaveLine,
  leaveLines,
  type Leaving,
  type Place,
  prolongTickets,
  refusalOf,
  type Ticket,
  type TicketRequest,
  type TicketsRequest,
} from '../grants/index.ts';
import type { Coalescer } from '../kernel/coalesce.ts';
import { LeaseError } from '../kernel/errors.ts';
import {
  leaseTopic,
  othersTurnTopic,
  poolTopic,
  type Resource,
  resourceKey,
  turnTopic,
} from '../kernel/resource.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import {
  createJoinForEnvironment,
  type JoinForEnvironment,
  type Standing,
} from './environment-waiting.ts';
import { endOf, Line, type Waiter, type WaitOutcome } from './line.ts';

/** How often all lines are checked. */
const TICK_MS = 50;
/** How often tickets are prolonged: often enough that three in a row may fail. */
const PROLONG_EVERY_MS = 100;
/** For how long giving up is retried. */
const GIVE_UP_MS_MAX = 10_000;
/** How many places in line may be kept at one controller: one for each lease that a caller waits for. */
const PLACES_MAX = 20_000;
const TICKETS_PER_STATEMENT_MAX = 1_000;
const JOINS_PER_STATEMENT_MAX = 200;
const LEAVES_PER_STATEMENT_MAX = 200;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/** What a caller waits with: see {@link Waiter}. `request.leaseId` is its ticket's id, too. */
export type Wait = Pick<
  Waiter,
  | 'request'
  | 'others'
  | 'life'
  | 'startedAtMs'
  | 'giveUpAtMs'
  | 'callEndsAtMs'
  | 'look'
  | 'attempt'
  | 'answerOf'
> & {
  /** How it stands in the line for an environment. */
  readonly standing?: Standing | undefined;
  /** Whether the request was sent earlier and got its ticket's id then. */
  readonly isReplay?: boolean | undefined;
};

export interface WaitingRoom {
  /** Whether somebody waits at this controller for the resource, or is about to. */
  isAwaited(resource: Resource): boolean;
  /**
   * Waits for its turn. Rejects with the signal's reason when the caller is gone: its place is kept
   * for half a second, for a replay of the request.
   * @throws {LeaseError} `grant.hold_off`; `request.rate_limited` when too many wait here.
   */
  wait(wait: Wait): Promise<WaitOutcome>;
}

export function createWaitingRoom(store: KernelStore): WaitingRoom {
  return new Room(store);
}

/** Who may be the first in line once a request has left it: for permits with a total, those of any key. */
function topicsOf(wait: Pick<Wait, 'request' | 'others'>, { pools }: Departure): string[] {
  const places = placesOf(wait).map(leaseTopic);
  return [...places, ...pools.map((namespace) => poolTopic({ namespace }))];
}

/** All places in line of a request, its own first. */
function placesOf({ request, others = [] }: Pick<Wait, 'request' | 'others'>): Place[] {
  const { face, namespace, name, leaseId, mode } = request;
  return [{ face, namespace, name, ticketId: leaseId, mode }, ...others];
}

/** A request for several leases looks by itself: who is behind it in one line is not behind it in all. */
function lineKey({ request, others = [] }: Wait): string {
  return others.length === 0 ? resourceKey(request) : `together\0${request.leaseId}`;
}

/** A waiter in its line. */
interface LineMember {
  readonly line: Line;
  readonly waiter: Waiter;
}

/** A line, while somebody is in it or about to join it. */
interface OpenLine {
  readonly line: Line;
  readonly closeHints: () => void;
  userCount: number;
}

class Room implements WaitingRoom {
  readonly #store: KernelStore;
  readonly #joins: Coalescer<TicketRequest, Ticket | undefined>;
  readonly #leaves: Coalescer<Leaving, Departure | undefined>;
  readonly #groupJoins: Coalescer<TicketsRequest, Ticket | undefined>;
  readonly #joinForEnvironment: JoinForEnvironment;
  readonly #lines = new Map<string, OpenLine>();
  readonly #givingUp = new Set<Waiter>();
  #isTicking = false;
  #isProlonging = false;
  #prolongAtMs = 0;
  #placeCount = 0;

  constructor(store: KernelStore) {
    this.#store = store;
    this.#joinForEnvironment = createJoinForEnvironment(store);
    const common = {
      inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
      queueMax: QUEUE_MAX,
      isGathering: true,
    };
    this.#joins = createCoalescer({
      ...common,
      run: async (requests) => {
        const tickets = await joinLine(store.transitions, requests);
        return requests.map(({ ticketId }) => tickets.get(ticketId));
      },
      keysOf: (request) => [request.ticketId, keyText(request)],
      batchSizeMax: JOINS_PER_STATEMENT_MAX,
    });
    this.#leaves = createCoalescer({
      ...common,
      run: (leavings) => leaveLine(store.transitions, leavings),
      keysOf: (leaving) => [leaving.ticketId, keyText(leaving)],
      batchSizeMax: LEAVES_PER_STATEMENT_MAX,
    });
    // Their tickets need a number for each request, and so a statement.
    this.#groupJoins = createCoalescer({
      ...common,
      run: (requests) =>
        Promise.all(requests.map((request) => joinLines(store.transitions, request))),
      keysOf: (request) => [keyText(request)],
      batchSizeMax: 1,
    });
  }

  isAwaited(resource: Resource): boolean {
    return this.#lines.has(resourceKey(resource));
  }

  async wait(wait: Wait): Promise<WaitOutcome> {
    if (this.#placeCount + placesOf(wait).length > PLACES_MAX) {
      throw new LeaseError('request.rate_limited');
    }
    // Before the ticket is taken: a hint that comes meanwhile must not be missed.
    const line = this.#open(wait);
    try {
      const ticket = await this.#join(wait);
      if (ticket === undefined) return { outcome: 'recorded', joinedAsOf: undefined };
      if (wait.isReplay === true && (await this.#isGranted(wait))) {
        return { outcome: 'recorded', joinedAsOf: ticket.asOf };
      }
      return await this.#waitInLine(line, wait, ticket).catch(async (error: unknown) => {
        await this.#leaveRefused(wait, ticket, error);
        throw error;
      });
    } finally {
      this.#close(wait);
    }
  }

  #join({ request, others = [], standing, life, giveUpAtMs }: Wait): Promise<Ticket | undefined> {
    const asked = {
      face: request.face,
      namespace: request.namespace,
      name: request.name,
      ticketId: request.leaseId,
      waiter: request.holder,
      principal: request.principal,
      idempotencyKey: request.idempotencyKey,
      fingerprint: request.fingerprint,
      mode: request.mode,
    };
    if (standing !== undefined) {
      return this.#joinForEnvironment({ ...request, ...asked }, standing, giveUpAtMs);
    }
    return others.length === 0
      ? this.#joins.submit(asked, life.signal)
      : this.#groupJoins.submit({ ...asked, others }, life.signal);
  }

  /** Leaves the line for a refusal that no retry changes, so that its place keeps nobody back. */
  async #leaveRefused(wait: Wait, { ticketId }: Ticket, error: unknown): Promise<void> {
    const answer = wait.life.signal.aborted ? undefined : refusalOf(error);
    if (answer === undefined) return;
    // If it cannot leave now, its place lapses: nobody prolongs it.
    const left = await this.#leave(wait, ticketId, answer).catch(() => undefined);
    this.#store.hints.notify(...topicsOf(wait, left ?? { hasLeft: false, pools: [] }));
  }

  #leave(
    { request, others = [] }: Wait,
    ticketId: string,
    answer: Leaving['answer'],
  ): Promise<Departure | undefined> {
    const { principal, idempotencyKey } = request;
    const leaving = { ticketId, principal, idempotencyKey, answer };
    return others.length === 0
      ? this.#leaves.submit(leaving)
      : leaveLines(this.#store.transitions, { ...leaving, others });
  }

  /** Whether a request was granted while it joined the line: then its tickets are removed. */
  #isGranted(wait: Wait): Promise<boolean> {
    const ticketIds = placesOf(wait).map(({ ticketId }) => ticketId);
    return dropGrantedTickets(this.#store.transitions, ticketIds);
  }

  #waitInLine(line: Line, wait: Wait, ticket: Ticket): Promise<WaitOutcome> {
    const { signal } = wait.life;
    const closings = placesOf(wait).map(({ ticketId }) =>
      this.#store.hints.on(turnTopic(ticketId), () => line.hint()),
    );
    const outcome = new Promise<WaitOutcome>((resolve, reject) => {
      const waiter: Waiter = { ...wait, ticket, resolve, reject };
      line.add(waiter);
      closings.push(
        onAbort(signal, (reason) => {
          line.remove(waiter);
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- it is the signal's
          reject(reason);
        }),
      );
    });
    this.#startTicking();
    return outcome.finally(() => {
      for (const close of closings) close();
    });
  }

  #open(wait: Wait): Line {
    const key = lineKey(wait);
    let open = this.#lines.get(key);
    if (open === undefined) {
      const { hints, clock } = this.#store;
      const line = new Line(() => clock.nowMs());
      const places = placesOf(wait);
      // One that is free is seldom all that several wait for: a read shows it, and an attempt would lock rows.
      const mayBeFree = (): void => (places.length > 1 ? line.look() : line.hint());
      const closings = places.flatMap((place) => [
        hints.on(leaseTopic(place), mayBeFree),
        hints.on(othersTurnTopic(place), () => line.lookLater()),
        hints.on(poolTopic(place), mayBeFree),
      ]);
      open = { line, closeHints: () => closings.forEach((close) => close()), userCount: 0 };
      this.#lines.set(key, open);
    }
    open.userCount += 1;
    this.#placeCount += placesOf(wait).length;
    return open.line;
  }

  #close(wait: Wait): void {
    const key = lineKey(wait);
    const open = this.#lines.get(key);
    if (open === undefined) return;
    open.userCount -= 1;
    this.#placeCount -= placesOf(wait).length;
    if (open.userCount > 0) return;
    open.closeHints();
    this.#lines.delete(key);
  }

  #startTicking(): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    const { clock } = this.#store;
    const tick = (): void => {
      if (this.#lines.size === 0) {
        this.#isTicking = false;
        return;
      }
      clock.at(clock.nowMs() + TICK_MS, tick);
      this.#tick(clock.nowMs());
    };
    clock.at(clock.nowMs() + TICK_MS, tick);
  }

  #tick(nowMs: number): void {
    const isProlonging = !this.#isProlonging && nowMs >= this.#prolongAtMs;
    const live = new Map<string, LineMember>();
    for (const { line } of this.#lines.values()) {
      for (const waiter of line.waiters) {
        const isOver = nowMs >= endOf(waiter) && !line.isAttempting(waiter);
        // One that waits on by its next call keeps its place until it is answered.
        if (isOver) this.#end(line, waiter, nowMs);
        const isLeaving = isOver && nowMs >= waiter.giveUpAtMs;
        if (isProlonging && !isLeaving && waiter.life.isAlive()) {
          for (const { ticketId } of placesOf(waiter)) live.set(ticketId, { line, waiter });
        }
      }
      line.tick(nowMs);
    }
    if (live.size === 0) return;
    this.#prolongAtMs = nowMs + PROLONG_EVERY_MS;
    void this.#prolong(live);
  }

  async #prolong(live: ReadonlyMap<string, LineMember>): Promise<void> {
    this.#isProlonging = true;
    const ticketIds = [...live.keys()];
    try {
      for (let from = 0; from < ticketIds.length; from += TICKETS_PER_STATEMENT_MAX) {
        const part = ticketIds.slice(from, from + TICKETS_PER_STATEMENT_MAX);
        // On the connections of renewals: a place in line is kept alive like a lease.
        for (const ticketId of await prolongTickets(this.#store.renewals, part)) {
          const lost = live.get(ticketId);
          // Its own attempt may just have taken the ticket, and may yet give the grant back.
          if (lost === undefined || lost.line.isAttempting(lost.waiter)) continue;
          lost.line.lostTicket(lost.waiter);
        }
      }
    } catch {
      // The next tick tries again; a database that is gone for longer lets the tickets lapse.
    } finally {
      this.#isProlonging = false;
    }
  }

  /** Ends a wait whose time is over, once it is known who stands in its way. */
  #end(line: Line, waiter: Waiter, nowMs: number): void {
    if (this.#givingUp.has(waiter)) return;
    if (nowMs < waiter.giveUpAtMs) {
      if (!line.maySayWhy(waiter, nowMs)) {
        line.lookLast(waiter);
        return;
      }
      const frozen = line.frozenBy(waiter);
      line.remove(waiter);
      waiter.resolve({ outcome: 'waiting', refused: line.refusalOf(waiter), frozen });
    } else if (line.mayGiveUp(waiter, nowMs)) void this.#giveUp(line, waiter);
    else line.lookLast(waiter);
  }

  /** Leaves the line, now or, while its ticket is locked or the database does not answer, at one of the next ticks. */
  async #giveUp(line: Line, waiter: Waiter): Promise<void> {
    this.#givingUp.add(waiter);
    const { ticket } = waiter;
    const refused = line.refusalOf(waiter);
    // The recorded answer is also the one that is returned.
    const answer = waiter.answerOf(refused);
    try {
      const left = await this.#leave(waiter, ticket.ticketId, answer);
      if (left === undefined) throw new LeaseError('grant.contended');
      line.remove(waiter);
      // The next waiter, now the first, may be at another controller.
      if (left.hasLeft) this.#store.hints.notify(...topicsOf(waiter, left));
      waiter.resolve(
        left.hasLeft
          ? { outcome: 'gave_up', answer, refused }
          : { outcome: 'recorded', joinedAsOf: ticket.asOf },
      );
    } catch (error) {
      if (this.#store.clock.nowMs() < waiter.giveUpAtMs + GIVE_UP_MS_MAX) return;
      line.remove(waiter);
      waiter.reject(error);
    } finally {
      this.#givingUp.delete(waiter);
    }
  }
}
