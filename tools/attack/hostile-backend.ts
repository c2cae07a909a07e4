import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { waitUntil } from '@leasehold/testing/stack';
import type { Attack } from './attack.ts';
import type { AttackStage } from './stage.ts';

/** A line of `hostile.mjs`: what it tried, and what it got or why it was refused. */
interface Line {
  readonly attack?: string;
  readonly got?: string;
  readonly refused?: string;
}

const DONE_MS_MAX = 60_000;

/** A backend tries to read its drone's secrets, to command its warden, and to become somebody else. */
export const hostileBackend: Attack = {
  name: 'hostile-backend',
  what: 'a backend that attacks its drone',
  async carryOut(stage) {
    await writeFile(path.join(stage.openFolder, 'targets.json'), JSON.stringify(targetsOf(stage)));
    const { backendId } = await stage.api().keys.connect.mutate({
      key: { name: 'hostile' },
      spawn: { program: 'hostile' },
      waitFor: 'ready',
    });
    const output = path.join(stage.drone().stateDir, 'logs', `${backendId}.stdout.log`);
    const lines = await waitUntil(
      async () => {
        const found = await linesOf(output);
        return found.some(({ attack }) => attack === 'done') ? found : undefined;
      },
      { what: 'the end of the attack', timeoutMs: DONE_MS_MAX },
    );
    const tries = lines.filter(({ attack }) => attack !== undefined && attack !== 'done');
    const refused = tries.filter((line) => line.refused !== undefined).length;
    return {
      tried: tries.length,
      refused: { refused },
      got: tries.flatMap(({ attack, got }) =>
        got === undefined ? [] : [`${String(attack)}: ${got}`],
      ),
    };
  },
};

function targetsOf(stage: AttackStage): unknown {
  const drone = stage.drone();
  const { pid: warden, socketPath } = drone.warden();
  const { stateDir, configFile: config, file: program } = drone;
  return {
    pids: { agent: drone.agent.pid, warden, controller: stage.controller().pid },
    ...{ stateDir, home: stage.home, socketPath, config, program },
  };
}

async function linesOf(file: string): Promise<Line[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}
