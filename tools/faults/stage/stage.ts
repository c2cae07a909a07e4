/** The stage for a fault: beside the processes, witnesses, programs that hold leases, and all that they wrote. */
import { rm } from 'node:fs/promises';
import type { ControllerApi } from '@leasehold/client';
import {
  forTest,
  Stage,
  waitUntil,
  type DroneOptions,
  type StageDrone,
  type StageOptions,
  type TestProcess,
} from '@leasehold/testing';
import type pg from 'pg';
import { buildProgram, PROGRAMS_FOLDER, type ProgramName } from '../leases/stage/build-program.ts';
import { LeaseRecorder } from '../leases/stage/lease-recorder.ts';
import { machineMs, StallWatch } from './machine-time.ts';
import {
  livesOf,
  openTestimony,
  readTestimony,
  witness,
  type Life,
  type WitnessMode,
} from './testimony.ts';

export type Answer = Awaited<ReturnType<ControllerApi['keys']['connect']['mutate']>>;

/** A drone; each program that it offers is a witness. */
interface WitnessDroneOptions extends Omit<DroneOptions, 'programs'> {
  readonly programs: Readonly<Record<string, WitnessMode>>;
}

/** For faults that end before soft: a restart takes less than that even on a busy machine. */
export const PATIENT_LADDER = {
  renewAfterMs: 2_500,
  softAfterMs: 16_000,
  hardAfterMs: 18_000,
  ttlMs: 22_000,
};

/** A later holder of a key. */
export interface Succession {
  readonly answer: Answer;
  readonly atMs: number;
}

/** A fact of the event stream, with its time in the clock of this machine. */
export interface Fact {
  readonly key: string;
  readonly kind: string;
  readonly leaseId: string;
  readonly token: string;
  readonly atMs: number;
}

/** Several beats of a witness. */
const HEARD_MS_MIN = 250;
const SILENCE_MS_MIN = 500;
/** Longer than any ladder of these tests: what has not happened by then never will. */
const SUCCESSION_MS_MAX = 40_000;
/** A question that takes no longer says when a lease expires well enough. */
const QUICK_MS = 5;
const ASKS_MAX = 20;

export class FaultStage extends Stage {
  readonly testimonyFile: string = openTestimony(this.folder);
  #recorder: LeaseRecorder | undefined;
  readonly #built = new Map<ProgramName, Promise<string>>();
  readonly #stalls = new StallWatch();

  /** On a database of its own, unless one is given, with one controller unless more are asked for. */
  static open(options: StageOptions = {}): Promise<FaultStage> {
    return new FaultStage(forTest(options)).begin();
  }

