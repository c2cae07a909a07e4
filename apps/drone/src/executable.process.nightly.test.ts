/** What the executable itself promises; `npm run test:all` runs all tests of a drone on it too. */
import { execFile, spawn, type ChildProcessByStdio } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { freePort, processesWith } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import packageJson from '../package.json' with { type: 'json' };
import { readWardenRecord } from './records.ts';
import { outputOf } from './testing/backend-output.ts';
import { testedDrone, type TestedDrone } from './testing/tested-drone.ts';
import { until } from './testing/wait.ts';
import { startOf, startWarden } from './testing/warden-fixture.ts';

const run = promisify(execFile);
const DEPLOY = path.resolve(import.meta.dirname, '../../../deploy/drone');
const START_MS_MAX = 300;
/** Linux counts in hundredths of a second. */
const MS_PER_TICK = 10;
const TOKEN = `lh_${'a'.repeat(43)}`;
const isRoot = process.getuid?.() === 0;

let drone: TestedDrone;
let file: string;
/** A PATH without Node, and without anything else. */
let nowhere: string;
beforeAll(() => {
  drone = testedDrone(true);
  [file = ''] = drone.words;
  nowhere = path.join(path.dirname(file), 'empty');
  mkdirSync(nowhere);
});
afterAll(() => drone[Symbol.dispose]());

interface RunningAgent {
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  readonly stateDir: string;
  said(): string;
}

/** An agent without a controller, by the example of a configuration. It ends with the test. */
async function startAgent(change: Record<string, unknown> = {}): Promise<RunningAgent> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-executable-'));
  const stateDir = path.join(folder, 'state');
  const example = readFileSync(path.join(DEPLOY, 'drone.example.json'), 'utf8');
  const config = { ...(JSON.parse(example) as object), stateDir, ...change };
  writeFileSync(path.join(folder, 'drone.json'), JSON.stringify(config));
  const url = `http://127.0.0.1:${String(await freePort())}`;
  const child = spawn(file, ['--config', path.join(folder, 'drone.json')], {
    env: { PATH: nowhere, LEASEHOLD_HOME: folder, LEASEHOLD_URL: url, LEASEHOLD_TOKEN: TOKEN },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (data: string) => (text += data));
  }
  onTestFinished(async () => {
    child.kill('SIGKILL');
    const pid = readWardenRecord(stateDir)?.pid;
    if (pid !== undefined && processesWith(stateDir).includes(pid)) process.kill(pid, 'SIGKILL');
    await until('nothing of it runs', () => processesWith(folder).length === 0);
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });
  return { child, stateDir, said: () => text };
}

test('prints its version, the commit that it was built from, and the licenses of what is inside', async () => {
  const { stdout } = await run(file, ['--version']);
  const licenses = await run(file, ['--licenses'], { maxBuffer: 10_000_000 });

  expect(stdout).toMatch(
    new RegExp(
      `^leasehold-drone ${packageJson.version} \\(build [0-9a-f]{12}(, changed)?, ${process.platform}-${process.arch}, Node ${process.version}\\)\n$`,
      'u',
    ),
  );
  for (const name of ['zod', 'pino', '@trpc/client', `Node ${process.version}`]) {
    expect(licenses.stdout).toContain(`\n${name}`);
  }
});

test('tells how it is used when its arguments are wrong', async () => {
  const ended = run(file, ['agent', '--konfig', 'drone.json']);

  await expect(ended).rejects.toMatchObject({
    code: 2,
    stderr: 'usage: leasehold-drone --config FILE\n',
  });
});

/**
 * The time of the processor that a process and its threads have used, in milliseconds. On an idle machine a start
 * takes as long; on a busy one it waits for others too.
 */
function processorMs(pid: number): number {
  const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) * MS_PER_TICK;
}

/** The least of several starts: what else a machine does makes one dearer, and none cheaper. */
async function leastMs(start: () => Promise<number>): Promise<number> {
  let least = Infinity;
  for (let times = 0; times < 5; times += 1) least = Math.min(least, await start());
  return least;
}

test(`prints its version with less than ${String(START_MS_MAX)} ms of the processor`, async () => {
  const timed = 'TIMEFORMAT="%U %S"; time "$0" --version';
  const least = await leastMs(async () => {
    const { stderr } = await run('bash', ['-c', timed, file]);
    const [user, system] = stderr.trim().split(' ').map(Number);
    return ((user ?? Infinity) + (system ?? Infinity)) * 1_000;
  });

  expect(least).toBeLessThan(START_MS_MAX);
});

