/** A whole Leasehold to attack: a drone with backends, and healthy callers. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { Stage } from '@leasehold/testing/stack';
import { startHealthy, type Healthy } from './healthy.ts';

const KB_PER_MB = 1_024;

export class AttackStage extends Stage {
  #healthy: Healthy | undefined;
  /** Of attackers: a viewer, and a service. */
  readonly tokens = { viewer: '', attacker: '' };
  /** What the programs of backends may read. */
  readonly openFolder: string = path.join(this.folder, 'programs');

  /** Starts everything on a new database of the cluster, under the `fast` ladder. */
  static open(clusterUrl: string): Promise<AttackStage> {
    return new AttackStage({ name: 'attack', clusterUrl }).begin();
  }

  override async begin(): Promise<this> {
    await super.begin();
    await mkdir(this.openFolder);
    const here = import.meta.dirname;
    const hostile = path.join(here, '..', '..', 'apps', 'drone', 'src', 'testing', 'hostile.mjs');
    const { execPath: command } = process;
    await this.startDrone({
      droneId: 'attacked',
      programs: {
        server: { command, args: [await this.#program(path.join(here, 'server.mjs'))] },
        hostile: {
          command,
          args: [await this.#program(hostile), path.join(this.openFolder, 'targets.json')],
          readiness: { type: 'none' },
        },
      },
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

  /** Resident memory of the controller, in MB. */
  async memoryMb(): Promise<number> {
    const pid = String(this.controller().pid);
    const { stdout } = await promisify(execFile)('ps', ['-o', 'rss=', '-p', pid]);
    return Math.round(Number(stdout.trim()) / KB_PER_MB);
  }

  async #tokenOf(name: string, role: 'viewer' | 'client'): Promise<string> {
    return (await this.api().tokens.create.mutate({ name, role })).secret;
  }

  async #program(from: string): Promise<string> {
    const file = path.join(this.openFolder, path.basename(from));
    await copyFile(from, file);
    return file;
  }
}
