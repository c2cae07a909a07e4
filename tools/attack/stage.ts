/** A whole Leasehold to attack: a drone with backends, and healthy callers. */
import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  consoleOrigin,
  copyDrone,
  freePort,
  Stage,
  type GatewayProcess,
  type StageOptions,
  type TestProcess,
} from '@leasehold/testing/stack';
import { startHealthy, type Healthy } from './healthy.ts';

const KB_PER_MB = 1_024;

/** What the backend `greedy` may have. */
export const GREEDY_LIMITS = { memoryMax: '64m', pidsMax: 30, fileSizeMax: '8m' } as const;
/** In the names of the processes that it starts. */
export const GREEDY_MARKER = 'leasehold-greedy';

/** What follows the id of a key in the name of its host. */
export const KEY_HOSTS = '*.rooms.example.com';

export type Preset = 'fast' | 'standard';

export class AttackStage extends Stage {
  #healthy: Healthy | undefined;
  /** Of attackers: a viewer, and a service. */
  readonly tokens = { viewer: '', attacker: '' };
  readonly #consolePort: number;
  #console: Promise<TestProcess> | undefined;
  readonly #gatewayPort: number;
  #gateway: Promise<GatewayProcess> | undefined;
  /** What the programs of backends may read. */
  readonly #openFolder: string = path.join(this.folder, 'programs');
  /** Where hostile programs read what there is to attack. */
  readonly targetsFile: string = path.join(this.#openFolder, 'targets.json');

  /** Starts everything on a new database of the cluster. */
  static async open(clusterUrl: string, ladder: Preset = 'fast'): Promise<AttackStage> {
    const ports = { console: await freePort(), gateway: await freePort() };
    return new AttackStage({ clusterUrl, ladder }, ports).begin();
  }

  constructor(options: StageOptions, ports: { console: number; gateway: number }) {
    super({
      name: 'attack',
      consoleOrigin: consoleOrigin(ports.console),
      env: {
        LEASEHOLD_GATEWAY_URL: `http://127.0.0.1:${String(ports.gateway)}`,
        LEASEHOLD_GATEWAY_HOSTS: KEY_HOSTS,
      },
      ...options,
    });
    this.#consolePort = ports.console;
    this.#gatewayPort = ports.gateway;
  }

  override async begin(): Promise<this> {
    await super.begin();
    await mkdir(this.#openFolder);
    await this.startDrone({
      droneId: 'attacked',
      entry: await this.#droneWithOpenFiles(),
      programs: await this.#programs(),
    });
    for (const role of ['viewer', 'attacker'] as const) {
      this.tokens[role] = await this.#tokenOf(role, role === 'viewer' ? 'viewer' : 'client');
    }
    const token = await this.#tokenOf('healthy', 'client');
    const healthy = await startHealthy({ url: this.url, token, program: 'server' });
    this.onClose(() => healthy[Symbol.asyncDispose]());
    this.#healthy = healthy;
    return this;
  }

  get healthy(): Healthy {
    if (this.#healthy === undefined) throw new Error('the stage has not begun');
    return this.#healthy;
  }

  /** Where people would open the console. */
  get consoleUrl(): string {
    return consoleOrigin(this.#consolePort);
  }

  /** The console; it is started when it is first asked for. */
  console(): Promise<TestProcess> {
    return (this.#console ??= this.startConsole({ port: this.#consolePort }));
  }

  /** A gateway; it is started when it is first asked for. */
  gateway(): Promise<GatewayProcess> {
    return (this.#gateway ??= this.startGateway({
      port: this.#gatewayPort,
      env: { LEASEHOLD_GATEWAY_HOSTS: KEY_HOSTS },
    }));
  }

  /** Resident memory of a process, by default the controller, in MB. */
  async memoryMb(pid = this.controller().pid): Promise<number> {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'rss=', '-p', String(pid)]);
    return Math.round(Number(stdout.trim()) / KB_PER_MB);
  }

  async #programs(): Promise<Record<string, unknown>> {
    const { execPath: command } = process;
    const backends = path.join(import.meta.dirname, 'backends');
    const drone = path.join(import.meta.dirname, '..', '..', 'apps', 'drone', 'src', 'testing');
    const readiness = { type: 'none' };
    const [server, mirror, hostile, squatter, greedy] = await Promise.all(
      [
        path.join(backends, 'server.mjs'),
        path.join(backends, 'mirror.mjs'),
        path.join(drone, 'hostile.mjs'),
        path.join(backends, 'squatter.mjs'),
        path.join(backends, 'greedy.sh'),
      ].map((file) => this.#program(file)),
    );
    return {
      server: { command, args: [server] },
      mirror: { command, args: [mirror] },
      hostile: { command, args: [hostile, this.targetsFile], readiness },
      squatter: { command, args: [squatter, this.targetsFile], readiness },
      greedy: { command: '/bin/bash', args: [greedy, GREEDY_MARKER], readiness, ...GREEDY_LIMITS },
    };
  }

  /** A drone that is started with files open that only its starter may read. */
  async #droneWithOpenFiles(): Promise<string> {
    const secret = path.join(this.home, 'secret-of-the-starter');
    await writeFile(secret, `lh_${'s'.repeat(43)}\n`, { mode: 0o600 });
    const entry = path.join(this.folder, 'start-drone');
    const drone = copyDrone(this.folder);
    const words = drone.endsWith('js') ? `'${process.execPath}' '${drone}'` : `'${drone}'`;
    const open = [9, 47, 100].map((descriptor) => `${String(descriptor)}<'${secret}'`).join(' ');
    await writeFile(entry, `#!/bin/bash\nexec ${words} "$@" ${open}\n`);
    await chmod(entry, 0o755);
    return entry;
  }

  async #tokenOf(name: string, role: 'viewer' | 'client'): Promise<string> {
    return (await this.api().tokens.create.mutate({ name, role })).secret;
  }

  async #program(from: string): Promise<string> {
    const file = path.join(this.#openFolder, path.basename(from));
    await copyFile(from, file);
    return file;
  }
}
