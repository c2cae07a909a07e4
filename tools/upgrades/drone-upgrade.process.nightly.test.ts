import { execFile } from 'node:child_process';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil, type StageDrone } from '@leasehold/testing';
import { bundleOf } from '@leasehold/testing/stack';
import { FaultStage, type Answer } from '../faults/stage/stage.ts';
import { readTestimony } from '../faults/stage/testimony.ts';
import { expectSound, expectUnharmed } from '../faults/stage/verdict.ts';
import { buildPrevious, type PreviousBuild } from './previous/build-previous.ts';

/** With room for the replacement of an agent on a busy machine. */
const LADDER = {
  LEASEHOLD_HEARTBEAT_MS: '400',
  LEASEHOLD_KEY_RENEW_MS: '1000',
  LEASEHOLD_KEY_SOFT_MS: '10000',
  LEASEHOLD_KEY_HARD_MS: '11000',
  LEASEHOLD_KEY_EXPIRE_MS: '12500',
};
/** So many renewals, one every second, end after the expiry of the grant that the former agent had. */
const RENEWALS_PAST_EXPIRY = 13;
/** A witness writes every few milliseconds; on a busy machine it gets no processor for a while. */
const GAP_MS_MAX = 5_000;
const TEST_MS_MAX = 240_000;

let previous: PreviousBuild;
let stage: FaultStage;
/** Its agent stays that of the previous version. */
let kept: Case;
beforeAll(async () => {
  previous = await buildPrevious();
  stage = await FaultStage.open({ env: LADDER });
  kept = await open('kept', { isSupervised: true });
}, TEST_MS_MAX);
afterAll(({}, file) => stage.close(file));

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

interface Case {
  readonly drone: StageDrone;
  /** The file that the service manager starts. */
  readonly installed: string;
  readonly before: Answer;
  readonly pids: ReadonlySet<string>;
  upgrade(args: readonly string[], program?: string): Promise<Ran>;
  /** The backend was not touched, and the agent in command renews its key. */
  expectUnharmed(renewals: number): Promise<void>;
}

/** A drone of the previous version with a backend, under what stands for a service manager. */
async function open(name: string, of: { isSupervised: boolean }): Promise<Case> {
  const installed = path.join(stage.folder, `${name}-installed.mjs`);
  await copyFile(previous.drone, installed);
  const drone = await stage.startDrone({
    droneId: name,
    programs: { [name]: 'stubborn' },
    entry: installed,
  });
  if (of.isSupervised) supervise(drone, installed);
  const before = await stage.connect(name, name);
  const { pids } = await stage.untilHeard(before);
  const { configFile } = drone;
  return {
    drone,
    installed,
    before,
    pids,
    upgrade: (args, program = bundleOf('drone')) =>
      ranOf([program, 'upgrade', '--config', configFile, ...args], drone.environment()),
    async expectUnharmed(renewals) {
      await stage.untilRenewed(before, renewals);
      await expectUnharmed(stage, { before, program: name, pids });
      await expectSound(stage, before);
    },
  };
}

/** Starts an agent whenever one has ended, as systemd does with `Restart=always`. */
function supervise(drone: StageDrone, file: string): void {
  const ending = new AbortController();
  const run = async (): Promise<void> => {
    for (;;) {
      await drone.agent.exited;
      if (ending.signal.aborted) return;
      // A controller may be slow to accept it; one that has failed is started again.
      await drone.startAgent(file).catch(() => undefined);
    }
  };
  const running = run();
  stage.onClose(async () => {
    ending.abort();
    await drone.stop();
    await running;
  });
}

