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
import type { HoldOffCause } from '../../kernel/limits.ts';
import { RequestsInProgress } from '../../kernel/requests-in-progress.ts';
import { isBehindMark } from './beat.ts';
import { OwnWitness, type OwnWitnessOptions } from './own-witness.ts';
import {
  comparePositions,
  readStamp,
  writeStamp,
  type Seen,
  type WitnessMark,
  type WitnessStamp,
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
    return writeStamp(stamp, epoch.secret);
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
