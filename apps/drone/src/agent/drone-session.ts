/**
 * The agent's session with the controllers.
 *
 * A session has a number that grows with each connection; everything that the agent sends carries
 * the newest number that it knows, and actions of an older session are dropped. An answer
 * `superseded` may only mean that our own next session is on its way; so nothing is done about it
 * unless no newer one arrives. Then another agent has our id: the session is opened again once, and if that
 * is superseded as well, the newest agent has won and this one ends. So it does when its sessions are ended
 * by newer ones three times within a minute: two may be by one of our own that was late.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type {
  DroneMessage,
  LogPage,
  LogQuestion,
  LogRequest,
  SpawnAction,
  TerminateAction,
} from '@leasehold/api';
import { leaseholdErrorOf } from '@leasehold/client';
import { backoffMs, type Ladder } from '@leasehold/keys-core';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import type { Log } from '../config.ts';
import {
  SessionSuperseded,
  type ControllerLink,
  type HeartbeatInput,
  type ReportInput,
  type SessionInput,
} from './controller-link.ts';
import type { BackendUse, MachineUse } from './load.ts';
import { renewWindowMs } from './warden-link.ts';

interface SessionRef {
  readonly droneId: string;
  readonly clockId: string;
  readonly session: number;
}

/** How long our own next session may take to arrive after an answer `superseded`. */
const OWN_SESSION_MS_MAX = 3_000;
/** An agent that is superseded twice within this time is being replaced. */
const REPLACED_WITHIN_MS = 60_000;
/** More sessions that were ended by newer ones within that time are no accident. */
const ENDED_COUNT_MAX = 2;
/** The pause before a session that the controller ended is opened again. */
const REOPEN_MS = 500;

/** How many questions are answered at once; each may wait for output. */
const ANSWERS_AT_ONCE_MAX = 64;
/** Of them, those that wait for what is written later: the others find room. */
const WAITING_AT_ONCE_MAX = 48;

/** What each heartbeat reports about the drone. */
interface DroneLoad {
  readonly backends: number;
  /** Left out by a drone without containers. */
  readonly engine: { readonly problem: string | null } | undefined;
  /** Left out until it is known. */
  readonly machine: MachineUse | undefined;
  /** Of each program that should have warm processes. */
  readonly warm: NonNullable<HeartbeatInput['load']['warm']>;
}

interface DroneSessionOptions {
  readonly link: ControllerLink;
  readonly clock: TickingClock;
  readonly log: Log;
  readonly load: () => DroneLoad;
  /** What backends use, if there was another look since the call before. */
  readonly takeUsage: () => readonly BackendUse[] | undefined;
  readonly onAction: (action: SpawnAction | TerminateAction) => void;
  /** Answers what a controller asks about the output of a backend. */
  readonly readLog: (request: LogRequest) => Promise<LogPage>;
  /** Whether the drone is given no more backends, as a controller tells it. */
  readonly onDraining: (isDraining: boolean) => void;
  /** Another agent uses this drone's id. */
  readonly onReplaced: () => void;
}

/** See the protocol at the top of this file. */
export class DroneSession {
  readonly #options: DroneSessionOptions;
  /** What the present session is opened with. */
  #input: SessionInput | undefined;
  #current: SessionRef | undefined;
  #unfollow: (() => void) | undefined;
  #heartbeats: NodeJS.Timeout | undefined;
  #reopening: NodeJS.Timeout | undefined;
  #suspicion: NodeJS.Timeout | undefined;
  #supersededAtMs = Number.NEGATIVE_INFINITY;
  /** When sessions were ended by newer ones, within the last minute. */
  #endedAtMs: readonly number[] = [];
  /** Of the last heartbeat; undefined when it got no answer. */
  #roundTripMs: number | undefined;
  #answering = 0;
  /** What waits for the answer to the goodbye; undefined until the drone stops. */
  #goodbyeTaken: (() => void) | undefined;
  /** The session in which the goodbye was answered. */
  #leftIn: SessionRef | undefined;
  #waiters: ((ref: SessionRef) => void)[] = [];

