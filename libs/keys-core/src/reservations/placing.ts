/**
 * Where a key that has no home is to live: in a datacenter whose drones offer the program, because a home stays.
 * The one that was named, or else this one, or else the nearest.
 */
import type { Clock } from '../kernel/clock.ts';
import { type Offer, type Offered, offeredNames, type WantedProgram } from '../kernel/drones.ts';
import { LeaseError } from '../kernel/errors.ts';
import { RequestsInProgress } from '../kernel/requests.ts';
import { type ReservationKey, reservationKeyText } from '../kernel/reservation.ts';
import type { Store } from '../postgres/open-store.ts';
import type { Homes } from './homes.ts';
import { type Home, type Peer, peerOf, type Peers } from './reservation-types.ts';

/** What a datacenter offers, as far as is known here. */
interface Offers {
  /** Whether it offered the program a moment ago; false when nothing newer is known, and then it must be asked. */
  remembers(wanted: WantedProgram): boolean;
  /** Asks it; callers that ask at once share the answer. */
  ask(wanted: WantedProgram): Promise<Offer>;
  /** The programs that it offered when it was last asked; none when that does not count any more. */
  names(): readonly string[];
}

/** After this time it is asked again, while callers still go by the last answer. */
const FRESH_MS = 2_000;
/** After this time an answer does not count any more. */
const KEPT_MS = 10_000;

function createOffers(clock: Pick<Clock, 'nowMs'>, read: () => Promise<Offered>): Offers {
  const reads = new RequestsInProgress<Offered>();
  let known: { readonly offered: Offered; readonly askedAtMs: number } | undefined;
  const readNow = (): Promise<Offered> =>
    reads.share('', async () => {
      const askedAtMs = clock.nowMs();
      const offered = await read();
      known = { offered, askedAtMs };
      return offered;
    });
  return {
    remembers(wanted) {
      if (known === undefined) return false;
      const ageMs = clock.nowMs() - known.askedAtMs;
      if (ageMs > KEPT_MS || known.offered.judge(wanted) !== 'offered') return false;
      // A caller that needs the answer asks by itself, and gets the failure.
      if (ageMs > FRESH_MS) void readNow().catch(() => undefined);
      return true;
    },
    ask: async (wanted) => (await readNow()).judge(wanted),
    names: () =>
      known === undefined || clock.nowMs() - known.askedAtMs > KEPT_MS ? [] : known.offered.names,
  };
}

export interface PlacingDeps {
  readonly store: Pick<Store, 'datacenter' | 'clock'>;
  readonly peers: Peers;
  readonly homes: Pick<Homes, 'assertKnown' | 'isKnown' | 'isGivenUp'>;
  /** What this datacenter offers; by default everything. */
  readonly offered?: (() => Promise<Offered>) | undefined;
}

export interface Placing {
  /** The place of a fresh key, if that is known without asking anybody; not one that {@link find} refuses. */
  remembered(wanted: WantedProgram, named: string | undefined): string | undefined;
  /**
   * The place of a fresh key. Asks the datacenters.
   * @throws {LeaseError} `spawn.no_drone`, `spawn.not_allowed`, `reservation.unknown_datacenter`,
   * `reservation.datacenter_given_up`.
   */
  find(wanted: WantedProgram, named: string | undefined): Promise<string>;
  /** What a connect failed with; if its key's home has no drone for the program, with the home and what moves the key. */
  explain(error: unknown, of: Failed): Promise<unknown>;
}

/** A connect that its key's home has refused. */
interface Failed {
  readonly key: ReservationKey;
  readonly home: Home;
  readonly wanted: WantedProgram | undefined;
}

/** `unknown`: it cannot be asked, or its version cannot answer. */
type Answer = Offer | 'unknown';

export function createPlacing(deps: PlacingDeps): Placing {
  const { store, peers, homes } = deps;
  const here = store.datacenter;
  const asking = new Asking(deps);
  return {
    remembered(wanted, named = here) {
      return homes.isKnown(named) && asking.remembers(named, wanted) ? named : undefined;
    },

    async find(wanted, named) {
      homes.assertKnown(named ?? here);
      const first = await asking.ask(named ?? here, wanted);
      // A datacenter that was named and does not answer is refused when the key is reserved there.
      if (first === 'offered' || first === 'unknown') return named ?? here;
      const others = await asking.askAllBut(named ?? here, wanted);
      if (named !== undefined) {
        throw missingIn(named, wanted, { first, others, offered: asking.names(named) });
      }
      const [nearest] = offeringOf(others);
      if (nearest === undefined) {
        throw missing(wanted, { first, others, offered: asking.names(), names: peers.names });
      }
      return nearest;
    },

    async explain(error, { key, home, wanted }) {
      const isNoDrone = error instanceof LeaseError && error.code === 'spawn.no_drone';
      if (!isNoDrone || wanted === undefined || peers.names.length === 0) return error;
      const others = await asking.askAllBut(home.datacenter, wanted);
      return missingAtHome(error, { key, home, wanted }, offeringOf(others));
    },
  };
}

/** What datacenters offer, asked of each at most once at a time. */
class Asking {
  readonly #deps: PlacingDeps;
  readonly #offers = new Map<string, Offers>();

