/** The images of deploy/images: built, and run as docs/production.md says. */
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { createTestDatabase, freePort, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openImageStage, REPOSITORY, type ImageStage } from './image-stage.ts';

const run = promisify(execFile);
const LEASEHOLD = 'localhost/leasehold:test';
const DRONE = 'localhost/leasehold-drone:test';
/** The user of the images. */
const USER = 10_001;
const PACKAGES = 'out/packages-of-images';
/** As a machine without CAP_SYS_RESOURCE can give them; and the network of this machine, where the database is. */
const HERE = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096', '--network', 'host'];
const HARDENED = [
  '--read-only',
  '--read-only-tmpfs=false',
  '--cap-drop',
  'all',
  '--security-opt',
  'no-new-privileges',
];
/** What deploy/kubernetes/drones and deploy/compose add, so that each program has a user of its own. */
const DRONE_CAPABILITIES = [
  'SYS_ADMIN',
  'SYS_PTRACE',
  'SETUID',
  'SETGID',
  'SETPCAP',
  'CHOWN',
  'KILL',
  'DAC_READ_SEARCH',
];
/** Reports who it is. */
const PROGRAM = `
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
createServer((_, response) => response.end(readFileSync('/proc/self/status'))).listen(Number(process.env.PORT), '127.0.0.1');
`;

let stage: ImageStage;
let url: string;
let consolePort: number;
beforeAll(async () => {
  const packages = path.join(REPOSITORY, PACKAGES);
  cleanUp.push(() => rm(packages, { recursive: true, force: true, maxRetries: 10 }));
  const pack = path.join(REPOSITORY, 'tools/packages/pack-all.mjs');
  const made = [
    run(process.execPath, [pack, '--built', '--only', 'leasehold', '--out', PACKAGES], {
      cwd: REPOSITORY,
    }),
    run(process.execPath, [path.join(REPOSITORY, 'tools/build/drone-binary.mjs')]),
  ];
  stage = await openImageStage();
  cleanUp.push(async () => stage[Symbol.asyncDispose]());
  await Promise.all(made);
  const database = await createTestDatabase();
  cleanUp.push(() => database.drop());
  await stage.build('leasehold.Dockerfile', LEASEHOLD, {
    PACKAGE: `${PACKAGES}/leasehold-[0-9]*.tgz`,
  });
  await stage.build('drone.Dockerfile', DRONE);
  const port = await freePort();
  consolePort = await freePort();
  url = `http://127.0.0.1:${String(port)}`;
  const secrets = await ownFolder('secrets');
  await writeFile(path.join(secrets, 'database-url'), `${database.url}\n`);
  const environment = {
    DATABASE_URL_FILE: '/run/secrets/database-url',
    LEASEHOLD_HOST: '127.0.0.1',
    LEASEHOLD_PORT: String(port),
    LEASEHOLD_PRESET: 'fast',
  };
  const mounts = [
    '-v',
    `${secrets}:/run/secrets:ro`,
    '-v',
    `${await ownFolder('home')}:/var/lib/leasehold`,
  ];
  await start('controller', [...HARDENED, ...variables(environment), ...mounts, LEASEHOLD]);
}, 240_000);
/** What is there is removed, however far the beginning got. */
const cleanUp: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const work of cleanUp) await work();
});

/** A folder of this test that belongs to the user of the images. */
async function ownFolder(name: string): Promise<string> {
  const folder = path.join(stage.folder, name);
  await mkdir(folder);
  await chown(folder, USER, USER);
  // So that the user can enter what is in it.
  await chmod(stage.folder, 0o711);
  return folder;
}

function variables(environment: Readonly<Record<string, string>>): string[] {
  return Object.entries(environment).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
}

/** Starts a container, and returns when its own health check finds it healthy. */
async function start(name: string, words: readonly string[]): Promise<void> {
  await stage.podman('run', '--detach', '--name', name, ...HERE, ...words);
  const stateOf = (format: string): Promise<string> =>
    stage.podman('inspect', '--format', format, name);
  const isSettled = async (): Promise<boolean> => {
    if ((await stateOf('{{.State.Running}}')) !== 'true') return true;
    await stage.podman('healthcheck', 'run', name).catch(() => undefined);
    return (await stateOf('{{.State.Healthcheck.Status}}')) === 'healthy';
  };
  await waitUntil(isSettled, { what: `a healthy ${name}`, timeoutMs: 60_000 });
  if ((await stateOf('{{.State.Running}}')) !== 'true') {
    throw new Error(`${name} has ended: ${await stage.logs(name)}`);
  }
}