  constructor(options: DroneSessionOptions) {
    this.#options = options;
  }

  /** Opens a session, in place of the present one if there is one. */
  open(input: SessionInput): void {
    this.close();
    this.#input = input;
    // Late messages of a session that was closed here are dropped.
    const isFollowed = (): boolean => this.#input === input;
    this.#unfollow = this.#options.link.follow(input, {
      message: (message) => {
        if (isFollowed()) this.#receive(message);
      },
      ended: (error) => {
        if (!isFollowed()) return;
        if (error instanceof SessionSuperseded && this.#isReplaced()) {
          this.#options.onReplaced();
          return;
        }
        this.#options.log.warn({ err: error }, 'the controller ended the session');
        this.#reopenSoon();
      },
    });
  }

  close(): void {
    this.#input = undefined;
    this.#unfollow?.();
    this.#unfollow = undefined;
    this.#current = undefined;
    clearInterval(this.#heartbeats);
    clearTimeout(this.#reopening);
    clearTimeout(this.#suspicion);
    this.#reopening = undefined;
    this.#suspicion = undefined;
  }

  /** Resolves with a session: at once when there is one. */
  ref(): Promise<SessionRef> {
    if (this.#current !== undefined) return Promise.resolve(this.#current);
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /**
   * Tells the controller that the drone stops, in this session and in each that follows, until it is answered. The
   * session goes on meanwhile, for the reports of what ends. Resolves with the first answer; maybe never.
   */
  sayGoodbye(): Promise<void> {
    return new Promise((resolve) => {
      this.#goodbyeTaken = resolve;
      void this.#sendGoodbye();
    });
  }

  async #sendGoodbye(): Promise<void> {
    const ref = this.#current;
    if (this.#goodbyeTaken === undefined || ref === undefined || ref === this.#leftIn) return;
    try {
      await this.#options.link.goodbye(ref);
      this.#leftIn = ref;
      this.#goodbyeTaken();
    } catch (error) {
      if (error instanceof SessionSuperseded) this.superseded(ref);
      else this.#options.log.debug({ err: error }, 'the goodbye got no answer');
    }
  }

  /** Something that was sent with `ref` was answered `superseded`. */
  superseded(ref: SessionRef): void {
    if (this.#current !== ref || this.#suspicion !== undefined) return;
    this.#suspicion = setTimeout(() => {
      this.#suspicion = undefined;
      if (this.#current === ref) this.#yieldOrReopen();
    }, OWN_SESSION_MS_MAX);
  }

  /** Notes that the session was ended by a newer one. @returns whether another agent must have opened that. */
  #isReplaced(): boolean {
    const nowMs = this.#options.clock.nowMs();
    this.#endedAtMs = [...this.#endedAtMs, nowMs].filter(
      (atMs) => nowMs - atMs < REPLACED_WITHIN_MS,
    );
    return this.#endedAtMs.length > ENDED_COUNT_MAX;
  }

  #yieldOrReopen(): void {
    const nowMs = this.#options.clock.nowMs();
    if (nowMs - this.#supersededAtMs < REPLACED_WITHIN_MS) {
      this.#options.onReplaced();
      return;
    }
    this.#supersededAtMs = nowMs;
    this.#options.log.warn({}, 'another session of this drone took over; opening a new one');
    if (this.#input !== undefined) this.open({ ...this.#input });
  }

  #reopenSoon(): void {
    const input = this.#input;
    this.#current = undefined;
    clearInterval(this.#heartbeats);
    if (input === undefined || this.#reopening !== undefined) return;
    this.#reopening = setTimeout(() => {
      this.#reopening = undefined;
      this.open({ ...input });
    }, REOPEN_MS);
  }

  #receive(message: DroneMessage): void {
    if (message.kind === 'session') {
      this.#begin(message.session, message.heartbeatMs);
      return;
    }
    if (message.session !== this.#current?.session) {
      this.#options.log.warn({ message }, 'dropped a message of another session');
      return;
    }
    if (message.kind === 'read_log') void this.#answer(message);
    else this.#options.onAction(message);
  }

  #begin(session: number, heartbeatMs: number): void {
    const input = this.#input;
    if (input === undefined) return;
    clearTimeout(this.#suspicion);
    this.#suspicion = undefined;
    const ref = { droneId: input.droneId, clockId: input.clockId, session };
    this.#current = ref;
    clearInterval(this.#heartbeats);
    this.#heartbeats = setInterval(() => void this.#heartbeat(heartbeatMs), heartbeatMs);
    void this.#heartbeat(heartbeatMs);
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const resolve of waiters) resolve(ref);
    this.#options.log.info({ session, heartbeatMs }, 'session opened');
  }

  /** What fails is not answered, and the controller gives up. */
  async #answer({ questionId, request }: LogQuestion): Promise<void> {
    const ref = this.#current;
    const most = (request.waitMs ?? 0) > 0 ? WAITING_AT_ONCE_MAX : ANSWERS_AT_ONCE_MAX;
    if (ref === undefined || this.#answering >= most) return;
    this.#answering += 1;
    try {
      const page = await this.#options.readLog(request);
      await this.#options.link.answer({ ...ref, questionId, page });
    } catch (error) {
      this.#options.log.debug({ err: error, questionId }, 'a question was not answered');
    } finally {
      this.#answering -= 1;
    }
  }

  async #heartbeat(timeoutMs: number): Promise<void> {
    const ref = this.#current;
    if (ref === undefined) return;
    void this.#sendGoodbye();
    const { clock, link } = this.#options;
    const localTimeMs = clock.nowMs();
    const { backends, engine, machine, warm } = this.#options.load();
    const load = {
      backends,
      roundTripMs: this.#roundTripMs,
      ...(engine && { engine: fitting(engine) }),
      ...(machine && { machine }),
      ...(warm.length > 0 && { warm: warm.map(fitting) }),
    };
    const usage = this.#options.takeUsage();
    const beat = { ...ref, localTimeMs, load, ...(usage && { usage: [...usage] }) };
    try {
      const { isDraining } = await link.heartbeat(beat, timeoutMs);
      this.#options.onDraining(isDraining);
      this.#roundTripMs = clock.nowMs() - localTimeMs;
    } catch (error) {
      this.#roundTripMs = undefined;
      if (error instanceof SessionSuperseded) this.superseded(ref);
      else if (isRefused(error)) await this.#heartbeatAlone(ref, beat, timeoutMs, error);
      else this.#options.log.debug({ err: error }, 'a heartbeat got no answer');
    }
  }

  /** That the drone is there counts more than what it tells of others: of a text in that, its keys must not be lost. */
  async #heartbeatAlone(
    ref: SessionRef,
    beat: HeartbeatInput,
    timeoutMs: number,
    why: unknown,
  ): Promise<void> {
    const { log, link, onDraining } = this.#options;
    log.error({ err: why }, 'a heartbeat was refused, and is sent without what it tells');
    const { backends, roundTripMs } = beat.load;
    try {
      const { isDraining } = await link.heartbeat(
        { ...withoutUsage(beat), load: { backends, roundTripMs } },
        timeoutMs,
      );
      onDraining(isDraining);
    } catch (error) {
      if (error instanceof SessionSuperseded) this.superseded(ref);
      else log.error({ err: error }, 'a heartbeat got no answer');
    }
  }
}

