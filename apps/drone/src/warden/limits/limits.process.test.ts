import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CommandLimits } from '../link/protocol.ts';
import { processesWith } from '@leasehold/testing';
import { testedDrone, type TestedDrone } from '../../testing/tested-drone.ts';
import { until } from '../../testing/wait.ts';
import { startOf, startWarden, type WardenFixture } from '../../testing/warden-fixture.ts';

const MEGABYTE = 1_048_576;
const LIMITS: CommandLimits = {
  memoryBytes: 64 * MEGABYTE,
  pids: 30,
  cpus: null,
  fileBytes: MEGABYTE,
  together: 1,
};

let drone: TestedDrone;
beforeAll(() => {
  drone = testedDrone();
});
afterAll(() => {
  drone[Symbol.dispose]();
});

/** Starts a backend of a script with {@link LIMITS}. @returns what it has printed, when it has printed `done`. */
async function printedBy(warden: WardenFixture, script: string): Promise<string> {
  const { link } = await warden.connect();
  const start = startOf(`${script}\necho done; exec sleep 600`, { cwd: null, limits: LIMITS });
  await link.start(start);
  const log = path.join(warden.stateDir, 'logs', `${start.backendId}.stdout.log`);
  await until('it is done', () => textOf(log).endsWith('done\n'), 30_000);
  return textOf(log);
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

describe.each([
  { who: 'root or the user who runs the tests', isOrdinaryUser: false },
  { who: 'an ordinary user', isOrdinaryUser: true },
])('a hostile program of a drone of $who', ({ isOrdinaryUser }) => {
  test('that forks has at most as many processes as it may', async () => {
    await using warden = await startWarden(drone, { isOrdinaryUser });
    const marker = `leasehold-bomb-${path.basename(warden.stateDir).toLowerCase()}`;

    await printedBy(
      warden,
      `( i=0; while [ $i -lt 300 ]; do i=$((i+1)); bash -c 'exec -a ${marker} sleep 600' & done ) 2>/dev/null`,
    );

    const count = processesWith(marker).length;
    expect(count).toBeGreaterThan(10);
    expect(count).toBeLessThanOrEqual(LIMITS.pids);
  });

  test('that takes memory, in itself or as files in memory, writes long files or opens many, is stopped', async () => {
    await using warden = await startWarden(drone, { isOrdinaryUser });

    const printed = await printedBy(
      warden,
      `exec 2>/dev/null
       (head -c 400000000 /dev/zero | tail >/dev/null); echo "memory $?"
       (i=0; while [ $i -lt 80 ]; do i=$((i+1)); head -c 1000000 /dev/zero >/dev/shm/$i || exit 1; done)
       echo "shared $?"; rm -f /dev/shm/[0-9]*
       (head -c 4000000 /dev/zero >"$HOME/x"); echo "file $?"; ls -l "$HOME/x" | awk '{ print "length", $5 }'
       echo "files $(ulimit -n)"; echo "core $(ulimit -c)"; ls /dev/shm | sed 's/^/seen /'`,
    );

    expect(printed).toMatch(/^memory [1-9]\d*$/mu);
    expect(printed).toMatch(/^shared [1-9]\d*$/mu);
    expect(printed).toMatch(/^file [1-9]\d*$/mu);
    expect(printed).toMatch(/^length 1048576$/mu);
    expect(Number(/^files (\d+)$/mu.exec(printed)?.[1])).toBeLessThanOrEqual(65_536);
    expect(printed).toMatch(/^core 0$/mu);
    // What other programs of the machine have there is not shown.
    expect(printed).not.toContain('seen');
  });
});
