/**
 * A witness of the database: what this process has seen in it, kept where a restore of the database
 * does not reach.
 *
 * A stopped data folder that is copied back, a base backup that is started without recovery and a
 * snapshot of a disk keep the system identifier and the timeline. The database cannot tell that it has
 * gone back; only somebody outside can. So each process that grants has a row of its own, which it
 * advances about once a second, and remembers how far it came. Every statement that grants requires
 * the row to be that far, so that nothing is granted between the restore and the next beat. What the
 * process remembers is also sent, signed, to drones and clients, which send it back: they are the
 * witnesses when a controller has lost its memory. See ADR 18.
 */
import type { Clock, IdSource } from '../../kernel/clock.ts';
import { invariant } from '../../kernel/errors.ts';
import { compareFencingTokens } from '../../kernel/lease.ts';
import type { HoldOffCause } from '../../kernel/limits.ts';
import { RequestsInProgress } from '../../kernel/requests.ts';
import type { ClockBelief, ClockWatch } from '../clock/clock-watch.ts';
import { isBehind, LOG_PLACE, SERVER_RUN } from '../clock/expiry.ts';
import { removeOld, type RetentionPass } from '../retention-pass.ts';
import { fragment, onlyRow, type Sql } from '../sql.ts';
import {
  beginEpoch,
  checkEpoch,
  type EpochCheck,
  type LongestTtl,
  raiseTokenFloor,
} from './epoch.ts';
import {
  comparePositions,
  laterPlace,
  laterToken,
  type LogPlace,
  readStamp,
  type Seen,
  type WitnessMark,
  type WitnessStamp,
  writeStamp,
} from './witness-stamp.ts';

/** When something is granted, the newest beat is no older than this, in milliseconds. */
const FRESH_MS = 2_500;
/** How many confirmed stamps of other processes are remembered. */
const OTHERS_MAX = 10_000;

export interface DatabaseWitness {
  /** How far the database was seen; available after {@link ready}. */
  readonly mark: WitnessMark;
  /** The largest fencing token that this process has given or was told of. */
  readonly fencingToken: string;
  /** Checks the database unless it was checked a moment ago. Called before anything is granted. */
  ready(): Promise<void>;
  /** Checks the database now. Calls at the same time share one check. */
  look(): Promise<void>;
  /** Notes what a committed statement has shown. */
  saw(seen: Seen): void;
  /** What to send to drones and clients; undefined before the first check. */
  stamp(): string | undefined;
  /** Checks whether the database is as far as a stamp says. Ignores a text that is not a stamp of it. */
  consider(line: string | undefined): Promise<void>;
}

export interface DatabaseWitnessOptions extends OwnWitnessOptions {
  /** The stamp that an earlier run of this process kept. */
  readonly remembered: string | undefined;
  /** Called after each check. */
  readonly onLook: () => void;
}

export function createDatabaseWitness(options: DatabaseWitnessOptions): DatabaseWitness {
  return new Witness(options);
}

class Witness implements DatabaseWitness {
  readonly #options: DatabaseWitnessOptions;
  readonly #own: OwnWitness;
  #looking: Promise<void> | undefined;
  #remembered: string | undefined;
  /** The confirmed stamps of other processes, by their row. */
  readonly #others = new Map<string, WitnessStamp>();
  readonly #judging = new RequestsInProgress<void>();
  /** The newest stamp, and its epoch: most calls send back what the answer before them told. */
  #told: { readonly line: string; readonly epoch: EpochCheck } | undefined;

  constructor(options: DatabaseWitnessOptions) {
    this.#options = options;
    this.#own = new OwnWitness(options);
    this.#remembered = options.remembered;
  }

  get mark(): WitnessMark {
    return this.#own.present.mark;
  }

  get fencingToken(): string {
    return this.#own.row?.fencingToken ?? '0';
  }