/** What one report says; the session's part is added when it is sent. */
export type ReportBody = Omit<ReportInput, 'droneId' | 'clockId' | 'session' | 'backendId'>;

const RETRY_FIRST_MS = 100;
const RETRY_MS_MAX = 2_000;
/** How long to wait for an answer where the ladder of the grant is not known. */
const ANSWER_MS_MAX = 5_000;

/** Texts of an engine or of a launch are of any length; a report that is too long would be refused. */
const DETAIL_LENGTH_MAX = 330;

function shorten(text: string): string {
  const shown = text.length <= DETAIL_LENGTH_MAX ? text : `${text.slice(0, DETAIL_LENGTH_MAX)} …`;
  // A cut may leave half a character.
  return shown.replaceAll('\0', '').toWellFormed();
}

function withoutTexts({ detail: _detail, output: _output, ...plain }: ReportBody): ReportBody {
  return plain;
}

function withoutUsage({ usage: _usage, ...beat }: HeartbeatInput): HeartbeatInput {
  return beat;
}

/** Whether a controller will never take it as it is: to send it again does not help. */
function isRefused(error: unknown): boolean {
  return leaseholdErrorOf(error)?.code === 'request.invalid';
}

/** Of the end of a program, which may be told at any length. */
function fitting<Told extends { readonly problem: string | null }>(told: Told): Told {
  return told.problem === null ? told : { ...told, problem: shorten(told.problem) };
}

