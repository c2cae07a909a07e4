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
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { SocketWardenLink } from '../agent/warden-link/socket-warden-link.ts';
import { WardenLost } from '../agent/warden-link/warden-link.ts';
import { readWardenRecord } from '../warden/link/socket-path.ts';
import { readAgentRecord, type AgentRecord } from './agent-record.ts';
import { installFile, type InstalledFile } from './installed-file.ts';
import type { UpgradeOptions } from './upgrade-options.ts';

const POLL_MS = 50;
const WARDEN_REPLY_MS = 3_000;
/** What an agent may take to leave. */
const LEAVE_MS_MAX = 5_000;
/** Of the log of an agent that did not start; a crash with its stack has as many. */
const LOG_LINES = 12;
/** From the end of one agent to the words of the next. */
const RECORD_MS_MAX = 5_000;

export interface Upgrade extends UpgradeOptions {
  /** The command line that runs this version, before the arguments. Its last word is the drone's own file. */
  readonly command: readonly string[];
  readonly build: string | null;
  readonly say: (line: string) => void;
}

/** The drone is as it was, or its agent is the new one without a service manager: the message tells which. */
export class UpgradeFailed extends Error {
  override readonly name = 'UpgradeFailed';
}

/** Resolves when an agent of this version, of the service manager, commands the warden. @throws {UpgradeFailed} */
export async function upgradeDrone(upgrade: Upgrade): Promise<void> {
  const { config, command, install, say } = upgrade;
  await requireWarden(config.stateDir);
  const former = readAgentRecord(config.stateDir);
  const installed = install === undefined ? undefined : installFile(command.at(-1) ?? '', install);
  if (installed !== undefined) say(`installed ${String(install)}${keptText(installed)}`);
  const agent = startAgent(upgrade);
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
  const listener = { changed: ignore, superseded: ignore, lost: ignore };
  try {
    const link = await SocketWardenLink.connect(record, {
      ...{ listener, nowMs: () => performance.now() },
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

/** In a session of its own: it must outlive this command, which may be interrupted. */
function startAgent({ config, command, environment }: Upgrade): NewAgent {
  const [file = '', ...words] = command;
  const log = openSync(logOf(config.stateDir), 'w', 0o600);
  const child = spawn(file, [...words, 'agent', '--config', config.file, '--adopt-only'], {
    detached: true,
    stdio: ['ignore', log, log],
    env: environment,
  });
  closeSync(log);
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

/** @throws {UpgradeFailed} when nobody takes over, or an agent of another version does. */
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
