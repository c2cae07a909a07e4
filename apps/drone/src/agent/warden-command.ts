/**
 * An agent's command of its warden: finds one or starts one, takes command of it once a controller
 * has accepted the agent, and does so again when it is lost.
 *
 *   look ──▶ open a session ──accepted──▶ take command ──▶ adopt ──▶ in command ──lost──▶ look
 *
 * Until it is accepted the agent only looks, so that an agent with a wrong token, a wrong id or no
 * controller displaces no other.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../config.ts';
import { readWardenRecord, type WardenRecord } from '../records.ts';
import type { BackendSnapshot, IsolationFacts, WarmEnd } from '../warden/protocol.ts';
import type { BackendRun } from './backend-run.ts';
import {
  replyTimeoutMs,
  type SocketLinkOptions,
  SocketWardenLink,
  type SupplyNeeds,
  type WardenLink,
  type WardenListener,
  WardenLost,
  WardenSilent,
  type WardenSource,
} from './warden-link.ts';

/** How long a new warden may take until it answers: it first probes what the machine allows. */
const START_MS_MAX = 15_000;
/** How long the kernel may take to end a killed warden. */
const END_MS_MAX = 15_000;
const POLL_MS = 20;
const LAST_WORDS_MAX = 1_000;

interface WardenSupplyOptions {
  readonly stateDir: string;
  /**
   * The program and the arguments that become a warden; the state folder and a PATH are added. Undefined for an
   * agent that may start none.
   */
  readonly command: readonly string[] | undefined;
  readonly searchPath: string;
  readonly nowMs: () => number;
}

/** The warden of a state folder: the one that runs there, or a new one. */
export function wardenSource(options: WardenSupplyOptions): WardenSource {
  return {
    supply: async (listener, needs) => {
      const { replyTimeoutMs } = needs;
      const link = { listener, replyTimeoutMs, nowMs: options.nowMs };
      mkdirSync(options.stateDir, { recursive: true, mode: 0o700 });
      return (await findLiving(options, link, needs)) ?? (await startNew(options, link));
    },
    end: (pid) => endWarden(options.stateDir, pid),
  };
}

/** The one that answers; undefined when none runs. One that does not answer is ended if it may be. */
async function findLiving(
  { stateDir }: WardenSupplyOptions,
  link: SocketLinkOptions,
  needs: SupplyNeeds,
): Promise<WardenLink | undefined> {
  for (;;) {
    const record = readWardenRecord(stateDir);
    if (record === undefined) return undefined;
    try {
      return await SocketWardenLink.connect(record, link);
    } catch (error) {
      if (!(error instanceof WardenLost)) throw error;
      if (!(error instanceof WardenSilent)) return undefined;
      if (await needs.mayEndSilent(record.clockId)) await endSilent(stateDir, record);
      else await pause(POLL_MS);
    }
  }
}

/** @throws {WardenLost} when it ends, or does not answer in time. */
async function startNew(
  options: WardenSupplyOptions,
  link: SocketLinkOptions,
): Promise<WardenLink> {
  const { stateDir, searchPath, command } = options;
  if (command === undefined) throw new WardenLost(`no warden runs in ${stateDir}`);
  const former = readWardenRecord(options.stateDir)?.clockId;
  const logFile = path.join(stateDir, 'warden.log');
  const warden = startWarden({ logFile, stateDir, searchPath, command });
  const endsAtMs = performance.now() + START_MS_MAX;
  while (performance.now() < endsAtMs) {
    await pause(POLL_MS);
    const record = readWardenRecord(options.stateDir);
    if (record !== undefined && record.clockId !== former) {
      return SocketWardenLink.connect(record, link);
    }
    const end = warden.end();
    if (end !== undefined) throw new WardenLost(`the warden ended (${end}): ${lastWords(logFile)}`);
  }
  throw new WardenLost(`no warden came up; see ${logFile}`);
}

