import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectResult, KeyPage } from '@leasehold/keys-core/keys';
import { waitUntil } from '@leasehold/testing';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunFile } from '../home.ts';
import { identityOf } from '../processes.ts';
import {
  killPart,
  processesOf,
  readRun,
  runCommand,
  startCommand,
  startUp,
  type Started,
} from '../testing/command-line.ts';
import { runHere } from '../testing/in-process.ts';
import { echoArgs, echoOf, makeEcho, writeEcho } from '../testing/own-program.ts';
import { endLeftovers } from './run-record.ts';

/** A part that is killed is back before soft. */
const PATIENT = {
  LEASEHOLD_KEY_RENEW_MS: '2500',
  LEASEHOLD_KEY_SOFT_MS: '8000',
  LEASEHOLD_KEY_HARD_MS: '9000',
  LEASEHOLD_KEY_EXPIRE_MS: '11000',
};

let home: string;
/** The sources of a program of one's own. */
let sources: string;
let env: Record<string, string>;
let up: Started;
let run: RunFile;
/** Of a key that the first run held when it was killed. */
let formerToken = '0';

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'leasehold-up-'));
  env = { LEASEHOLD_HOME: home };
  sources = await makeEcho('first');
  ({ up, run } = await startUp(home, echoArgs(sources), PATIENT));
}, 90_000);

afterAll(async () => {
  up.child.kill('SIGTERM');
  await up.ended;
  await rm(home, { recursive: true, maxRetries: 10 });
  await rm(sources, { recursive: true, maxRetries: 10 });
});

/** Runs `leasehold …` in this process: a process for each command would take ten times as long. */
const here = (...args: string[]) => runHere(args, env);

async function answer<Value>(...args: string[]): Promise<Value> {
  const ended = await here(...args, '--json');
  expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
  return JSON.parse(ended.stdout) as Value;
}

/** The exit code and the error code with which `leasehold …` is refused. */
async function refused(...args: string[]): Promise<{ exitCode: number | undefined; code: string }> {
  const { exitCode, stdout, stderr } = await here(...args, '--json');
  expect(stdout).toBe('');
  return { exitCode, code: (JSON.parse(stderr) as { error: { code: string } }).error.code };
}

/** Safe to repeat. */
async function kill(): Promise<void> {
  up.child.kill('SIGKILL');
  await up.ended;
  await waitUntil(() => processesOf(home).length === 0, {
    pollMs: 200,
    what: 'the end of every process',
  });
}

