import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Figure } from '../rig/figures.ts';
import { tripsFigure } from '../rig/round-trips.ts';
import type { Rig } from '../rig/rig.ts';

const PROGRAM = 'tools/bench/reservations/remote-connects.ts';
const PROGRAM_MS_MAX = 180_000;

/** How many more round trips a connect takes when its key lives in another datacenter. */
export async function measureRemoteConnects(rig: Rig): Promise<Figure[]> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      ...['--conditions=@leasehold/source', '--import', 'tsx'],
      ...[PROGRAM, rig.isQuick ? '5' : '25'],
    ],
    { timeout: PROGRAM_MS_MAX },
  );
  const { localMs, remoteMs } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as {
    localMs: number;
    remoteMs: number;
  };
  return [
    tripsFigure('a connect to a remote key, more than to a local one', [1, 1], remoteMs - localMs),
  ];
}