test(`writes its first line of log with less than ${String(START_MS_MAX)} ms of the processor`, async () => {
  const least = await leastMs(async () => {
    const agent = await startAgent();
    await once(agent.child.stdout, 'data');
    const ms = processorMs(agent.child.pid ?? 0);
    expect(agent.said()).toContain('"msg":"the drone starts"');
    agent.child.kill('SIGKILL');
    return ms;
  });

  expect(least).toBeLessThan(START_MS_MAX);
});

test('its agent needs no Node: the warden that it starts is the same file', async () => {
  const agent = await startAgent({ isolation: { require: isRoot ? 'own-user' : 'namespaces' } });
  await until('its warden runs', () => readWardenRecord(agent.stateDir) !== undefined);
  const pid = readWardenRecord(agent.stateDir)?.pid ?? 0;

  expect(readlinkSync(`/proc/${String(pid)}/exe`)).toBe(file);
  await until('it knows the isolation', () => agent.said().includes('isolation of programs'));
  expect(agent.child.exitCode).toBe(null);
});

describe('the unit of systemd', () => {
  const unit = readFileSync(path.join(DEPLOY, 'leasehold-drone.service'), 'utf8');
  const settingOf = (name: string): string =>
    new RegExp(`^${name}=(.*)$`, 'mu').exec(unit)?.[1] ?? '';

  /** What the kernel is told for the unit's own settings. */
  function restricted(): readonly string[] {
    const names = settingOf('CapabilityBoundingSet').toLowerCase().replaceAll('cap_', '');
    const allowed = ['-all', ...names.split(' ').map((name) => `+${name}`)].join(',');
    const ofRoot = isRoot ? [`--bounding-set=${allowed}`] : [];
    return ['/usr/bin/setpriv', '--no-new-privs', '--inh-caps=-all', ...ofRoot, '--'];
  }

  test('leaves the drone what it needs to isolate programs, to stop them and to see that they are gone', async () => {
    expect(settingOf('NoNewPrivileges')).toBe('yes');
    await using warden = await startWarden({ words: [...restricted(), ...drone.words] });
    const { link, ear } = await warden.connect();
    const all = { pidNamespace: true, privateProc: true, hiddenHome: true, noNewPrivs: true };
    expect(link.identity.isolation).toMatchObject({ user: isRoot ? 'own' : 'shared', ...all });
    const marker = `leasehold-${randomUUID()}`;
    const user = isRoot ? { uid: 2_100_000_007, gid: 2_100_000_007 } : null;
    const script = `id -u; exec -a ${marker} sleep 600`;
    const request = startOf(script, { command: '/bin/bash', user });
    const { backendId } = request;

    await link.start(request);
    await until('its program runs', () => processesWith(marker).some(isSleep));
    for (const pid of processesWith(marker).filter(isSleep)) {
      const namespace = `/proc/${String(pid)}/ns/pid`;
      const [tool, ...args] = [...restricted(), 'readlink', namespace];
      expect((await run(tool, args)).stdout.trim()).toBe(readlinkSync(namespace));
    }
    await link.stop({ backendId, mode: 'soft', reason: 'external', isKeyLost: false });
    await until('it is gone', () => ear.changes.at(-1)?.state === 'gone');

    expect(ear.changes.at(-1)).toMatchObject({ isKilled: false, stopReason: 'external' });
    expect(processesWith(marker)).toEqual([]);
    expect(outputOf(warden.stateDir, backendId).trim()).toBe(
      String(user?.uid ?? process.getuid?.()),
    );
  });

  test('signals the agent alone, and starts it again however it ends', () => {
    expect(settingOf('KillMode')).toBe('process');
    expect(settingOf('Restart')).toBe('always');
    expect(settingOf('OOMPolicy')).toBe('continue');
    expect(settingOf('ExecStart')).toMatch(/^\/usr\/local\/bin\/leasehold-drone --config /u);
  });
});

/** The program itself, not what has started it. */
function isSleep(pid: number): boolean {
  return readFileSync(`/proc/${String(pid)}/comm`, 'utf8').trim() === 'sleep';
}