describe('leasehold up', () => {
  test('writes run.json and credentials.json for their owner alone, once everything answers', async () => {
    expect(run).toEqual({
      controllerUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/u) as string,
      consoleUrl: expect.stringMatching(/^http:\/\/localhost:\d+$/u) as string,
      gatewayUrl: expect.stringMatching(/^http:\/\/localhost:\d+$/u) as string,
      databaseUrl: expect.stringMatching(/^postgresql:/u) as string,
      settings: expect.objectContaining({ preset: 'fast', datacenter: 'local' }) as unknown,
      droneIds: ['drone-1'],
      programs: [
        { name: 'echo', command: 'node echo.mjs', source: 'from --program' },
        {
          name: 'room',
          command: expect.stringMatching(/^node .*server\.mjs$/u) as string,
          source: 'the example of Leasehold',
        },
      ],
      pids: {
        controller: expect.any(Number) as number,
        agent: expect.any(Number) as number,
        warden: expect.any(Number) as number,
        console: expect.any(Number) as number,
        gateway: expect.any(Number) as number,
        postgres: expect.any(Number) as number,
      },
    });
    const path = join(home, 'credentials.json');
    const credentials = JSON.parse(await readFile(path, 'utf8')) as object;
    expect(Object.keys(credentials)).toEqual(
      expect.arrayContaining(['admin', 'operator', 'client', 'viewer', 'drone', 'gateway']),
    );
    expect(credentials).toHaveProperty('console', {
      email: 'admin@leasehold.local',
      password: expect.stringMatching(/^\S{16,}$/u) as string,
    });
    for (const file of [path, join(home, 'run.json')]) {
      expect((await stat(file)).mode & 0o777).toBe(0o600);
    }
  });

  test('the console loads, and accepts the sign-in that leasehold up prints', async () => {
    const { stdout } = up.said();
    const [, url = '', email = '', password = ''] =
      /console is at (\S+): sign in as (\S+)\nwith the password (\S+)/u.exec(stdout) ?? [];

    const page = await fetch(`${url}/sign-in`);
    const signedIn = await fetch(`${url}/api/auth/sign-in/email`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: url },
      body: JSON.stringify({ email, password }),
    });

    expect(url).toBe(run.consoleUrl);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'self'");
    expect(await page.text()).toContain('Leasehold');
    expect(signedIn.status).toBe(200);
    expect(signedIn.headers.getSetCookie().join()).toMatch(/HttpOnly/iu);
  });

  test('connect starts a backend that answers, a second connect returns it, and keys ls shows it', async () => {
    const first = await answer<ConnectResult>('connect', 'demo', '--program', 'room');
    const room = await fetch(`http://${first.address ?? ''}/`);
    const second = await answer<ConnectResult>('connect', 'demo', '--program', 'room');
    const list = await runCommand(['keys', 'ls'], env);

    expect(first).toMatchObject({ spawned: true, status: 'ready' });
    expect(await room.json()).toEqual({
      key: 'demo',
      fencingToken: first.fencingToken,
      backendId: first.backendId,
      requests: 1,
    });
    expect(second).toMatchObject({ spawned: false, backendId: first.backendId });
    expect(list.stdout).toMatch(
      new RegExp(`^demo +held +\\d+\\.\\d s +${first.backendId} +ready +drone-1 `, 'mu'),
    );
  });

  test('a program of one’s own runs, and the connect after a change of its file starts the new version', async () => {
    const first = await answer<ConnectResult>('connect', 'own', '--program', 'echo');
    expect(await echoOf(first)).toEqual({ version: 'first', mode: 'dev' });

    await writeEcho(sources, 'second');
    await waitUntil(() => up.said().stdout.includes('echo.mjs changed: the backend of echo'));
    await here('backends', 'watch', first.backendId);
    const second = await answer<ConnectResult>('connect', 'own', '--program', 'echo');

    expect(second).toMatchObject({ spawned: true });
    expect(await echoOf(second)).toEqual({ version: 'second', mode: 'dev' });
  });

  test('config print shows what runs, without a secret unless asked for, and an address for other programs', async () => {
    const shown = await here('config', 'print');
    const whole = await answer<{ databaseUrl: string }>('config', 'print', '--show-secrets');
    const { stdout: url } = await here('config', 'print', '--database-url');
    const password = new URL(run.databaseUrl).password;

    expect(shown.stdout).toMatch(/^preset +fast$/mu);
    expect(shown.stdout).toMatch(new RegExp(`^urls +${run.controllerUrl}$`, 'mu'));
    expect(shown.stdout).toMatch(/^databaseUrl +postgresql:\/\/leasehold:\*\*\*@127/mu);
    expect(shown.stdout).not.toContain(password);
    expect(whole.databaseUrl).toContain(password);
    // psql reads it as pg does, if its package is installed.
    const client = new pg.Client({ connectionString: url.trim() });
    await client.connect();
    const { rows } = await client.query<{ held: string }>('select count(*) as held from lease');
    await client.end();
    expect(rows).toHaveLength(1);
  });

  test('doctor finds nothing wrong', async () => {
    const { exitCode, stdout } = await here('doctor');

    expect(stdout).toContain('Nothing is wrong.');
    expect(exitCode).toBe(0);
  });

  test('a second one on the same home is refused with an error that names the first', async () => {
    const second = await runCommand(['up', '--port', '0'], env);

    expect(second.exitCode).toBe(1);
    expect(second.stderr).toContain(`as process ${String(up.child.pid)}`);
  });

  test('a controller that is killed is started again at the same address', async () => {
    killPart(run.pids.controller);

    await waitUntil(() => readRun(home).pids.controller !== run.pids.controller);

    expect(readRun(home).controllerUrl).toBe(run.controllerUrl);
    const page = await answer<KeyPage>('keys', 'ls', '--name', 'demo');
    expect(page.items).toHaveLength(1);
    run = readRun(home);
  });
});

describe('exit codes and errors', () => {
  test('invalid input ends with 2', async () => {
    expect(await refused('connect', 'k\u0007', '--program', 'room')).toEqual({
      exitCode: 2,
      code: 'request.invalid',
    });
    expect(await refused('connect', 'k', '--program', 'Not An Id')).toEqual({
      exitCode: 2,
      code: 'request.invalid',
    });
    expect(await refused('keys', 'revoke', 'k')).toEqual({ exitCode: 2, code: 'cli.usage' });
  });

  test('a wrong token ends with 5, and is not repeated', async () => {
    const token = `lh_${'x'.repeat(43)}`;
    const at = { LEASEHOLD_URL: run.controllerUrl, LEASEHOLD_TOKEN: token };
    const ended = await runHere(['keys', 'ls'], { ...env, ...at });

    expect(ended.exitCode).toBe(5);
    expect(ended.stderr).not.toContain(token);
  });

  test('output that cannot be written, on a full disk, ends with 1 and an error message', async () => {
    const full = openSync('/dev/full', 'w');
    const command = startCommand(['config', 'print'], env, { stdout: full });
    closeSync(full);

    expect(await command.ended).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('The output is incomplete: ENOSPC') as string,
    });
  });
});

