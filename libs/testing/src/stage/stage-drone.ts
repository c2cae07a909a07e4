import { existsSync, readFileSync } from 'node:fs';
import { chown, mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { startProcess, type MachineUser, type TestProcess } from '../test-process.ts';
import { waitUntil } from '../wait-until.ts';

/** How to start a drone as it ships. */
export interface DronePlan {
  readonly droneId: string;
  /** As in a drone's config file. */
  readonly programs: Readonly<Record<string, unknown>>;
  readonly controllerUrls: readonly string[];
  readonly token: string;
  /** A folder of the test's own. */
  readonly home: string;
  /** Where its backends listen. */
  readonly ports: { readonly from: number; readonly to: number };
  /** Run as agent and as warden: a file of Node, or an executable. */
  readonly entry: string;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Further fields of its configuration. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  /** Who runs it, and owns its home; by default who runs the test. */
  readonly user?: MachineUser | undefined;
}

/** What a warden has written down about itself. */
export interface WardenRecord {
  readonly pid: number;
  readonly clockId: string;
  readonly socketPath: string;
}

/** A drone whose agent and warden can be made to fail, each by itself. */
export class StageDrone {
  readonly droneId: string;
  readonly stateDir: string;
  readonly configFile: string;
  /** Its own program. */
  readonly file: string;
  readonly #plan: DronePlan;
  readonly #agents: TestProcess[] = [];

  /** Its first agent is not started yet. */
  constructor(plan: DronePlan) {
    this.droneId = plan.droneId;
    this.stateDir = path.join(plan.home, plan.droneId);
    this.configFile = path.join(plan.home, `${plan.droneId}.json`);
    this.file = plan.entry;
    this.#plan = plan;
  }

  /** The agent that was started last. */
  get agent(): TestProcess {
    const agent = this.#agents.at(-1);
    if (agent === undefined) throw new Error(`${this.droneId} has no agent`);
    return agent;
  }

  /** Starts an agent, or another one on the same state, as a supervisor does; by default of the same program. */
  async startAgent(entry: string = this.file): Promise<TestProcess> {
    const { programs, controllerUrls, ports, config, home, user } = this.#plan;
    const { droneId, stateDir, configFile } = this;
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    const settings = { droneId, stateDir, controllerUrls, programs, ports, ...config };
    await writeFile(configFile, JSON.stringify(settings));
    if (user !== undefined) await giveTo(user, home);
    const [command, ...args] = [
      ...(entry.endsWith('js') ? [process.execPath, entry] : [entry]),
      'agent',
      '--config',
      configFile,
    ];
    const env = { LEASEHOLD_LOG_LEVEL: 'debug', ...this.environment(), ...this.#plan.env };
    const agent = await startProcess({ name: `drone ${droneId}`, command, args, env, user });
    this.#agents.push(agent);
    return agent;
  }

  /** What a command for this drone needs. */
  environment(): Readonly<Record<string, string>> {
    return { LEASEHOLD_HOME: this.#plan.home, LEASEHOLD_TOKEN: this.#plan.token };
  }

  /** @throws before there has been one. */
  warden(): WardenRecord {
    return JSON.parse(readFileSync(this.#wardenFile, 'utf8')) as WardenRecord;
  }

  signalWarden(signal: NodeJS.Signals): void {
    const { pid } = this.warden();
    if (this.#isWarden(pid)) process.kill(pid, signal);
  }

  /** `kill -9`; the kernel ends its backends. */
  async killWarden(): Promise<void> {
    if (!existsSync(this.#wardenFile)) return;
    const { pid } = this.warden();
    this.signalWarden('SIGKILL');
    await waitUntil(() => !this.#isWarden(pid), {
      what: `the end of the warden of ${this.droneId}`,
    });
  }

  /** Ends agent, warden and backends, whatever state they are in. */
  async stop(): Promise<void> {
    for (const agent of this.#agents) await agent.kill();
    await this.killWarden();
  }

  /** What its agents and wardens have logged. */
  log(): string {
    const wardenLog = path.join(this.stateDir, 'warden.log');
    return [
      ...this.#agents.map((agent) => agent.log()),
      existsSync(wardenLog) ? readFileSync(wardenLog, 'utf8') : '',
    ].join('---\n');
  }

  get #wardenFile(): string {
    return path.join(this.stateDir, 'warden.json');
  }

  /** The record may be of a warden that has ended, and its PID may be another process by now. */
  #isWarden(pid: number): boolean {
    try {
      return readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8').includes(this.stateDir);
    } catch {
      return false;
    }
  }
}

async function giveTo({ uid, gid }: MachineUser, folder: string): Promise<void> {
  await chown(folder, uid, gid);
  for (const name of await readdir(folder, { recursive: true })) {
    await chown(path.join(folder, name), uid, gid);
  }
}
