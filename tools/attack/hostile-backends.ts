/** Attacks from inside: backends that a drone of the stage runs. */
import { readFile, writeFile } from 'node:fs/promises';
import { processesWith, waitUntil } from '@leasehold/testing/stack';
import type { Attack, Yield } from './attack.ts';
import { GREEDY_LIMITS, GREEDY_MARKER, type AttackStage } from './stage.ts';

/** A line of a hostile program: what it tried, and what it got or why it was refused. */
interface Line {
  readonly attack?: string;
  readonly got?: string;
  readonly refused?: string;
}

const DONE_MS_MAX = 60_000;
const REASON = 'an attack is over';

/** So many keys are asked for while another backend listens on the ports. */
const VICTIMS = 3;
const VICTIM_MS = 4_000;

/** A backend tries to read its drone's secrets, to command its warden, and to become somebody else. */
export const hostileBackend: Attack = {
  name: 'hostile-backend',
  what: 'a backend that attacks its drone, which was started with open files',
  carryOut: (stage) => within(stage, 'hostile', (lines) => Promise.resolve(yieldOf(lines))),
};

/** A backend starts processes, takes memory, and fills what it may write to. */
export const greedyBackend: Attack = {
  name: 'greedy-backend',
  what: '300 processes, 400 MB of memory, 80 MB in /dev/shm, long files, many open files',
  carryOut: (stage) =>
    within(stage, 'greedy', (lines) => {
      const { tried, refused, got } = yieldOf(lines);
      const count = processesWith(GREEDY_MARKER).length;
      const tooMany = count > GREEDY_LIMITS.pidsMax ? [`${String(count)} processes`] : [];
      return Promise.resolve({ tried: tried + 1, refused, got: [...got, ...tooMany] });
    }),
};

/** A backend listens on the drone's ports: a caller of another key must not be sent to it. */
export const squattingBackend: Attack = {
  name: 'squatting-backend',
  what: 'a backend that listens on all ports of its drone, while others are to start',
  async carryOut(stage) {
    const seen = await within(stage, 'squatter', async () => {
      const answers = await Promise.all(
        Array.from({ length: VICTIMS }, (_, nth) => answerOf(stage, `victim-${String(nth)}`)),
      );
      return {
        tried: VICTIMS,
        refused: { refused: answers.filter((answer) => answer === undefined).length },
        got: answers.filter((answer) => answer === 'stolen').map(() => 'the place of a backend'),
      };
    });
    // It has gone: a caller is served now.
    const after = await waitUntil(() => answerOf(stage, 'after-the-squatter'), {
      what: 'a backend on a port that is free again',
      timeoutMs: DONE_MS_MAX,
    });
    return after === 'ok' ? seen : { ...seen, got: [...seen.got, 'the place of a later backend'] };
  },
};

/** What the backend of a key answers; undefined if it has none now. */
async function answerOf(stage: AttackStage, name: string): Promise<string | undefined> {
  try {
    const { address } = await stage.api().keys.connect.mutate({
      key: { name },
      spawn: { program: 'server' },
      waitFor: 'ready',
      waitMs: VICTIM_MS,
    });
    return await (await fetch(`http://${String(address)}`)).text();
  } catch {
    return undefined;
  }
}

/** Runs a hostile program until it has tried everything, calls `look`, and ends it. */
async function within(
  stage: AttackStage,
  program: 'hostile' | 'greedy' | 'squatter',
  look: (lines: readonly Line[]) => Promise<Yield>,
): Promise<Yield> {
  await writeFile(stage.targetsFile, JSON.stringify(await targetsOf(stage)));
  const { backends, keys } = stage.api();
  const { backendId } = await keys.connect.mutate({
    key: { name: program },
    spawn: { program },
    waitFor: 'ready',
  });
  const lines = await waitUntil(
    async () => {
      const found = await linesOf(stage, backendId);
      return found.some(({ attack }) => attack === 'done') ? found : undefined;
    },
    { what: `the end of the attack of ${program}`, timeoutMs: DONE_MS_MAX },
  );
  const seen = await look(lines);
  await backends.terminate.mutate({ backendId, mode: 'hard', reason: REASON });
  return seen;
}

function yieldOf(lines: readonly Line[]): Yield {
  const tries = lines.filter(({ attack }) => attack !== undefined && attack !== 'done');
  return {
    tried: tries.length,
    refused: { refused: tries.filter(({ refused }) => refused !== undefined).length },
    got: tries.flatMap(({ attack, got }) =>
      got === undefined ? [] : [`${String(attack)}: ${got}`],
    ),
  };
}

async function targetsOf(stage: AttackStage): Promise<unknown> {
  const drone = stage.drone();
  const { pid: warden, socketPath } = drone.warden();
  const { stateDir, configFile: config, file: program } = drone;
  const { ports } = JSON.parse(await readFile(config, 'utf8')) as { readonly ports: unknown };
  return {
    pids: { agent: drone.agent.pid, warden, controller: stage.controller().pid },
    stateDir,
    home: stage.home,
    socketPath,
    config,
    program,
    ports,
  };
}

async function linesOf(stage: AttackStage, backendId: string): Promise<Line[]> {
  const { lines } = await stage.api().backends.logs.query({ backendId });
  return lines
    .filter(({ stream }) => stream === 'stdout')
    .map(({ text }) => JSON.parse(text) as Line);
}