export interface ReportContext {
  readonly link: ControllerLink;
  readonly session: DroneSession;
  readonly log: Log;
  readonly random: () => number;
  /** The database says that this backend is over: it must be stopped hard, now. */
  readonly onKill: (backendId: string) => void;
  /** Its address must not be given to anybody: it must be stopped hard, and this is why. */
  readonly onNotAllowed: (backendId: string) => void;
}

/**
 * The reports of one backend: sent in order, each again until it is answered. Reports are facts, so
 * sending one twice changes nothing.
 */
export class ReportLine {
  readonly #backendId: string;
  readonly #context: ReportContext;
  readonly #timeoutMs: number;
  #last: Promise<void> = Promise.resolve();
  #isClosed = false;

  /** The ladder of its grant, where it is known, bounds the wait for one answer. */
  constructor(backendId: string, context: ReportContext, ladder?: Ladder) {
    this.#backendId = backendId;
    this.#context = context;
    this.#timeoutMs = ladder === undefined ? ANSWER_MS_MAX : renewWindowMs([ladder]);
  }

  /** Resolves when the report has been answered, or will never be sent because the line closed. */
  send(body: ReportBody): Promise<void> {
    const { detail } = body;
    const fitting = detail === undefined ? body : { ...body, detail: shorten(detail) };
    this.#last = this.#last.then(() => this.#untilAnswered(fitting));
    return this.#last;
  }

  close(): void {
    this.#isClosed = true;
  }

  /** Asked again after every wait. */
  #hasClosed(): boolean {
    return this.#isClosed;
  }

  async #untilAnswered(body: ReportBody): Promise<void> {
    const { link, session, log, random } = this.#context;
    const plain = withoutTexts(body);
    let sent: ReportBody = body;
    for (let failureCount = 1; !this.#hasClosed(); failureCount += 1) {
      const ref = await session.ref();
      // It may have waited for the session of another warden.
      if (this.#hasClosed()) return;
      try {
        const outcome = await link.report(
          { ...ref, ...sent, backendId: this.#backendId },
          this.#timeoutMs,
        );
        if (outcome === 'kill') this.#context.onKill(this.#backendId);
        if (outcome === 'not_allowed') this.#context.onNotAllowed(this.#backendId);
        return;
      } catch (error) {
        const { status } = body;
        const about = { err: error, backendId: this.#backendId, status };
        if (error instanceof SessionSuperseded) session.superseded(ref);
        else if (isRefused(error) && sent !== plain) {
          // Its key is free when its end is known: that must not fail by what a program has written.
          log.error(about, 'a report was refused, and is sent without texts');
          sent = plain;
        } else if (isRefused(error)) log.error(about, 'a report was refused');
        else log.debug(about, 'a report got no answer');
        await pause(
          backoffMs(failureCount, { firstMs: RETRY_FIRST_MS, maxMs: RETRY_MS_MAX, random }),
        );
      }
    }
  }
}