/** The command line in the container of the controller, as its administrator. */
async function leasehold(...words: readonly string[]): Promise<string> {
  const file = path.join(stage.folder, 'home', 'credentials.json');
  const { admin } = JSON.parse(await readFile(file, 'utf8')) as { admin: string };
  const access = variables({ LEASEHOLD_URL: url, LEASEHOLD_TOKEN: admin });
  return stage.podman('exec', ...access, 'controller', 'leasehold', ...words);
}

/** A field of a `status` of /proc. */
function fieldOf(status: string, name: string): string | undefined {
  return new RegExp(`^${name}:\\s+(\\S+)`, 'mu').exec(status)?.[1];
}

test('a controller runs as an ordinary user without capabilities, and writes nothing but its home', async () => {
  const status = await stage.podman('exec', 'controller', 'cat', '/proc/1/status');

  expect(fieldOf(status, 'Uid')).toBe(String(USER));
  expect(fieldOf(status, 'CapBnd')).toMatch(/^0+$/u);
  expect(fieldOf(status, 'NoNewPrivs')).toBe('1');
  for (const place of ['/opt/leasehold/x', '/tmp/x', '/etc/x']) {
    await expect(stage.podman('exec', 'controller', 'touch', place)).rejects.toThrow('Read-only');
  }
  await expect(readFile(path.join(stage.folder, 'home/witness.json'), 'utf8')).resolves.toContain(
    'longestTtlMs',
  );
});

test('the health check of the image fails where neither a controller nor a console answers', async () => {
  const words = [...HARDENED, ...variables({ LEASEHOLD_PORT: String(await freePort()) })];
  const check = ['--entrypoint', 'node', LEASEHOLD, '/opt/leasehold/health.mjs'];

  await expect(stage.podman('run', '--rm', ...HERE, ...words, ...check)).rejects.toThrow();
});

test('the command line in its container takes a first lease', async () => {
  const words = ['leases', 'run', 'jobs/nightly', '--', 'sh', '-c'];

  expect(await leasehold(...words, 'echo "token $LEASEHOLD_FENCING_TOKEN"')).toMatch(/token \d+/u);
});

test('the same image is a console, without a home', async () => {
  const environment = {
    LEASEHOLD_URL: url,
    LEASEHOLD_HOST: '127.0.0.1',
    LEASEHOLD_CONSOLE_PORT: String(consolePort),
    LEASEHOLD_PORT: String(await freePort()),
  };
  await start('console', [...HARDENED, ...variables(environment), LEASEHOLD, 'console']);

  const page = await fetch(`http://127.0.0.1:${String(consolePort)}/sign-in`);

  expect(page.status).toBe(200);
  expect(await page.text()).toContain('Leasehold');
});

test('a drone with a read-only root runs each program as a user of its own, and stops it with itself', async () => {
  const etc = path.join(stage.folder, 'etc');
  await mkdir(etc);
  await writeFile(path.join(etc, 'program.mjs'), PROGRAM);
  const from = await freePort();
  const config = {
    isolation: { require: 'own-user' },
    ports: { from, to: from },
    programs: { who: { command: '/usr/bin/node', args: ['/etc/leasehold/program.mjs'] } },
  };
  await writeFile(path.join(etc, 'drone.json'), JSON.stringify(config));
  const made = await leasehold(
    'tokens',
    'create',
    'node-1',
    '--role',
    'drone',
    '--drone',
    'node-1',
  );
  await writeFile(path.join(etc, 'token'), made.split('\n')[0] ?? '', { mode: 0o400 });
  const environment = {
    LEASEHOLD_URL: url,
    LEASEHOLD_TOKEN_FILE: '/etc/leasehold/token',
    LEASEHOLD_DRONE_ID: 'node-1',
    LEASEHOLD_DRONE_HOST: '127.0.0.1',
  };
  const capabilities = DRONE_CAPABILITIES.flatMap((name) => ['--cap-add', name]);
  await start('drone', [
    '--read-only',
    '--read-only-tmpfs=false',
    '--cap-drop',
    'all',
    ...capabilities,
    '--user',
    '0:0',
    '--init=false',
    '--tmpfs',
    '/tmp',
    ...variables(environment),
    '-v',
    `${etc}:/etc/leasehold:ro`,
    DRONE,
  ]);

  const connected = await leasehold('connect', 'demo', '--program', 'who');
  const status = await (await fetch(`http://${connected.split('\n')[0] ?? ''}/`)).text();

  expect(Number(fieldOf(status, 'Uid'))).toBeGreaterThanOrEqual(2_100_000_000);
  expect(fieldOf(status, 'CapEff')).toMatch(/^0+$/u);
  expect(await leasehold('drones', 'show', 'node-1')).toMatch(
    /users of their own\n.*(?:nothing is missing|missing: control groups)/u,
  );
  await stage.podman('stop', '--time', '30', 'drone');
  expect(await leasehold('backends', 'ls', '--key', 'demo')).not.toContain('ready');
});
