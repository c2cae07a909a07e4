/** This process's own row in the database: advanced about once a second, and remembered. */
import type { Clock, IdSource } from '../../kernel/clock.ts';
import { invariant } from '../../kernel/errors.ts';
import type { HoldOffCause } from '../../kernel/limits.ts';
import { compareFencingTokens } from '../../kernel/lease.ts';
import type { ClockWatch } from '../clock/clock-watch.ts';
import {
  beginEpoch,
  checkEpoch,
  type EpochCheck,
  type LongestTtl,
  raiseTokenFloor,
} from './epoch.ts';
import type { Sql } from '../sql.ts';
import { beat, insertWitness, type BeatAnswer } from './beat.ts';
import { laterPlace, laterToken, type Seen, type WitnessMark } from './witness-stamp.ts';

/** What the store reports to the program that opened it, for its log and its metrics. */
export type WitnessNotice =
  | { readonly kind: 'held_off'; readonly cause: HoldOffCause; readonly holdOffMs: number }
  /** What was kept from an earlier life is of another database. */
  | { readonly kind: 'other_database' }
  /** Another process moves this one's row: both were started from one image of a memory. */
  | { readonly kind: 'shared_row' };

export interface OwnWitnessOptions {
  readonly sql: Sql<'renewals'>;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly clockWatch: ClockWatch;
  readonly longestTtl: LongestTtl;
  readonly onNotice: (notice: WitnessNotice) => void;
}

/** A row in one epoch of the database. */
export interface OwnRow {
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

export class OwnWitness {
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
    if (answer.othersSince !== null) clockWatch.adopt(answer.othersSince);
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