/** What a warden that could not start has left in its log. */
function lastWords(logFile: string): string {
  const [, ...lines] = readFileSync(logFile, 'utf8').trim().split('\n');
  const words = lines.filter((line) => !line.startsWith('    at ')).join(' ');
  return words === '' ? 'its log is empty' : words.slice(0, LAST_WORDS_MAX);
}

/** Its backends die with it. Returns when it is gone, so that the next one finds its place free. */
async function endSilent(stateDir: string, { pid }: WardenRecord): Promise<void> {
  endWarden(stateDir, pid);
  const endsAtMs = performance.now() + END_MS_MAX;
  while (isWardenOf(stateDir, pid) && performance.now() < endsAtMs) await pause(POLL_MS);
}

/** The number comes from a file or from long ago: the process must be the warden of this folder. */
function endWarden(stateDir: string, pid: number): void {
  if (isWardenOf(stateDir, pid)) process.kill(pid, 'SIGKILL');
}

function isWardenOf(stateDir: string, pid: number): boolean {
  try {
    const words = readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8').split('\0');
    return words[words.indexOf('warden') + 1] === stateDir;
  } catch {
    return false;
  }
}

/**
 * In a session of its own, so that what ends the agent's terminal or group does not reach it.
 * @throws {Error} when its log cannot be written: then neither can what it needs.
 */
function startWarden(of: {
  readonly logFile: string;
  readonly stateDir: string;
  readonly command: readonly string[];
  readonly searchPath: string;
}): { readonly end: () => string | undefined } {
  const { logFile, stateDir, command, searchPath } = of;
  const [file = '', ...args] = command;
  const child = withLog(logFile, (log) =>
    spawn(file, [...args, stateDir, searchPath], {
      detached: true,
      cwd: '/',
      stdio: ['ignore', log, log],
      // The agent's token is not for the warden, nor for what it starts.
      env: { PATH: searchPath },
    }),
  );
  child.unref();
  let end: string | undefined;
  child.once('error', (error) => {
    end = error.message;
  });
  child.once('exit', (code, signal) => {
    end ??= signal ?? `exit code ${String(code)}`;
  });
  return { end: () => end };
}

/** A start that fails is tried again and again, so it leaves no file open. */
function withLog(logFile: string, start: (log: number) => ChildProcess): ChildProcess {
  const log = openSync(logFile, 'w', 0o600);
  try {
    writeFileSync(log, `a warden is started, ${new Date().toISOString()}\n`);
    return start(log);
  } finally {
    closeSync(log);
  }
}

const REATTACH_MS = 500;

interface WardenCommandOptions {
  readonly wardens: WardenSource;
  readonly log: Log;
  /** The backends that this agent has to do with. */
  readonly runs: () => readonly BackendRun[];
  /**
   * Checks the isolation of a warden before anything depends on it.
   * @throws {IsolationTooWeak} when it is weaker than the configuration requires.
   */
  readonly examine: (isolation: IsolationFacts) => void;
  /**
   * Opens a session for a warden's clock, in place of one for another. The isolation is not known of
   * a warden that does not answer.
   */
  readonly openSession: (clockId: string, isolation?: IsolationFacts) => void;
  /** Resolves when a controller has accepted the newest session. */
  readonly accepted: () => Promise<void>;
  readonly adopt: (warden: WardenLink) => Promise<void>;
  /** There is no warden: nothing that it ran is known any more. */
  readonly abandon: () => void;
  readonly changed: (backend: BackendSnapshot) => void;
  readonly cooled: (end: WarmEnd) => void;
  /** A newer agent commands the warden. */
  readonly onReplaced: () => void;
}

/** A warden that was found, before it is commanded. */
interface Found {
  readonly warden: WardenLink;
  readonly attachment: Attachment;
}

/** See the protocol at the top of this file. */
export class WardenCommand {
  readonly #options: WardenCommandOptions;
  readonly #guard: WardenGuard;
  #warden: WardenLink | undefined;
  /** Whether a controller has ever accepted a session of this agent. */
  #isAccepted = false;
  #isClosed = false;