  async ready(): Promise<void> {
    const lookedAtMs = this.#own.row?.lookedAtMs ?? -Infinity;
    const isOld = this.#options.clock.nowMs() - lookedAtMs > FRESH_MS;
    if (isOld || this.#remembered !== undefined) await this.look();
  }

  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    await this.#own.look();
    if (this.#remembered !== undefined) await this.#recall(this.#remembered);
    this.#options.onLook();
  }

  saw(seen: Seen): void {
    this.#own.saw(seen);
  }

  stamp(): string | undefined {
    const { row } = this.#own;
    if (row === undefined) return undefined;
    const { mark, epoch, fencingToken } = row;
    const stamp = { ...mark, epoch: epoch.epoch, epochToken: epoch.token, fencingToken };
    const line = writeStamp(stamp, epoch.secret);
    this.#told = { line, epoch };
    return line;
  }

  /** Compares the database with what this process had seen in an earlier run. */
  async #recall(line: string): Promise<void> {
    const stamp = readStamp(line, this.#own.present.epoch.secret);
    if (stamp === undefined) this.#options.onNotice({ kind: 'other_database' });
    else await this.#judge(stamp, 'controller');
    this.#remembered = undefined;
  }

  async consider(line: string | undefined): Promise<void> {
    if (line === undefined) return;
    await this.ready();
    // This process has seen it itself: every grant requires as much.
    if (line === this.#told?.line && this.#told.epoch === this.#own.present.epoch) return;
    const stamp = readStamp(line, this.#own.present.epoch.secret);
    if (stamp === undefined) return;
    // Another controller may have begun that epoch a moment ago.
    if (stamp.epoch > this.#own.present.epoch.epoch) await this.look();
    await this.#judge(stamp, 'holder');
  }

  async #judge(stamp: WitnessStamp, cause: HoldOffCause): Promise<void> {
    const { epoch, mark } = this.#own.present;
    this.#own.saw({ fencingToken: stamp.fencingToken });
    if (stamp.epoch > epoch.epoch) {
      await this.#own.beginEpoch(cause, epoch.token, stamp.epoch);
    } else if (stamp.epochToken === epoch.token && stamp.witnessId !== mark.witnessId) {
      await this.#compare(stamp, cause);
    } else if (stamp.epochToken !== epoch.token) {
      // Of a former epoch: what it shows beside its token is known to be lost.
      const { fencingToken } = stamp;
      await this.#judging.share(`exceed ${fencingToken}`, () => this.#own.exceed(fencingToken));
    }
  }

  /** Compares the database with a stamp of its present epoch. */
  async #compare(stamp: WitnessStamp, cause: HoldOffCause): Promise<void> {
    const isOfThisRun = stamp.run === this.mark.run;
    // From here on every grant requires the log to be as far: no query is needed.
    if (isOfThisRun) this.#own.saw({ place: stamp });
    const known = this.#others.get(stamp.witnessId);
    const isCovered =
      known?.epochToken === stamp.epochToken &&
      stamp.beat <= known.beat &&
      (isOfThisRun || comparePositions(stamp.position, known.position) <= 0);
    if (isCovered) return;
    const key = [stamp.witnessId, stamp.beat, isOfThisRun ? '' : stamp.position].join(' ');
    await this.#judging.share(key, () => this.#ask(stamp, cause));
  }

  async #ask(stamp: WitnessStamp, cause: HoldOffCause): Promise<void> {
    const { epoch } = this.#own.present;
    if (await isBehindMark(this.#options.sql, stamp)) {
      await this.#own.beginEpoch(cause, epoch.token, epoch.epoch);
      return;
    }
    if (this.#others.size >= OTHERS_MAX) this.#others.clear();
    this.#others.set(stamp.witnessId, stamp);
  }
}

// This process's own row in the database: advanced about once a second, and remembered.

/** What the store reports to the program that opened it, for its log and its metrics. */
export type WitnessNotice =
  | { readonly kind: 'held_off'; readonly cause: HoldOffCause; readonly holdOffMs: number }
  /** What was kept from an earlier life is of another database. */
  | { readonly kind: 'other_database' }
  /** Another process moves this one's row: both were started from one image of a memory. */
  | { readonly kind: 'shared_row' };

interface OwnWitnessOptions {
  readonly sql: Sql<'renewals'>;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly clockWatch: ClockWatch;
  readonly longestTtl: LongestTtl;
  readonly onNotice: (notice: WitnessNotice) => void;
}

/** A row in one epoch of the database. */
interface OwnRow {
  /** How far the database was seen. */
  mark: WitnessMark;
  readonly epoch: EpochCheck;
  /** The newest beat that was tried: whether it was written may be unknown. */
  triedBeat: number;
  /** The largest fencing token that was given, by this process or according to a stamp. */
  fencingToken: string;
  /** Local reading of the newest beat that the database has confirmed. */
  lookedAtMs: number;
}

/** Less than every fencing token. */
const NO_TOKEN = '0';

class OwnWitness {
  readonly #options: OwnWitnessOptions;
  #row: OwnRow | undefined;
  /** Every grant of the present epoch has a larger token than this one. */
  #tokenFloor = NO_TOKEN;

  constructor(options: OwnWitnessOptions) {
    this.#options = options;
  }

  get row(): OwnRow | undefined {
    return this.#row;
  }

  get present(): OwnRow {
    invariant(this.#row !== undefined, 'the database is looked at before anything is granted');
    return this.#row;
  }

  /** Advances the row, and notices when the database has changed. */
  async look(): Promise<void> {
    if (this.#row === undefined) await this.#begin();
    else await this.#beat(this.#row);
  }

  /** Notes what a committed statement has shown. */
  saw({ place, fencingToken }: Seen): void {
    const row = this.#row;
    if (row === undefined) return;
    if (place !== undefined) {
      const { run, position } = laterPlace(row.mark, place);
      row.mark = { ...row.mark, run, position };
    }
    if (fencingToken !== undefined) row.fencingToken = laterToken(row.fencingToken, fencingToken);
  }

  /**
   * Begins another epoch of a database that has lost a part of its history, unless another process has
   * done so since it was checked, when its epoch had this token.
   */
  async beginEpoch(cause: HoldOffCause, epochToken: string, knownEpoch: number): Promise<void> {
    const { sql, longestTtl, onNotice } = this.#options;
    const fencingToken = this.#row?.fencingToken ?? NO_TOKEN;
    const longestTtlMs = longestTtl.ms;
    const loss = { cause, epochToken, knownEpoch, longestTtlMs, fencingToken };
    if (await beginEpoch(sql, loss)) {
      onNotice({ kind: 'held_off', cause, holdOffMs: longestTtlMs });
    }
    await this.#begin();
  }

  /** Makes every later grant exceed a token that was given before the present epoch began. */
  async exceed(fencingToken: string): Promise<void> {
    if (compareFencingTokens(fencingToken, this.#tokenFloor) <= 0) return;
    await raiseTokenFloor(this.#options.sql, fencingToken);
    this.#tokenFloor = laterToken(this.#tokenFloor, fencingToken);
  }

  /** Begins a row in the present epoch. Notices what the database shows by itself. */
  async #begin(): Promise<void> {
    const { sql, clock, ids, clockWatch, longestTtl, onNotice } = this.#options;
    const fencingToken = this.#row?.fencingToken ?? NO_TOKEN;
    this.#tokenFloor = NO_TOKEN;
    // First: a database that failed over may lack the newest grants, and its clock may be behind them.
    await this.exceed(fencingToken);
    const epoch = await checkEpoch(sql, longestTtl.ms);
    if (epoch.isNew) {
      const { cause, holdOffMs } = epoch;
      onNotice({ kind: 'held_off', cause: cause ?? 'timeline', holdOffMs });
    }
    const witnessId = ids.uuid();
    const sentAtMs = clock.nowMs();
    const place = await insertWitness(sql, witnessId);
    const lookedAtMs = clock.nowMs();
    clockWatch.observe(place.asOf, sentAtMs, lookedAtMs);
    clockWatch.settle(epoch.settledUntil);
    this.#row = {
      mark: { witnessId, beat: 1, at: place.asOf, run: place.run, position: place.position },
      epoch,
      triedBeat: 1,
      fencingToken,
      lookedAtMs,
    };
    await longestTtl.note(epoch.longestTtlMs);
  }

  async #beat(row: OwnRow): Promise<void> {
    const { sql, clock, clockWatch, longestTtl } = this.#options;
    row.triedBeat += 1;
    const { mark, triedBeat: nextBeat } = row;
    const sentAtMs = clock.nowMs();
    const belief = clockWatch.belief(sentAtMs);
    const answer = await beat(sql, { mark, nextBeat, epochToken: row.epoch.token, belief });
    const nowMs = clock.nowMs();
    clockWatch.observe(answer.asOf, sentAtMs, nowMs);
    if (!answer.isMoved || answer.isOther) {
      await this.#beginAnew(row, answer);
      return;
    }
    clockWatch.settle(answer.settledUntil);
    // Of the watch that was asked with: one that a jump has started over does not know what was before.
    const isSameWatch = clockWatch.belief(nowMs).watchedSince === belief.watchedSince;
    if (answer.othersSince !== null && isSameWatch) clockWatch.adopt(answer.othersSince);
    const { run, position } = laterPlace(row.mark, answer);
    row.mark = { witnessId: mark.witnessId, beat: nextBeat, at: answer.asOf, run, position };
    row.lookedAtMs = nowMs;
    // TTLs that others have granted count here too, in case the database loses them.
    await longestTtl.note(answer.longestTtlMs);
  }

  /** The row cannot be advanced: finds out why, and acts on it. */
  async #beginAnew({ epoch }: OwnRow, answer: BeatAnswer): Promise<void> {
    const isSameEpoch = answer.epochToken === epoch.token;
    const wentBack = isSameEpoch ? answer.isBehind : (answer.epoch ?? 0) < epoch.epoch;
    if (answer.secret !== epoch.secret) {
      await this.#holdOffReplaced();
    } else if (wentBack && !answer.isOther) {
      await this.beginEpoch('controller', answer.epochToken ?? epoch.token, epoch.epoch);
    } else {
      const isShared = isSameEpoch && !answer.isOther && answer.isThere;
      if (isShared) this.#options.onNotice({ kind: 'shared_row' });
      await this.#begin();
    }
  }

  /** Another database is in place of the earlier one, whose grants may still be acted on. */
  async #holdOffReplaced(): Promise<void> {
    const { sql, longestTtl } = this.#options;
    const here = await checkEpoch(sql, longestTtl.ms);
    if (here.holdOffMs > 0) await this.#begin();
    else await this.beginEpoch('replaced', here.token, here.epoch);
  }
}

/** For how many days after its last beat a row is kept: longer than any TTL. See `isBehind`. */
const KEPT_DAYS = 2;

/** How far the database has come. Instants are epoch milliseconds of the database. */
interface DatabasePlace extends LogPlace {
  readonly asOf: number;
}

const PLACE = fragment`
  extract(epoch from clock_timestamp())::float8 * 1000 as "asOf", ${LOG_PLACE}`;

/** Inserts a process's own row, with beat 1. Its id must be new. */
async function insertWitness(sql: Sql<'renewals'>, witnessId: string): Promise<DatabasePlace> {
  return onlyRow(
    await sql.$queryRaw<DatabasePlace[]>`
      insert into database_witness (id, beat, at)
      values (${witnessId}::uuid, 1, clock_timestamp())
      returning ${PLACE}`,
  );
}

interface BeatRequest {
  readonly mark: WitnessMark;
  /** Greater than every beat that was tried: the outcome of an earlier try may be unknown. */
  readonly nextBeat: number;
  /** Of the epoch that the mark belongs to. */
  readonly epochToken: string;
  readonly belief: ClockBelief;
}

/** What a beat found. */
interface BeatAnswer extends DatabasePlace {
  /** Whether the row has the next beat now. */
  readonly isMoved: boolean;
  /** Whether the row was there: it is removed when its process was suspended for days. */
  readonly isThere: boolean;
  /** Whether the database has lost something that the mark shows. */
  readonly isBehind: boolean;
  /** Whether the system identifier or the timeline differs from the noted one. */
  readonly isOther: boolean;
  /** Of the database's epoch; null when it has none. */
  readonly epoch: number | null;
  readonly epochToken: string | null;
  readonly secret: string | null;
  readonly longestTtlMs: number;
  readonly settledUntil: number;
  /** The start of the longest watch of another process that overlaps this one's; null when none exists. */
  readonly othersSince: number | null;
}

/**
 * Advances a process's own row by a beat, and reads how far the database has come.
 *
 * - **Moves nothing** when the database is behind the mark, is of another epoch, or another process
 *   has moved the row: then `isMoved` is false, and the other fields show which.
 * - **The watch** is written only when this very statement has not met a jump.
 * - **Settles** what has expired when this process has watched for as long as the longest TTL; and takes
 *   back what was settled ahead of a clock that has gone back.
 * - **Notes** in which run of the server the system identifier was compared: see `isHeldOff`.
 * - **Index**: the primary keys. The witnesses of others, a few rows, are read whole.
 */
async function beat(sql: Sql<'renewals'>, request: BeatRequest): Promise<BeatAnswer> {
  const { mark, nextBeat, epochToken, belief } = request;
  const since = fragment`to_timestamp(${belief.watchedSince / 1000}::float8)`;
  const isWatched = fragment`clock_timestamp() <= to_timestamp(${belief.until / 1000}::float8)`;
  const settles = fragment`(
          e.settled_until > clock_timestamp() or (
            ${isWatched} and exists (select from moved)
            and e.settled_until < clock_timestamp() - interval '1 second'
            and ${since} <= clock_timestamp() - e.longest_ttl_ms * interval '1 millisecond'
          ))`;
  const isThisOne = fragment`e.system_identifier = f.system_identifier`;
  return onlyRow(
    await sql.$queryRaw<BeatAnswer[]>`
      with found as materialized (
        select ${isBehind(mark)} as is_behind,
          s.system_identifier::text as system_identifier, database_timeline() as timeline,
          ${SERVER_RUN} as run
        from pg_control_system() s
      ),
      moved as (
        update database_witness w
        set beat = ${nextBeat}::bigint, at = clock_timestamp(),
            watched_since = case when ${isWatched} then ${since} end
        where w.id = ${mark.witnessId}::uuid
          and w.beat >= ${mark.beat}::bigint and w.beat < ${nextBeat}::bigint
          and not (select f.is_behind from found f)
          and exists (select from database_epoch e where e.token = ${epochToken}::uuid)
        returning w.beat
      ),
      settled as (
        update database_epoch e
        set settled_until = case when ${settles} then clock_timestamp() else e.settled_until end,
            identified_run = case when ${isThisOne} then f.run else e.identified_run end
        from found f
        where e.token = ${epochToken}::uuid
          and (${settles} or (${isThisOne} and e.identified_run is distinct from f.run))
        returning e.settled_until
      )
      select ${PLACE},
        exists (select from moved) as "isMoved",
        exists (select from database_witness w where w.id = ${mark.witnessId}::uuid) as "isThere",
        f.is_behind as "isBehind",
        coalesce(e.system_identifier <> f.system_identifier or e.timeline <> f.timeline, false) as "isOther",
        e.epoch, e.token::text as "epochToken", e.witness_secret as secret,
        coalesce(e.longest_ttl_ms, 0) as "longestTtlMs",
        coalesce(extract(epoch from coalesce((select s.settled_until from settled s), e.settled_until)), 0)::float8 * 1000
          as "settledUntil",
        (
          select extract(epoch from min(o.watched_since))::float8 * 1000 from database_witness o
          where o.id <> ${mark.witnessId}::uuid and o.at >= ${since} and o.watched_since < ${since}
        ) as "othersSince"
      from found f
      left join database_epoch e on true`,
  );
}

/** Whether the database has lost something that somebody else's mark shows. */
async function isBehindMark(sql: Sql<'renewals'>, mark: WitnessMark): Promise<boolean> {
  const rows = await sql.$queryRaw<{ isBehind: boolean }[]>`select ${isBehind(mark)} as "isBehind"`;
  return onlyRow(rows).isBehind;
}

/** Removes the rows of processes whose last beat is too old. */
export async function removeOldWitnesses(sql: Sql<'general'>, pass: RetentionPass): Promise<void> {
  await removeOld(sql, pass, 'witnesses', {
    old: fragment`
      select w.id from database_witness w
      where w.at < clock_timestamp() - ${KEPT_DAYS}::int * interval '1 day'`,
    deletes: fragment`gone as (delete from database_witness w using old where w.id = old.id returning w.id)`,
  });
}