  constructor(deps: PlacingDeps) {
    this.#deps = deps;
  }

  /** Also where nobody says what is offered: then it is everything. */
  remembers(datacenter: string, wanted: WantedProgram): boolean {
    return this.#offersOf(datacenter)?.remembers(wanted) ?? true;
  }

  async ask(datacenter: string, wanted: WantedProgram): Promise<Answer> {
    const offers = this.#offersOf(datacenter);
    const isHere = datacenter === this.#deps.store.datacenter;
    if (offers === undefined) return isHere ? 'offered' : 'unknown';
    if (offers.remembers(wanted)) return 'offered';
    const answer = offers.ask(wanted);
    return isHere ? answer : answer.catch((): Answer => 'unknown');
  }

  /**
   * This datacenter first, then those that can be reached, the nearest first. One that cannot be asked is unknown,
   * this one too: a failure here must not hide what another datacenter has answered.
   */
  async askAllBut(datacenter: string, wanted: WantedProgram): Promise<ReadonlyMap<string, Answer>> {
    const names = [this.#deps.store.datacenter, ...this.#reachable()];
    const asked = names.filter((name) => name !== datacenter);
    const answers = await Promise.all(
      asked.map((name) => this.ask(name, wanted).catch((): Answer => 'unknown')),
    );
    return new Map(asked.map((name, index) => [name, answers[index] ?? 'unknown']));
  }

  /** What this datacenter, or each that was asked just now, offers. */
  names(datacenter?: string): readonly string[] {
    const offers =
      datacenter === undefined ? [...this.#offers.values()] : [this.#offersOf(datacenter)];
    return offeredNames(offers.flatMap((one) => one?.names() ?? []));
  }

  #reachable(): string[] {
    const { peers, homes } = this.#deps;
    const distance = ({ roundTripMs }: Peer): number => roundTripMs?.() ?? Number.MAX_VALUE;
    return peers.names
      .filter((name) => !homes.isGivenUp(name))
      .map((name) => peerOf(peers, name))
      .filter(isReachable)
      .toSorted((one, other) => distance(one) - distance(other))
      .map(({ datacenter }) => datacenter);
  }

  #offersOf(datacenter: string): Offers | undefined {
    const known = this.#offers.get(datacenter);
    if (known !== undefined) return known;
    const { store, peers, offered } = this.#deps;
    const read = datacenter === store.datacenter ? offered : peerOf(peers, datacenter).offered;
    if (read === undefined) return undefined;
    const offers = createOffers(store.clock, read);
    this.#offers.set(datacenter, offers);
    return offers;
  }
}

function isReachable(peer: Peer): boolean {
  try {
    peer.assertReachable();
    return true;
  } catch {
    return false;
  }
}

interface Answers {
  readonly first: Answer;
  readonly others: ReadonlyMap<string, Answer>;
  /** What is offered instead, by name. */
  readonly offered: readonly string[];
}

function offeringOf(answers: Answers['others']): string[] {
  return [...answers].filter(([, answer]) => answer === 'offered').map(([name]) => name);
}

/** Why a key gets no home in the datacenter that was named. */
function missingIn(
  datacenter: string,
  { program }: WantedProgram,
  { first, others, offered }: Answers,
) {
  if (first === 'not_allowed') return new LeaseError('spawn.not_allowed');
  const offeredIn = offeringOf(others);
  const elsewhere = offeredIn.length === 0 ? '' : ` It is offered in ${offeredIn.join(', ')}.`;
  return new LeaseError(
    'spawn.no_drone',
    `No drone of the datacenter "${datacenter}" offers the program "${program}" now. The key was given no home.${elsewhere}`,
    { details: { program, datacenter, offeredIn, offered } },
  );
}

/** Why a key gets no home anywhere. */
function missing(
  { program }: WantedProgram,
  { first, others, offered, names }: Answers & { readonly names: readonly string[] },
) {
  if ([first, ...others.values()].includes('not_allowed')) {
    return new LeaseError('spawn.not_allowed');
  }
  const unknown = names.filter((name) => (others.get(name) ?? 'unknown') === 'unknown');
  const away = unknown.length === 0 ? '' : ` Not known: what is offered in ${unknown.join(', ')}.`;
  return new LeaseError(
    'spawn.no_drone',
    `No drone offers the program "${program}" now. The key was given no home.${away}`,
    { details: { program, unknown, offered } },
  );
}

function missingAtHome(
  error: LeaseError,
  { key, home, wanted }: Failed & { readonly wanted: WantedProgram },
  offeredIn: readonly string[],
) {
  const { datacenter } = home;
  const { program } = wanted;
  const [to] = offeredIn;
  const how =
    to === undefined
      ? ''
      : ` It is offered in ${offeredIn.join(', ')}. An operator can move the key: leasehold reservations move … --to-datacenter ${to}`;
  return new LeaseError(
    'spawn.no_drone',
    `The key ${reservationKeyText(key)} lives in "${datacenter}", where no drone can run "${program}" now.${how}`,
    { details: { ...error.details, program, datacenter, offeredIn }, cause: error },
  );
}
