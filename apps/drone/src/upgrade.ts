/**
 * `upgrade`: puts a drone into the hands of this version, while its backends run.
 *
 *   look at the warden ──▶ install ──▶ start an agent ──in command──▶ the service manager starts its own ──▶ done
 *
 * The agent that runs ends only when a controller has accepted the one that is started here. If that one does not
 * come so far, it is ended, the file is put back, and the former agent was in command all the time. The new agent
 * keeps the backends for as long as the service manager needs.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs, parseEnv } from 'node:util';
import { KEY_LADDERS, LeaseError } from '@leasehold/keys-core';
import { durationWord, readDuration, type Environment } from '@leasehold/service-kit';
import packageJson from '../package.json' with { type: 'json' };
import { SocketWardenLink, WardenLost } from './agent/warden-link.ts';
import { loadDroneConfig, processEnvironment, type DroneConfig } from './config.ts';
import { readAgentRecord, readWardenRecord, tryAgentRecord, type AgentRecord } from './records.ts';

const EXIT = { done: 0, failed: 1, usage: 2 } as const;
/** How long a step may take, unless the arguments say otherwise. */
const TIMEOUT_MS = 60_000;
const TIMEOUT_MS_MIN = 1_000;
const TIMEOUT_MS_MAX = 60 * 60_000;
const POLL_MS = 50;
const WARDEN_REPLY_MS = 3_000;
/** What an agent may take to leave. */
const LEAVE_MS_MAX = 5_000;
/** Of the log of an agent that did not start; a crash with its stack has as many. */
const LOG_LINES = 12;
/** From the end of one agent to the words of the next. */
const RECORD_MS_MAX = 5_000;

interface UpgradeOptions {
  readonly config: DroneConfig;
  /** What the new agent runs with. */
  readonly environment: Environment;
  /** The file that a service manager starts, if this program is to take its place. */
  readonly install: string | undefined;
  /** How long each step may take. */
  readonly timeoutMs: number;
}

interface Upgrade extends UpgradeOptions {
  /** The command line that runs this version, before the arguments. Its last word is the drone's own file. */
  readonly command: readonly string[];
  readonly build: string;
  readonly say: (line: string) => void;
}

/** The drone is as it was, or its agent is the new one without a service manager: the message tells which. */
class UpgradeFailed extends Error {
  override readonly name = 'UpgradeFailed';
}

/** `upgrade --config FILE`, and what else {@link upgradeOptions} takes. Returns the exit code. */
export async function runUpgradeCommand(
  program: { name: string; build: string; command: readonly string[] },
  args: readonly string[],
): Promise<number> {
  const { name, build, command } = program;
  try {
    const options = upgradeOptions(name, args, processEnvironment());
    const say = (line: string): void => void process.stdout.write(`${line}\n`);
    await upgradeDrone({ ...options, command, build, say });
    return EXIT.done;
  } catch (error) {
    const isUsage = error instanceof LeaseError;
    if (!isUsage && !(error instanceof UpgradeFailed) && !isOfFiles(error)) throw error;
    process.stderr.write(`${error.message}\n`);
    return isUsage ? EXIT.usage : EXIT.failed;
  }
}

