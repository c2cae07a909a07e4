import { setImmediate as turn } from 'node:timers/promises';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { type SessionRef, recordHeartbeat } from '../fleet/sql/drone-sessions.ts';
import { HEARTBEAT_MS } from '../kernel/ladder.ts';
import { stopIdleBackends } from '../keys/sql/idle-stop.ts';
import { type Fragment, fragment } from '../postgres/sql.ts';
import { aDrone } from './fleet-fixture.ts';
import { connect, keyNamed, type Keys, openKeys, reportOf } from './keys-fixture.ts';
import { passingTime, type PassingTime } from './passing-time.ts';

const IDLE_SECONDS = 2;
/** Half of the time in which a backend may still live that nobody uses. */
const TOLERATED_MS = 1_000;
const KEYS = 50;
const SWEEPS = 4;
/** Within how many turns of the event loop callers come. */
const CALLER_TURNS_MAX = 40;
/** The same of sweeps: the first of them stops all that no caller has reached, and callers have two statements to send. */
const SWEEP_TURNS_MAX = 160;

const IS_STOPPED = fragment`stop_asked_at is not null`;
const IS_OVERDUE = fragment`
  stop_asked_at is null and status = 'ready'
  and greatest(last_used_at, status_at)
    < clock_timestamp() - ${IDLE_SECONDS * 1_000 + TOLERATED_MS}::float8 * interval '1 millisecond'`;

/** What many races of callers against the idle stop have come to. */
export interface IdleRaces {
  /** Callers that came at the moment at which their backend was to be stopped. */
  readonly races: number;
  /** Callers that were sent to the backend that they found. */
  readonly kept: number;
  /** Backends that were stopped. */
  readonly stopped: number;
  /** Callers that were sent to a backend which was stopped within its idle time: must be 0. */
  readonly betrayed: number;
  /** Backends that lived on without a use for a second longer than their idle time: must be 0. */
  readonly overdue: number;
}

/**
 * Two controllers of one database send callers to {@link KEYS} backends, and look for idle ones, all at the moment at
 * which the idle time of each is over; round after round. Time passes between the rounds alone. It goes on until
 * there were this many races, and each side has won more than `winsMin` of them.
 */
export async function raceIdleStops(
  races: number,
  winsMin: number,
  seed: number,
): Promise<IdleRaces> {
  const generator = xoroshiro128plus(seed);
  const race = await IdleRace.open(() => (generator.next() >>> 0) / 2 ** 32);
  const result = { races: 0, kept: 0, stopped: 0, betrayed: 0, overdue: 0 };
  while (result.races < races || Math.min(result.kept, result.stopped) <= winsMin) {
    const round = await race.round();
    result.races += round.races;
    result.kept += round.kept;
    result.stopped += round.stopped;
    result.betrayed += round.betrayed;
    result.overdue += round.overdue;
  }
  return result;
}

class IdleRace {
  readonly #time: PassingTime;
  readonly #controllers: readonly [Keys, Keys];
  readonly #drone: SessionRef;
  readonly #random: () => number;

  private constructor(
    time: PassingTime,
    controllers: readonly [Keys, Keys],
    drone: SessionRef,
    random: () => number,
  ) {
    this.#time = time;
    this.#controllers = controllers;
    this.#drone = drone;
    this.#random = random;
  }

  static async open(random: () => number): Promise<IdleRace> {
    const time = await passingTime();
    const { databaseUrl, clock } = time;
    const first = await openKeys({ databaseUrl, clock });
    const second = await openKeys({ databaseUrl, clock });
    const drone = await aDrone(first.store.general, { capacity: 100_000 });
    return new IdleRace(time, [first, second], drone, random);
  }