describe('the end of leasehold up', () => {
  test('after kill -9 without a new start no process is left', async () => {
    // A drone may not have come back yet to a controller that was started again.
    const kept = await waitUntil(
      async () => {
        const { exitCode, stdout } = await here('connect', 'kept', '--program', 'room', '--json');
        return exitCode === 0 && (JSON.parse(stdout) as ConnectResult);
      },
      { pollMs: 200, what: 'a grant of the key' },
    );
    formerToken = kept.fencingToken;
    await kill();

    expect(processesOf(home)).toEqual([]);
  });
});

describe('what keeps leasehold up from starting', () => {
  test('a port in use is named, with how to choose another one, and nothing is started', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const port = String((other.address() as AddressInfo).port);

    const ended = await runCommand(['up', '--port', port, '--console-port', port], env);
    const both = await runCommand(['up', '--port', '0', '--console-port', port], env);
    other.close();

    expect([ended.exitCode, both.exitCode]).toEqual([1, 1]);
    expect(ended.stderr).toMatch(new RegExp(`port ${port} .* in use.*--port`, 'u'));
    expect(both.stderr).toMatch(new RegExp(`port ${port} .* in use.*--console-port`, 'u'));
    expect(processesOf(home)).toEqual([]);
  });

  test('a home that cannot be made, /proc/nowhere, is named', async () => {
    const ended = await runCommand(['up', '--port', '0'], { LEASEHOLD_HOME: '/proc/nowhere' });

    expect(ended).toMatchObject({ exitCode: 1 });
    expect(ended.stderr).toMatch(/\/proc\/nowhere.*\n.*LEASEHOLD_HOME/u);
  });

  test('refused for its programs, it leaves to the next run what a killed one has left', async () => {
    const place = await mkdtemp(join(tmpdir(), 'leasehold-refused-'));
    const left = spawn('sleep', ['1000'], { stdio: 'ignore' });
    try {
      const identity = identityOf(left.pid ?? 0);
      await writeFile(join(place, 'processes.json'), JSON.stringify([identity]));

      const ended = await runCommand(['up', '--watch'], { LEASEHOLD_HOME: place });

      expect(ended).toMatchObject({ exitCode: 2 });
      expect(ended.stderr).toContain('there is no program to watch');
      expect(await endLeftovers(place)).toBe(1);
    } finally {
      left.kill('SIGKILL');
      await rm(place, { recursive: true });
    }
  });

  test('doctor says that nothing runs, and what to do', async () => {
    const ended = await runHere(['doctor'], { LEASEHOLD_HOME: join(home, 'nothing') });

    expect(ended.exitCode).toBe(3);
    expect(ended.stdout).toContain('leasehold up');
  });
});

describe('the next leasehold up', () => {
  test('after kill -9 the next run continues with the same data, and with a larger token', async () => {
    await kill();
    await writeEcho(sources, 'kept');
    const before = readFileSync(join(home, 'credentials.json'), 'utf8');
    ({ up, run } = await startUp(home));
    expect(readFileSync(join(home, 'credentials.json'), 'utf8')).toBe(before);
    const own = await answer<ConnectResult>('connect', 'own-again', '--program', 'echo');
    expect(await echoOf(own)).toEqual({ version: 'kept', mode: 'dev' });
    expect(run.programs[0]?.source).toMatch(/^kept from an earlier --program/u);
    const kept = await waitUntil(
      async () => {
        const again = await answer<ConnectResult>('connect', 'kept', '--program', 'room');
        return again.spawned ? again : undefined;
      },
      { timeoutMs: 40_000, pollMs: 200, what: 'a new grant of the key' },
    );

    expect(BigInt(kept.fencingToken)).toBeGreaterThan(BigInt(formerToken));
  });

  test('Ctrl-C stops every process and removes run.json', async () => {
    await answer('connect', 'left', '--program', 'room');
    up.child.kill('SIGINT');
    const { exitCode, stderr } = await up.ended;

    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(processesOf(home)).toEqual([]);
    expect((await here('keys', 'ls')).exitCode).toBe(3);
    const print = await here('config', 'print', '--database-url');
    expect(print).toMatchObject({ exitCode: 3, stdout: '' });
    expect(print.stderr).toContain(`Nothing runs in ${home}`);
  });
});