  override async begin(): Promise<this> {
    this.onClose(() => this.#stalls.end());
    await super.begin();
    this.#recorder = new LeaseRecorder(this.databaseUrl);
    this.onClose(() => this.recorder.close());
    this.onClose(() => rm(PROGRAMS_FOLDER, { recursive: true, force: true, maxRetries: 10 }));
    return this;
  }

  get recorder(): LeaseRecorder {
    if (this.#recorder === undefined) throw new Error('the stage has not begun');
    return this.#recorder;
  }

  /** Of an administrator, who may hold leases too. */
  get token(): string {
    return this.credentials.admin;
  }

  /** A drone whose programs are witnesses. */
  override startDrone({ programs, ...options }: WitnessDroneOptions): Promise<StageDrone> {
    const named: Record<string, unknown> = {};
    for (const [name, mode] of Object.entries(programs)) {
      named[name] = witness(this.testimonyFile, mode);
    }
    return super.startDrone({ ...options, programs: named });
  }

  /** One connect, answered when its backend is ready. */
  async connect(name: string, program: string): Promise<Answer> {
    const answer = await this.api().keys.connect.mutate({
      key: { name },
      spawn: { program },
      waitFor: 'ready',
    });
    if (answer.status !== 'ready') {
      const backend = await this.api().backends.get.query({ backendId: answer.backendId });
      throw new Error(`${name}: ${answer.status} instead of ready: ${JSON.stringify(backend)}`);
    }
    return answer;
  }

  /**
   * Asks for the key again and again until somebody other than `former` has it. What is answered
   * meanwhile is either `former` or an error.
   */
  async successorOf(former: Answer, program: string): Promise<Succession> {
    const askUntilMs = machineMs() + SUCCESSION_MS_MAX;
    return waitUntil(
      async () => {
        const answer = await this.api().keys.connect.mutate({
          key: { name: former.key.name },
          spawn: { program },
          waitMs: Math.max(0, Math.ceil(askUntilMs - machineMs())),
        });
        if (answer.backendId === former.backendId) return undefined;
        return { answer, atMs: machineMs() };
      },
      { what: `a successor for ${former.key.name}`, timeoutMs: SUCCESSION_MS_MAX },
    );
  }

  /** When the promise of a grant ends, as the database records it. */
  expiryOf(answer: Answer): number {
    const promise = this.recorder.promises(answer.leaseId).at(-1);
    if (promise === undefined) throw new Error(`the grant of ${answer.key.name} was never seen`);
    return promise.notAfterMs;
  }

  /** For how long of this time the machine stood still, which is no fault of what is timed. */
  stoodStillMs(fromMs: number, toMs: number): number {
    return this.#stalls.stoodStillMs(fromMs, toMs);
  }

  /** The lives of the backends of a key so far. */
  lives(name: string): Life[] {
    return livesOf(readTestimony(this.testimonyFile), name);
  }

  /** What one backend has written so far. */
  life(answer: Answer): Life | undefined {
    return this.lives(answer.key.name).find((life) => life.backend === answer.backendId);
  }

  /**
   * Waits until a backend has written something that is newer than this call, and has done so for
   * long enough that an older one which still lives would have acted meanwhile.
   */
  async untilHeard(answer: Answer): Promise<Life> {
    const sinceMs = machineMs();
    return waitUntil(
      () => {
        const life = this.life(answer);
        if (life === undefined || life.lastAtMs <= sinceMs) return undefined;
        return life.lastAtMs - life.firstAtMs >= HEARD_MS_MIN ? life : undefined;
      },
      { what: `a word of ${answer.backendId}` },
    );
  }

  /** Waits until a backend has been silent, from now on, for so long that it must be dead. */
  async untilSilent(answer: Answer): Promise<Life> {
    const sinceMs = machineMs();
    return waitUntil(
      () => {
        const life = this.life(answer);
        if (life === undefined) return undefined;
        return machineMs() - Math.max(life.lastAtMs, sinceMs) > SILENCE_MS_MIN ? life : undefined;
      },
      { what: `the silence of ${answer.backendId}`, timeoutMs: SUCCESSION_MS_MAX },
    );
  }

  /** Waits until a grant has been renewed this many more times. */
  async untilRenewed(answer: Answer, times = 1): Promise<void> {
    const promiseCount = (): number => this.recorder.promises(answer.leaseId).length;
    const before = promiseCount();
    await waitUntil(() => promiseCount() >= before + times, {
      what: `renewal of ${answer.key.name}`,
      timeoutMs: SUCCESSION_MS_MAX,
    });
  }

  /** Waits until at most this much of a grant is left. */
  async untilRemaining(answer: Answer, remainingMs: number): Promise<void> {
    await waitUntil(() => this.expiryOf(answer) - machineMs() <= remainingMs, {
      what: `the last ${String(remainingMs)} ms of ${answer.key.name}`,
      timeoutMs: SUCCESSION_MS_MAX,
    });
  }

  /** Starts a program with the client library; it is ended when the stage is closed. */
  async start(name: ProgramName, settings: object, label: string = name): Promise<TestProcess> {
    const built = this.#built.get(name) ?? buildProgram(name);
    this.#built.set(name, built);
    return this.startProgram(label, [await built, JSON.stringify(settings)]);
  }

  /**
   * When the grants of a namespace expire if not renewed, by lease id, in the clock of this machine:
   * never late, and early by no more than the question took. On a busy machine it is asked several times,
   * and the quickest answer counts. `inside`: the connection that asks, for one that has locked the table.
   */
  async expiries(
    namespace: string,
    inside: pg.Pool | pg.Client = this.sql,
  ): Promise<Map<string, number>> {
    let quickest = { tookMs: Infinity, expiries: new Map<string, number>() };
    for (let tries = 0; tries < ASKS_MAX && quickest.tookMs > QUICK_MS; tries += 1) {
      const askedAtMs = machineMs();
      const { rows } = await inside.query<{ lease_id: string; remaining_ms: number }>(
        `select lease_id::text,
          extract(epoch from expires_at - clock_timestamp())::float8 * 1000 as remaining_ms
        from lease where face = 'lease' and namespace = $1`,
        [namespace],
      );
      const tookMs = machineMs() - askedAtMs;
      if (tookMs >= quickest.tookMs) continue;
      const expiries = rows.map((row) => [row.lease_id, askedAtMs + row.remaining_ms] as const);
      quickest = { tookMs, expiries: new Map(expiries) };
    }
    return quickest.expiries;
  }

  /** What happened to grants in a namespace, in order; a renewal that was refused changed nothing. */
  async facts(namespace: string): Promise<Fact[]> {
    const askedAtMs = machineMs();
    const rows = await this.query<Fact & pg.QueryResultRow>(
      `select name as key, kind, lease_id::text as "leaseId", fencing_token::text as token,
        extract(epoch from at - clock_timestamp())::float8 * 1000 as "atMs"
      from lease_event
      where face = 'lease' and namespace = $1 and kind <> 'renewal_refused' order by id`,
      [namespace],
    );
    return rows.map((fact) => ({ ...fact, atMs: askedAtMs + fact.atMs }));
  }

  /** Who holds what in a namespace now, by the database's clock: tokens by key. */
  async held(namespace: string): Promise<Map<string, string>> {
    const rows = await this.query<{ name: string; token: string }>(
      `select name, fencing_token::text as token from lease
      where face = 'lease' and namespace = $1
        and released_at is null and end_reason is null and clock_timestamp() < expires_at`,
      [namespace],
    );
    return new Map(rows.map((row) => [row.name, row.token]));
  }
}

/** Fulfilled when this much time has passed: how long a fault lasts. */
export async function untilPassed(ms: number): Promise<void> {
  const endMs = machineMs() + ms;
  await waitUntil(() => machineMs() >= endMs, { timeoutMs: ms + 10_000, pollMs: 5 });
}