  async round(): Promise<IdleRaces> {
    await this.#everyKeyReady();
    await this.#pass(IDLE_SECONDS * 1_000);
    const before = await this.#count(IS_STOPPED);
    const named = Array.from({ length: KEYS }, (_, index) => `n${String(index)}`).filter(
      () => this.#random() < 0.7,
    );
    const sweeps = Promise.all(
      Array.from({ length: SWEEPS }, () => this.#later(SWEEP_TURNS_MAX, (on) => sweep(on))),
    );
    const callers = Promise.all(
      named.map((name) => this.#later(CALLER_TURNS_MAX, (on) => call(on, name))),
    );
    const answers = await this.#whileDroneActs(callers, sweeps);
    const betrayed = await this.#betrayed(answers.map(({ backendId }) => backendId));
    await this.#pass(TOLERATED_MS);
    for (const on of this.#controllers) await sweep(on);
    return {
      races: named.length,
      kept: answers.filter(({ spawned, status }) => !spawned && status === 'ready').length,
      stopped: (await this.#count(IS_STOPPED)) - before,
      betrayed,
      overdue: await this.#count(IS_OVERDUE),
    };
  }

  /** Calls one of the controllers a few turns of the event loop from now. */
  async #later<Result>(turnsMax: number, act: (on: Keys) => Promise<Result>): Promise<Result> {
    for (let turns = this.#random() * turnsMax; turns > 0; turns -= 1) await turn();
    return act(this.#controllers[this.#random() < 0.5 ? 0 : 1]);
  }

  async #everyKeyReady(): Promise<void> {
    const [on] = this.#controllers;
    const names = Array.from({ length: KEYS }, (_, index) => `n${String(index)}`);
    await this.#whileDroneActs(Promise.all(names.map((name) => call(on, name))));
    await this.#droneActs();
  }

  /** The drone stops what it is to stop, and starts what it is to start, until everybody has an answer. */
  async #whileDroneActs<Answers>(
    answers: Promise<Answers>,
    alsoUntil: Promise<unknown> = Promise.resolve(),
  ): Promise<Answers> {
    const waiting = { isOver: false };
    const ended = Promise.all([answers, alsoUntil]).finally(() => (waiting.isOver = true));
    // Its failure is thrown below.
    ended.catch(() => undefined);
    while (!waiting.isOver) await this.#droneActs();
    return (await ended)[0];
  }

  async #droneActs(): Promise<void> {
    const [{ store, keys }] = this.#controllers;
    // As its reports would, which are many statements for each, and each of one row: it waits for none of them.
    await store.general.$executeRaw`
      update backend b
      set status = 'ready', status_rank = 4, status_at = clock_timestamp(), address = '127.0.0.1:5000'
      from (select id from backend where status = 'scheduled' for update skip locked) s
      where b.id = s.id`;
    const rows = await store.general.$queryRaw<{ id: string }[]>`
      select id from backend where status_rank < 7 and stop_asked_at is not null`;
    await Promise.all(
      rows.map(({ id }) =>
        keys.report(reportOf(this.#drone, id, 'terminated', { reason: 'external' })),
      ),
    );
  }

  /** Time passes, the drone stays alive, and its keys are renewed. */
  async #pass(ms: number): Promise<void> {
    const [{ store, keys }] = this.#controllers;
    const { droneId } = this.#drone;
    await this.#time.pass(ms);
    await recordHeartbeat(store.general, { ...this.#drone, localTimeMs: 1_000, load: {} });
    const renewals = await store.general.$queryRaw<{ leaseId: string; fencingToken: string }[]>`
      select lease_id::text as "leaseId", fencing_token::text as "fencingToken"
      from backend where status_rank < 7`;
    await keys.renew({ droneId, localTimeMs: 1_000, renewals });
  }

  async #count(condition: Fragment): Promise<number> {
    const [{ store }] = this.#controllers;
    const rows = await store.general.$queryRaw<{ count: number }[]>`
      select count(*)::int as count from backend where ${condition}`;
    return rows[0]?.count ?? 0;
  }

  /** Time stands still: what is being stopped now was not left alone for its idle time. */
  async #betrayed(backendIds: readonly string[]): Promise<number> {
    const [{ store }] = this.#controllers;
    const stopped = await store.general.$queryRaw<{ id: string }[]>`
      select id from backend where stop_asked_at is not null and id = any(${[...backendIds]}::text[])`;
    const ids = new Set(stopped.map(({ id }) => id));
    return backendIds.filter((id) => ids.has(id)).length;
  }
}

function sweep(on: Keys): Promise<unknown> {
  return stopIdleBackends(on.store, HEARTBEAT_MS.standard);
}

function call(on: Keys, name: string): ReturnType<typeof connect> {
  const spawn = { program: 'room', args: [], env: {}, idleStopSeconds: IDLE_SECONDS };
  return connect(on, { key: keyNamed(name), spawn, waitMs: 30_000 });
}