  constructor(options: WardenCommandOptions) {
    this.#options = options;
    const { wardens, log } = options;
    this.#guard = new WardenGuard({ end: (pid) => wardens.end(pid), log });
  }

  /** @throws {WardenLost} while this agent commands none. */
  get warden(): WardenLink {
    if (this.#warden === undefined) throw new WardenLost('there is no warden');
    return this.#warden;
  }

  /** The clock that local times belong to; undefined while this agent commands no warden. */
  get clockId(): string | undefined {
    return this.#warden?.identity.clockId;
  }

  /**
   * Resolves when this agent is in command for the first time; never if it is closed before that.
   * @throws {WardenLost} when no warden comes up.
   * @throws {IsolationTooWeak} when the machine does not provide what the configuration requires.
   */
  async take(): Promise<void> {
    const found = await this.#find();
    try {
      await this.#command(found);
    } catch (error) {
      await this.#takeAgain(error);
    }
  }

  /** Guards the warden; to be called at every tick. */
  tick(nowMs: number): void {
    if (this.#warden !== undefined) this.#guard.ask(this.#warden, this.#options.runs(), nowMs);
    this.#guard.tick(nowMs);
  }

  /** Kills whatever the warden still runs, and ends it. */
  async shutdown(): Promise<void> {
    await this.#warden
      ?.shutdown()
      .catch((error: unknown) =>
        this.#options.log.warn({ err: error }, 'the warden did not get the command to end'),
      );
  }

  /** Disconnects from the warden and leaves its backends to it. */
  close(): void {
    this.#isClosed = true;
    this.#warden?.close();
  }

  async #find(): Promise<Found> {
    const { log, wardens, changed, cooled, onReplaced, runs } = this.#options;
    const attachment = new Attachment(() => void this.#recover());
    const listener: WardenListener = {
      changed,
      cooled,
      superseded: () => {
        log.error({}, 'a newer agent commands the warden; this one ends');
        onReplaced();
      },
      lost: () => attachment.lost(),
    };
    const warden = await wardens.supply(listener, {
      replyTimeoutMs: () => replyTimeoutMs(runs().map((run) => run.identity.ladder)),
      mayEndSilent: (clockId) => this.#mayEndSilent(clockId),
    });
    try {
      this.#options.examine(warden.identity.isolation);
    } catch (error) {
      warden.close();
      throw error;
    }
    return { warden, attachment };
  }

  /**
   * A warden that does not answer may only be slow, and belong to a healthy agent: to end it takes
   * an accepted session. A warden that this agent has lost is ended by the guard in time.
   */
  async #mayEndSilent(clockId: string): Promise<boolean> {
    if (this.#isClosed) throw new WardenLost('the agent ends');
    if (this.#guard.isWaiting) return false;
    if (!this.#isAccepted) {
      this.#options.openSession(clockId);
      await this.#beAccepted();
    }
    return true;
  }

  /** @throws {WardenLost} when the warden is gone before it is in command. */
  async #command({ warden, attachment }: Found): Promise<void> {
    const { log, openSession, adopt } = this.#options;
    const { clockId, pid } = warden.identity;
    try {
      openSession(clockId, warden.identity.isolation);
      if (!this.#isAccepted) await attachment.step(this.#beAccepted());
      await attachment.step(warden.takeCommand());
      this.#warden = warden;
      await attachment.step(adopt(warden));
      attachment.complete();
    } catch (error) {
      warden.close();
      this.#lose();
      throw error;
    }
    this.#guard.found();
    log.info({ clockId, wardenPid: pid }, 'commands the warden');
  }

  async #beAccepted(): Promise<void> {
    await this.#options.accepted();
    this.#isAccepted = true;
  }

  #lose(): void {
    if (this.#warden !== undefined) this.#guard.lost(this.#warden, this.#options.runs());
    this.#warden = undefined;
    this.#options.abandon();
  }

  /**
   * The warden is dead, and its backends with it, or it does not answer any more. What a living one
   * still runs is adopted again.
   */
  async #recover(): Promise<void> {
    if (this.#isClosed) return;
    const backendCount = this.#options.runs().length;
    this.#lose();
    await this.#takeAgain(new WardenLost(`the warden of ${String(backendCount)} backends is gone`));
  }

  async #takeAgain(cause: unknown): Promise<void> {
    let problem = cause;
    while (!this.#hasEnded()) {
      this.#options.log.error({ err: problem }, 'without a warden; looking for one');
      try {
        await this.#command(await this.#find());
        return;
      } catch (error) {
        problem = error;
        await pause(REATTACH_MS);
      }
    }
  }

  #hasEnded(): boolean {
    return this.#isClosed;
  }
}