/** A file that may not be read or written, which its message names. */
function isOfFiles(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

/** Resolves when an agent of this version, of the service manager, commands the warden. @throws {UpgradeFailed} */
export async function upgradeDrone(upgrade: Upgrade): Promise<void> {
  const { config, command, install, say } = upgrade;
  await requireWarden(config.stateDir);
  // Without its record nobody would know that the new agent commands the backends.
  tryAgentRecord(config.stateDir);
  const former = readAgentRecord(config.stateDir);
  const program = command.at(-1) ?? '';
  // A repeated upgrade would put this version in the place of the former program that is kept.
  const isThere = install !== undefined && isSameFile(program, install);
  const installed = install === undefined || isThere ? undefined : installFile(program, install);
  if (isThere) say(`${install} is this version already`);
  if (installed !== undefined) say(`installed ${String(install)}${keptText(installed)}`);
  const agent = startAgentOr(() => installed?.undo(), upgrade);
  if ((await outcomeOfStart(upgrade, agent, former)) === 'failed') {
    await endAgent(agent);
    installed?.undo();
    throw new UpgradeFailed(startFailureText(upgrade, installed));
  }
  say(`an agent of version ${packageJson.version} commands the backends; the former one has ended`);
  await untilSupervised(upgrade, agent);
  say('the agent of the service manager has taken over: the drone is upgraded');
}

/** @throws {UpgradeFailed} unless a warden runs that this version can command. */
async function requireWarden(stateDir: string): Promise<void> {
  const record = readWardenRecord(stateDir);
  const none = `No drone runs with the state folder ${stateDir}: there is nothing to upgrade. Start the drone with its service manager, or check \`stateDir\`, \`droneId\` and LEASEHOLD_HOME, and that you are the drone's user.`;
  if (record === undefined) throw new UpgradeFailed(none);
  const ignore = (): void => undefined;
  const listener = { changed: ignore, cooled: ignore, superseded: ignore, lost: ignore };
  try {
    const link = await SocketWardenLink.connect(record, {
      listener,
      nowMs: () => performance.now(),
      replyTimeoutMs: () => WARDEN_REPLY_MS,
    });
    link.close();
  } catch (cause) {
    if (cause instanceof WardenLost) throw new UpgradeFailed(none, { cause });
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UpgradeFailed(
      `This version cannot command the warden that runs (${why}). Drain the drone, stop it with SIGTERM and start the new version.`,
      { cause },
    );
  }
}

function keptText({ former }: InstalledFile): string {
  return former === undefined ? '' : `; the former program is ${former}`;
}

interface NewAgent {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly hasEnded: () => boolean;
}

/** Undoes what was done when there is not even a process: its log cannot be written, or the machine refuses one. */
function startAgentOr(undo: () => void, upgrade: Upgrade): NewAgent {
  try {
    return startAgent(upgrade);
  } catch (error) {
    undo();
    throw error;
  }
}

/** In a session of its own: it must outlive this command, which may be interrupted. */
function startAgent({ config, command, environment }: Upgrade): NewAgent {
  const [file = '', ...words] = command;
  const log = openSync(logOf(config.stateDir), 'w', 0o600);
  let child: ChildProcess;
  try {
    child = spawn(file, [...words, 'agent', '--config', config.file, '--adopt-only'], {
      detached: true,
      stdio: ['ignore', log, log],
      env: environment,
    });
  } finally {
    closeSync(log);
  }
  let isFailed = false;
  child.on('error', () => {
    isFailed = true;
  });
  child.unref();
  return {
    child,
    pid: child.pid ?? 0,
    hasEnded: () => isFailed || child.exitCode !== null || child.signalCode !== null,
  };
}

function logOf(stateDir: string): string {
  return path.join(stateDir, 'upgrade.log');
}

/** A service manager may be so fast that its agent is in command first. */
async function outcomeOfStart(
  upgrade: Upgrade,
  agent: NewAgent,
  former: AgentRecord | undefined,
): Promise<'in command' | 'failed'> {
  const isInCommand = (): boolean => {
    const record = readAgentRecord(upgrade.config.stateDir);
    if (record?.pid === agent.pid) return true;
    return record !== undefined && record.pid !== former?.pid && isOfThisVersion(upgrade, record);
  };
  await until(() => isInCommand() || agent.hasEnded(), upgrade.timeoutMs);
  if (isInCommand()) return 'in command';
  return 'failed';
}

function isOfThisVersion({ build }: Upgrade, record: AgentRecord): boolean {
  return record.version === packageJson.version && record.build === build;
}

/** As one that leaves: an agent that is in command after all must not stop its backends. */
async function endAgent(agent: NewAgent): Promise<void> {
  if (agent.hasEnded()) return;
  agent.child.kill('SIGUSR2');
  if (!(await until(agent.hasEnded, LEAVE_MS_MAX))) agent.child.kill('SIGKILL');
}

/** @throws {UpgradeFailed} when nobody takes over, the new agent ends before that, or one of another version takes over. */
async function untilSupervised(upgrade: Upgrade, agent: NewAgent): Promise<void> {
  const { config, timeoutMs } = upgrade;
  if (!(await until(agent.hasEnded, timeoutMs))) {
    throw new UpgradeFailed(
      `No service manager has started an agent. The new one (process ${String(agent.pid)}) keeps the backends running, and its log is ${logOf(config.stateDir)}. Start the drone with your service manager: it takes over.`,
    );
  }
  const isUpgraded = (): boolean => {
    const record = readAgentRecord(config.stateDir);
    return record !== undefined && record.pid !== agent.pid && isOfThisVersion(upgrade, record);
  };
  if (await until(isUpgraded, Math.min(RECORD_MS_MAX, timeoutMs))) return;
  if (readAgentRecord(config.stateDir)?.pid === agent.pid) {
    const { exitCode, signalCode } = agent.child;
    const { softAfterMs, renewAfterMs } = KEY_LADDERS.standard;
    throw new UpgradeFailed(
      `The new agent has ended (${signalCode ?? `exit code ${String(exitCode)}`}) before one of a service manager took over, and no agent commands the backends. Its log is ${logOf(config.stateDir)}. Start the drone with your service manager now: with the standard times, the backends are asked to stop from ${String((softAfterMs - renewAfterMs) / 1_000)} s after that end on.`,
    );
  }
  throw new UpgradeFailed(
    'An agent of another version has taken over: the service manager still starts the former program. The backends run. Put the new file where the service manager looks for it (--install does that), and run this again.',
  );
}

function startFailureText(upgrade: Upgrade, installed: InstalledFile | undefined): string {
  const lines = readFileSync(logOf(upgrade.config.stateDir), 'utf8')
    .trim()
    .split('\n')
    .slice(-LOG_LINES);
  return [
    `The new agent did not come into command in ${String(upgrade.timeoutMs / 1_000)} s. The former agent goes on with its backends${installed === undefined ? '' : ', and its file is back in its place'}. The last lines of the new one:`,
    ...lines,
  ].join('\n  ');
}

/** Whether it became so within the limit. */
async function until(isSo: () => boolean, limitMs: number): Promise<boolean> {
  const endsAtMs = performance.now() + limitMs;
  while (!isSo()) {
    if (performance.now() >= endsAtMs) return false;
    await pause(POLL_MS);
  }
  return true;
}

const EXECUTABLE_MODE = 0o755;

/** A program in the place of another one, which is kept beside it. */
interface InstalledFile {
  /** Where the former program is; undefined if no program was there. */
  readonly former: string | undefined;
  /** Puts the former program back. */
  undo(): void;
}

function isSameFile(program: string, target: string): boolean {
  return existsSync(target) && readFileSync(target).equals(readFileSync(program));
}

/** Replaces a file at once: a process that runs it keeps its own, and one that starts gets the old or the new one. */
function installFile(program: string, target: string): InstalledFile {
  const former = existsSync(target) ? `${target}.former` : undefined;
  if (former !== undefined) replace(target, former);
  replace(program, target);
  return {
    former,
    undo: () => {
      if (former === undefined) rmSync(target, { force: true });
      else renameSync(former, target);
    },
  };
}

function replace(source: string, target: string): void {
  const draft = `${target}.${String(process.pid)}`;
  copyFileSync(source, draft);
  chmodSync(draft, EXECUTABLE_MODE);
  const file = openSync(draft, 'r');
  fsyncSync(file);
  closeSync(file);
  renameSync(draft, target);
}

/** @throws {LeaseError} `config.invalid`, naming what is wrong and what is allowed. */
export function upgradeOptions(
  name: string,
  args: readonly string[],
  environment: Environment,
): UpgradeOptions {
  const values = parseUpgrade(name, args);
  const whole = { ...environment, ...environmentIn(values.environment) };
  return {
    config: loadDroneConfig(values.config, whole),
    environment: whole,
    install: values.install === undefined ? undefined : path.resolve(values.install),
    timeoutMs: timeoutMsOf(values.timeout),
  };
}

function parseUpgrade(name: string, args: readonly string[]) {
  const usage = `usage: ${name} upgrade --config FILE [--environment FILE] [--install FILE] [--timeout TIME]`;
  const text = { type: 'string' } as const;
  const options = { config: text, environment: text, install: text, timeout: text };
  try {
    const { values } = parseArgs({ args: [...args], options });
    const { config = '', install } = values;
    if (config !== '' && install !== '') return { ...values, config };
  } catch (cause) {
    const why = cause instanceof Error ? `${cause.message}\n` : '';
    throw new LeaseError('config.invalid', `${why}${usage}`, { cause });
  }
  throw new LeaseError('config.invalid', usage);
}

/** The variables of a file as systemd's `EnvironmentFile` reads it. */
function environmentIn(file: string | undefined): Environment {
  if (file === undefined) return {};
  try {
    return parseEnv(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new LeaseError('config.invalid', `--environment: ${file} cannot be read`, { cause });
  }
}

function timeoutMsOf(text: string | undefined): number {
  const timeoutMs = text === undefined ? TIMEOUT_MS : readDuration(text);
  if (timeoutMs !== undefined && timeoutMs >= TIMEOUT_MS_MIN && timeoutMs <= TIMEOUT_MS_MAX) {
    return timeoutMs;
  }
  const range = `${durationWord(TIMEOUT_MS_MIN)} to ${durationWord(TIMEOUT_MS_MAX)}`;
  throw new LeaseError(
    'config.invalid',
    `--timeout: must be a time from ${range}, such as 90s, or in milliseconds, and is "${String(text)}"`,
  );
}
