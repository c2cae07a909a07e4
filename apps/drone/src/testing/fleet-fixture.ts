/** A controller, a drone, and what its backends wrote: what ships, as it ships, by default with the `fast` ladder. */
import { chmodSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import {
  forTest,
  Stage,
  type DroneOptions,
  type StageDrone,
  type StageOptions,
} from '@leasehold/testing';

export const DRONE_ID = 'drone-1';
/** The folder that backends write to. */
export const OPEN = 'open';

/** One line of a backend's own account of itself. Instants are readings of the boot clock. */
export interface WitnessLine {
  readonly kind: 'start' | 'beat' | 'stop';
  readonly backendId: string;
  readonly fencingToken: string;
  readonly atMs: number;
}

const BEAT_SECONDS = '0.05';

/** A program that writes when it starts, that it lives, and that it was asked to stop. */
export function witnessProgram(folder: string): Record<string, unknown> {
  const say = (kind: string): string =>
    `read -r now _ < /proc/uptime; echo "${kind} $LEASEHOLD_BACKEND_ID $LEASEHOLD_FENCING_TOKEN $now" >> ${folder}/${OPEN}/witness`;
  return {
    command: '/bin/sh',
    args: [
      '-c',
      `${say('start')}; trap '${say('stop')}; exit 0' TERM; while :; do ${say('beat')}; sleep ${BEAT_SECONDS}; done`,
    ],
    readiness: { type: 'none' },
  };
}

/** A ladder with room for a restart on a busy machine, for tests in which a key must be kept. */
export const PATIENT_LADDER = {
  renewAfterMs: 1_500,
  softAfterMs: 8_000,
  hardAfterMs: 9_000,
  ttlMs: 11_000,
};

export class Fleet extends Stage {
  /** Its drones are not started yet. */
  static open(options: StageOptions = {}): Promise<Fleet> {
    const env = { LEASEHOLD_HEARTBEAT_MS: '700', ...options.env };
    return new Fleet(forTest({ ...options, env })).begin();
  }

  override async begin(): Promise<this> {
    // Programs run as users of their own: there is one folder that all of them may write to.
    mkdirSync(path.join(this.folder, OPEN));
    chmodSync(path.join(this.folder, OPEN), 0o777);
    return super.begin();
  }

  /** By default {@link DRONE_ID}, with a witness as its program. */
  override startDrone(options: Partial<DroneOptions> = {}): Promise<StageDrone> {
    const programs = { witness: witnessProgram(this.folder) };
    const config = { capacity: 100, ...options.config };
    return super.startDrone({ droneId: DRONE_ID, programs, ...options, config });
  }

  /** What every backend wrote: see {@link witnessProgram}. */
  witness(): WitnessLine[] {
    const file = path.join(this.folder, OPEN, 'witness');
    if (!existsSync(file)) return [];
    return readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [kind = '', backendId = '', fencingToken = '', seconds = ''] = line.split(' ');
        const atMs = Number(seconds) * 1_000;
        return { kind: kind as WitnessLine['kind'], backendId, fencingToken, atMs };
      });
  }
}