async function ranOf(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Ran> {
  return promisify(execFile)(process.execPath, words, {
    env: { PATH: process.env['PATH'], ...env },
  }).then(
    ({ stdout, stderr }) => ({ code: 0, out: stdout, error: stderr }),
    (error: unknown) => {
      const {
        code,
        stdout: out,
        stderr,
      } = error as { code: number; stdout: string; stderr: string };
      return { code, out, error: stderr };
    },
  );
}

/** Two programs are too long for an assertion that shows how they differ. */
async function isSame(file: string, other: string): Promise<boolean> {
  return (await readFile(file)).equals(await readFile(other));
}

/** Which agent says that it is in command. */
async function agentRecord(drone: StageDrone): Promise<{ pid: number; version: string }> {
  const text = await readFile(path.join(drone.stateDir, 'agent.json'), 'utf8');
  return JSON.parse(text) as { pid: number; version: string };
}

/** The longest time in which a backend wrote nothing. */
function longestGapMs(backend: Answer): number {
  const times = readTestimony(stage.testimonyFile)
    .filter((one) => one.backend === backend.backendId)
    .map(({ atMs }) => atMs);
  return Math.max(...times.slice(1).map((atMs, index) => atMs - (times[index] ?? atMs)));
}

describe('drone upgrade', () => {
  test(
    'replaces a former agent: the backend writes without a gap, with its token, and is renewed past its expiry',
    async () => {
      const on = await open('whole', { isSupervised: true });
      const former = on.drone.agent;
      const wardenPid = on.drone.warden().pid;

      const ran = await on.upgrade(['--install', on.installed, '--timeout', '30s']);

      expect(ran, ran.error).toMatchObject({ code: 0, error: '' });
      expect(ran.out).toContain('the drone is upgraded');
      expect(await former.exited).toBe(1);
      await waitUntil(() => on.drone.agent !== former, {
        what: 'the agent of the service manager',
      });
      expect((await agentRecord(on.drone)).pid).toBe(on.drone.agent.pid);
      expect(await isSame(on.installed, bundleOf('drone'))).toBe(true);
      expect(await isSame(`${on.installed}.former`, previous.drone)).toBe(true);
      await on.expectUnharmed(RENEWALS_PAST_EXPIRY);
      expect(on.drone.warden().pid).toBe(wardenPid);
      expect(longestGapMs(on.before)).toBeLessThan(GAP_MS_MAX);
    },
    TEST_MS_MAX,
  );

  test(
    'leaves the former agent in charge, and its file in place, when the new agent does not start',
    async () => {
      const on = kept;
      const former = on.drone.agent;
      const text = await readFile(bundleOf('drone'), 'utf8');
      const broken = path.join(stage.folder, 'broken.mjs');
      const crash = `if (process.argv.includes('--adopt-only')) throw new Error('a planted crash');`;
      await writeFile(broken, `${crash}\n${text}`);

      const ran = await on.upgrade(['--install', on.installed, '--timeout', '30s'], broken);

      expect(ran.code).toBe(1);
      expect(ran.error).toContain('The former agent goes on');
      expect(ran.error).toContain('a planted crash');
      expect(await isSame(on.installed, previous.drone)).toBe(true);
      expect(on.drone.agent).toBe(former);
      await on.expectUnharmed(1);
      expect(on.drone.agent).toBe(former);
    },
    TEST_MS_MAX,
  );

  test(
    'leaves the former agent in charge when no controller accepts the new one',
    async () => {
      const on = kept;
      const former = on.drone.agent;
      const envFile = path.join(stage.folder, 'refused.env');
      await writeFile(envFile, `# A comment.\nLEASEHOLD_TOKEN=lh_${'x'.repeat(43)}\n`);

      const ran = await on.upgrade(['--environment', envFile, '--timeout', '3s']);

      expect(ran.code).toBe(1);
      expect(ran.error).toContain('The new agent did not come into command in 3 s');
      await on.expectUnharmed(1);
      expect(on.drone.agent).toBe(former);
    },
    TEST_MS_MAX,
  );

  test(
    'tells that the service manager still starts the former program, and the backend goes on',
    async () => {
      const on = kept;

      const ran = await on.upgrade(['--timeout', '30s']);

      expect(ran.code).toBe(1);
      expect(ran.error).toContain('the service manager still starts the former program');
      await on.expectUnharmed(1);
    },
    TEST_MS_MAX,
  );

  test(
    'without a service manager keeps the backends, and tells which process does',
    async () => {
      const on = await open('alone', { isSupervised: false });

      const ran = await on.upgrade(['--timeout', '15s']);

      const { pid } = await agentRecord(on.drone);
      stage.onClose(() => Promise.resolve(process.kill(pid, 'SIGKILL')));
      expect(ran.code).toBe(1);
      expect(ran.error).toContain(
        `The new one (process ${String(pid)}) keeps the backends running`,
      );
      await on.expectUnharmed(RENEWALS_PAST_EXPIRY);
    },
    TEST_MS_MAX,
  );
});

test.each([
  [['--timeout', '0'], 2, '--timeout: must be a time from 1s to 1h'],
  [['--speed', 'high'], 2, 'usage: leasehold drone upgrade --config FILE'],
  [['--environment', '/nowhere.env'], 2, '--environment: /nowhere.env cannot be read'],
  [[], 1, 'No drone runs with the state folder'],
])('drone upgrade %j is refused with %i and a clear error', async (args, code, text) => {
  const config = path.join(stage.folder, 'idle.json');
  await writeFile(config, JSON.stringify({ droneId: 'idle', programs: {} }));
  const env = {
    LEASEHOLD_HOME: stage.folder,
    LEASEHOLD_URL: stage.controllers[0]?.url ?? '',
    LEASEHOLD_TOKEN: `lh_${'x'.repeat(43)}`,
  };

  const ran = await ranOf([bundleOf('drone'), 'upgrade', '--config', config, ...args], env);

  expect(ran).toMatchObject({ code, error: expect.stringContaining(text) as string });
});
