import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  startDroneProcess,
  waitUntil,
  type DroneProcess,
  type DroneProcessOptions,
} from '@leasehold/testing/stack';

/** What a warden has written down about itself. */
export interface WardenRecord {
  readonly pid: number;
  readonly clockId: string;
}

/** A drone whose agent and warden can be made to fail, each by itself. */
export class StageDrone {
  readonly droneId: string;
  readonly #options: DroneProcessOptions;
  readonly #agents: DroneProcess[];

  private constructor(options: DroneProcessOptions, agent: DroneProcess) {
    this.droneId = options.droneId;
    this.#options = options;
    this.#agents = [agent];
  }

  static async start(options: DroneProcessOptions): Promise<StageDrone> {
    const agent = await startDroneProcess({
      ...options,
      env: { LEASEHOLD_LOG_LEVEL: 'debug', ...options.env },
    });
    return new StageDrone(options, agent);
  }

  /** The agent that was started last. */
  get agent(): DroneProcess {
    return this.#agents.at(-1) as DroneProcess;
  }

  /** Starts another agent on the same state, as a supervisor does; by default of the same program. */
  async startAgent(entry?: string): Promise<void> {
    const options = { ...this.#options, entry: entry ?? this.#options.entry };
    this.#agents.push(await startDroneProcess(options));
  }

  /** What a command for this drone needs. */
  settings(): { configFile: string; env: Readonly<Record<string, string>> } {
    const { home, token } = this.#options;
    return {
      configFile: path.join(home, `${this.droneId}.json`),
      env: { LEASEHOLD_HOME: home, LEASEHOLD_TOKEN: token },
    };
  }

  warden(): WardenRecord {
    const file = path.join(this.agent.stateDir, 'warden.json');
    return JSON.parse(readFileSync(file, 'utf8')) as WardenRecord;
  }

  signalWarden(signal: NodeJS.Signals): void {
    const { pid } = this.warden();
    if (this.#isWarden(pid)) process.kill(pid, signal);
  }

  /** `kill -9`; the kernel ends its backends. */
  async killWarden(): Promise<void> {
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

  log(): string {
    return this.#agents.map((agent) => agent.log()).join('--- started again\n');
  }

  /** The record may be of a warden that has ended, and its PID may be another process by now. */
  #isWarden(pid: number): boolean {
    try {
      return readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8').includes(this.agent.stateDir);
    } catch {
      return false;
    }
  }
}
