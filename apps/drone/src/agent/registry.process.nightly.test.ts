import { spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { freePort } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  CALM_LADDER,
  connectReady,
  startContainerStage,
  startTestEngine,
  type ContainerStage,
} from '../testing/container-stage.ts';
import { until } from '../testing/wait.ts';

/** An engine, a registry and a fleet start beside other tests. */
const START_MS_MAX = 120_000;
const WAIT_MS_MAX = 40_000;

const LOGIN = { user: 'drone', password: 'open sesame' };
/** The line of a password file, as `htpasswd -B` writes it for {@link LOGIN}. */
const PASSWORD_LINE = 'drone:$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW';

let folder: string;
let registry: ChildProcess;
let stage: ContainerStage;
let image: string;
beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-registry-'));
  chmodSync(folder, 0o700);
  const address = `127.0.0.1:${String(await freePort())}`;
  image = `${address}/room:1`;
  registry = startRegistry(folder, address);
  const engine = await startTestEngine({ insecureRegistries: [address] });
  stage = await startContainerStage({ engine, ladder: CALM_LADDER });
  await until('the registry answers', () => isAnswering(address));
  const login = `${LOGIN.user}:${LOGIN.password}`;
  await engine.podman('push', '--creds', login, engine.image, image);
  const right = path.join(folder, 'login.json');
  const auths = { [address]: { auth: Buffer.from(login).toString('base64') } };
  writeFileSync(right, JSON.stringify({ auths }), { mode: 0o600 });
  const ofRegistry = (credentials?: Record<string, string>): Record<string, unknown> =>
    stage.program({ image, pull: 'always', ...(credentials && { credentials }) });
  await stage.startDrone(
    {
      allowed: ofRegistry({ file: right }),
      named: ofRegistry({ env: 'ROOM_LOGIN' }),
      wrong: ofRegistry({ env: 'WRONG_LOGIN' }),
      unset: ofRegistry({ env: 'NO_LOGIN' }),
      anonymous: ofRegistry(),
    },
    { env: { ROOM_LOGIN: login, WRONG_LOGIN: `${LOGIN.user}:close sesame` } },
  );
}, START_MS_MAX);
afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await stage.engine[Symbol.asyncDispose]();
  registry.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** What became of a backend of a program that cannot be started. */
async function refusalOf(program: string): Promise<string> {
  const api = stage.fleet.api();
  const { backendId } = await api.keys.connect.mutate({
    key: { name: program },
    spawn: { program },
  });
  await until(
    'it is terminated',
    async () => {
      const { status } = await api.backends.get.query({ backendId });
      return status === 'terminated';
    },
    WAIT_MS_MAX,
  );
  return (await api.backends.get.query({ backendId })).states.at(-1)?.detail ?? '';
}

describe('an image of a registry that asks for a login', () => {
  test.each(['allowed', 'named'])(
    'is pulled with the login of the program, and runs: %s',
    async (program) => {
      const backend = await connectReady(stage, { name: program, program });

      expect(backend.status).toBe('ready');
    },
  );

  test.each([
    ['with a wrong login', 'wrong', /refuses the login/u],
    ['without one', 'anonymous', /asks for a login, and `credentials` is not set/u],
    ['with one that cannot be read', 'unset', /cannot be read from the variable NO_LOGIN/u],
  ])('is not pulled %s: the backend ends with the reason', async (_how, program, reason) => {
    expect(await refusalOf(program)).toMatch(reason);
  });

  test('no log, event or list contains the login', async () => {
    const api = stage.fleet.api();
    const shown = JSON.stringify([
      await api.backends.list.query({}),
      await api.drones.list.query({}),
      await api.events.list.query({}),
    ]);
    const log = stage.fleet.drone().log();
    const encoded = Buffer.from(`${LOGIN.user}:${LOGIN.password}`).toString('base64');

    expect(log).toContain('a backend was not started');
    for (const secret of [LOGIN.password, 'close sesame', encoded]) {
      expect(log).not.toContain(secret);
      expect(shown).not.toContain(secret);
    }
  });
});

function startRegistry(home: string, address: string): ChildProcess {
  const passwords = path.join(home, 'passwords');
  writeFileSync(passwords, `${PASSWORD_LINE}\n`, { mode: 0o600 });
  const configuration = path.join(home, 'registry.yml');
  writeFileSync(
    configuration,
    [
      'version: 0.1',
      'log: { level: error }',
      `storage: { filesystem: { rootdirectory: "${path.join(home, 'images')}" } }`,
      `http: { addr: "${address}" }`,
      `auth: { htpasswd: { realm: test, path: "${passwords}" } }`,
    ].join('\n'),
  );
  return spawn('docker-registry', ['serve', configuration], { stdio: 'ignore' });
}

function isAnswering(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    http
      .get(`http://${address}/v2/`, (response) => {
        response.resume();
        resolve(response.statusCode === 401);
      })
      .on('error', () => resolve(false));
  });
}
