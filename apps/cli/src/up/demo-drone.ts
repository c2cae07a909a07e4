import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DroneBindings } from '@leasehold/keys-core/access';
import { writePrivateJson } from '../config/home.ts';

/** The drone that `leasehold up` runs. */
export const DEMO_DRONE_ID = 'drone-1';
const CAPACITY = 100;
const PROGRAM = 'room';

/** What its token is bound to: its program and capacity, and backends on this machine. */
export const DEMO_DRONE_BINDINGS: DroneBindings = {
  programs: [PROGRAM],
  capacity: CAPACITY,
  addresses: ['127.0.0.0/8'],
};

/** Where its parts are in the home. */
export interface DemoDrone {
  readonly configPath: string;
  readonly stateDir: string;
}

/** Writes its configuration: it offers the program `room`. */
export function writeDemoDrone(home: string, roomServerPath: string): DemoDrone {
  const stateDir = join(home, 'drone');
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const configPath = join(home, 'drone.json');
  writePrivateJson(configPath, {
    droneId: DEMO_DRONE_ID,
    stateDir,
    capacity: CAPACITY,
    programs: {
      [PROGRAM]: {
        command: process.execPath,
        args: [roomServerPath],
        // In the program's own folder of data, which is where it starts.
        env: { ROOM_STORE: 'rooms' },
        port: 'auto',
        readiness: { type: 'tcp' },
      },
    },
  });
  return { configPath, stateDir };
}

/** The warden's process id, by its own record in the drone's state; null when none exists. */
export function wardenPidOf(drone: DemoDrone): number | null {
  try {
    const record = JSON.parse(readFileSync(join(drone.stateDir, 'warden.json'), 'utf8')) as {
      pid?: unknown;
    };
    return typeof record.pid === 'number' ? record.pid : null;
  } catch {
    return null;
  }
}
