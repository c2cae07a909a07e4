import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { TerminateAction } from '@leasehold/api';
import type { IsolationLevel } from '@leasehold/api/drone-file';
import {
  createBootClock,
  createBootReader,
  type TickingClock,
} from '@leasehold/service-kit/boot-clock';
import { DroneAgent } from '../agent/agent.ts';
import type { WardenSource } from '../agent/warden-link.ts';
import type { CommandConfig, DroneConfig } from '../config.ts';
import { ScriptedController } from './scripted-controller.ts';
import { SimulatedWarden } from './simulated-warden.ts';
import { until } from './wait.ts';

export const room: CommandConfig = {
  kind: 'command',
  command: '/bin/true',
  args: [],
  env: {},
  reads: [],
  cwd: '/',
  memoryMax: '2g',
  pidsMax: 1_024,
  fileSizeMax: '16g',
  user: { uid: 2_100_000_001, gid: 2_100_000_001 },
  isUserNamed: false,
  port: 'auto',
  stopSignal: 'SIGTERM',
  stopGraceMs: 1_000,
  readiness: { type: 'none', timeoutMs: 300_000, intervalMs: 100 },
  allowArgs: false,
  allowEnv: [],
  warm: 0,
};

/** How far a clock that hurries goes with each tick: less than what a keeper takes for a gap. */
const HURRY_MS = 400;

/** Agents between a warden with simulated processes and a controller that the test controls. */
export class AgentStage {
  readonly stateDir: string = mkdtempSync(path.join(os.tmpdir(), 'lh-agent-'));
  #readMs = createBootReader();
  #stopHurrying: () => void = () => undefined;
  readonly clock: TickingClock = createBootClock(() => this.#readMs());
  readonly warden: SimulatedWarden = new SimulatedWarden(() => this.clock.nowMs());
  readonly controller: ScriptedController = new ScriptedController();
  /** The messages of what the agents have logged as warnings. */
  readonly warnings: string[] = [];
  readonly #agents: DroneAgent[] = [];

  /** Ends every agent; the warden and its backends are left. */
  async close(): Promise<void> {
    for (const agent of this.#agents) await agent.leave();
    this.#stopHurrying();
    rmSync(this.stateDir, { recursive: true, force: true, maxRetries: 10 });
  }

  /** From now on the clock goes on fast, and with its ticks alone: not with the time that the machine takes. */
  hurry(): void {
    this.#stopHurrying();
    let nowMs = this.clock.nowMs();
    this.#readMs = () => nowMs;
    this.#stopHurrying = this.clock.onTick(() => void (nowMs += HURRY_MS));
  }

  /** An agent in command, whose session is open. */
  async start(
    programs: DroneConfig['programs'] = { room },
    supply?: WardenSource['supply'],
  ): Promise<DroneAgent> {
    const agent = this.create(programs, supply);
    await agent.start();
    await until(
      'a heartbeat says that the session is open',
      () => this.controller.heartbeats.length > 0,
    );
    return agent;
  }

  create(
    programs: DroneConfig['programs'] = { room },
    supply: WardenSource['supply'] = (listener) => this.warden.supply(listener),
    require: IsolationLevel = 'none',
  ): DroneAgent {
    const agent = new DroneAgent({
      config: {
        droneId: 'drone-1',
        datacenter: 'local',
        controllerUrls: ['http://127.0.0.1:1'],
        token: 'lh_none',
        stateDir: this.stateDir,
        home: path.join(this.stateDir, 'home'),
        file: '/nowhere/drone.json',
        isolation: { require },
        engine: { socket: '/nowhere/engine.sock' },
        capacity: 10,
        host: '127.0.0.1',
        ports: { from: 31_000, to: 31_100 },
        programs,
        logLevel: 'silent',
      },
      clock: this.clock,
      log: {
        debug: () => undefined,
        info: () => undefined,
        warn: (_fields, message) => void this.warnings.push(message),
        error: () => undefined,
      },
      random: () => 0.5,
      version: '0.0.0',
      link: this.controller,
      entry: '/nowhere/main.mjs',
      inheritedEnv: {},
      wardens: { supply, end: () => undefined },
    });
    this.#agents.push(agent);
    return agent;
  }

  async untilReported(status: string, backendId = 'b1'): Promise<void> {
    await until(`${backendId} is reported ${status}`, () =>
      this.controller.statusesOf(backendId).includes(status),
    );
  }

  terminateOf(backendId: string, actionId: string): TerminateAction {
    return {
      kind: 'terminate',
      actionId,
      session: this.controller.session,
      clockId: this.warden.identity.clockId,
      backendId,
      mode: 'soft',
      reason: 'external',
    };
  }

  /** Waits until nothing more comes: until a later action was carried out. */
  async untilSettled(): Promise<void> {
    this.controller.send(this.terminateOf('nobody', '999'));
    await until('a later action is acknowledged', () => this.controller.acks.includes('999'));
  }
}