/**
 * One attempt to take command of a warden. While it is under way, the loss of the connection fails
 * it; once it is complete, the loss is reported. So one loss never starts two recoveries.
 */
class Attachment {
  readonly #onLost: () => void;
  readonly #failed: Promise<never>;
  #fail!: (error: WardenLost) => void;
  #isComplete = false;
  #isLost = false;

  constructor(onLost: () => void) {
    this.#onLost = onLost;
    this.#failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    // It may reject before anything waits for it; the next step then fails.
    this.#failed.catch(() => undefined);
  }

  /** @throws {WardenLost} when the connection is lost before `step` has ended. */
  step<T>(step: Promise<T>): Promise<T> {
    return Promise.race([this.#failed, step]);
  }

  /** @throws {WardenLost} when the connection has been lost. */
  complete(): void {
    if (this.#isLost) throw new WardenLost('the warden is gone');
    this.#isComplete = true;
  }

  lost(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    if (this.#isComplete) this.#onLost();
    else this.#fail(new WardenLost('the warden is gone'));
  }
}

/** A warden that does not answer, and when its backends must be gone. */
interface SilentWarden {
  readonly pid: number;
  readonly killAtMs: number;
  isKilled: boolean;
}

/**
 * Guards the warden, as the warden guards the backends: one that does not answer when a backend is
 * to stop is killed before that backend's hard deadline, whatever else the agent is doing.
 */
class WardenGuard {
  readonly #end: (pid: number) => void;
  readonly #log: Log;
  #silent: SilentWarden | undefined;
  #isAsking = false;

  constructor(options: { end: (pid: number) => void; log: Log }) {
    this.#end = options.end;
    this.#log = options.log;
  }

  /** Whether a warden that does not answer may still have backends, and is not killed yet. */
  get isWaiting(): boolean {
    return this.#silent !== undefined && !this.#silent.isKilled;
  }

  /**
   * Past a backend's soft deadline nothing else may ask the warden about it. The link gives the
   * warden up when it does not reply.
   */
  ask(warden: WardenLink, runs: readonly BackendRun[], nowMs: number): void {
    if (this.#isAsking || !runs.some((run) => (run.watch?.askAtMs ?? Infinity) <= nowMs)) return;
    this.#isAsking = true;
    const answered = (): void => {
      this.#isAsking = false;
    };
    warden.alive().then(answered, answered);
  }

  /** The connection has ended, and these backends may still run. */
  lost(warden: WardenLink, runs: readonly BackendRun[]): void {
    const { pid } = warden.identity;
    const moments = runs.flatMap(({ watch }) => (watch === undefined ? [] : [watch.killAtMs]));
    // Lost again before it listed what it runs: what is known from the first time still counts.
    if (this.#silent?.pid === pid) moments.push(this.#silent.killAtMs);
    if (moments.length === 0) return;
    this.#silent = { pid, killAtMs: Math.min(...moments), isKilled: false };
  }

  /** A warden answers again, or another one is there. */
  found(): void {
    this.#silent = undefined;
  }

  tick(nowMs: number): void {
    const silent = this.#silent;
    if (silent === undefined || silent.isKilled || nowMs < silent.killAtMs) return;
    silent.isKilled = true;
    this.#log.error({ wardenPid: silent.pid }, 'the warden does not answer; it is killed');
    this.#end(silent.pid);
  }
}
