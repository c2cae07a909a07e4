import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import { createDatabase, startEmbeddedPostgres } from '@leasehold/keys-core/postgres';
import {
  bundleOf,
  createTestDatabase,
  startControllerProcess,
  waitUntil,
  type ControllerProcess,
  type TestDatabase,
} from '@leasehold/testing';

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-controller-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

async function aController(
  databaseUrl: string,
  home: string,
  port?: number,
): Promise<ControllerProcess> {
  const controller = await startControllerProcess({ databaseUrl, home, port });
  onTestFinished(() => controller.kill());
  return controller;
}

async function aDatabase(): Promise<string> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  return database.url;
}

async function adminOf(
  controller: ControllerProcess,
  home: string,
): Promise<ControllerClient['api']> {
  const credentials = JSON.parse(await readFile(path.join(home, 'credentials.json'), 'utf8')) as {
    admin: string;
  };
  const client = createControllerClient({
    url: controller.url,
    token: credentials.admin,
    transport: 'http',
  });
  return client.api;
}

/** Runs the controller until it ends by itself. */
async function runToEnd(
  env: Record<string, string>,
): Promise<{ code: number | null; printed: string }> {
  const child = spawn(process.execPath, [bundleOf('controller')], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (printed += text));
  }
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, printed };
}

const statusOf = (controller: ControllerProcess, route: string): Promise<number | undefined> =>
  fetch(`${controller.url}${route}`).then(
    (response) => response.status,
    () => undefined,
  );

/** One after the other, on one database and one home. */
describe('a controller, from its first start to its last', () => {
  let database: TestDatabase;
  let home: string;
  let controller: ControllerProcess;
  beforeAll(async () => {
    database = await createTestDatabase();
    home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-controller-'));
    controller = await startControllerProcess({ databaseUrl: database.url, home });
  });
  afterAll(async () => {
    await controller.kill();
    await database.drop();
    await rm(home, { recursive: true, force: true, maxRetries: 10 });
  });

  test('on an empty database writes the first credentials, for its owner alone, and serves calls', async () => {
    const admin = await adminOf(controller, home);

    expect((await admin.tokens.list.query({})).items).toHaveLength(6);
    expect((await stat(path.join(home, 'credentials.json'))).mode & 0o777).toBe(0o600);
    expect(controller.log()).toContain('toleratedClockRatio');
    expect(controller.log()).not.toMatch(/lh_[A-Za-z0-9_-]{10}/u);
  });

  test('a second one warns when its ladder differs from that of the first, and names both', async () => {
    const env = { LEASEHOLD_KEY_EXPIRE_MS: '7000' };
    const second = await startControllerProcess({
      databaseUrl: database.url,
      home: await aFolder(),
      env,
    });
    onTestFinished(() => second.kill());

    expect(second.log()).toMatch(/"ttlMs":7000.*"ttlMs":6000.*gives keys another ladder/u);
  });

  test('SIGTERM ends it cleanly, even with open connections', () => expectCleanEnd('SIGTERM'));

  test('C35 a restart keeps tokens, credentials and their permissions', async () => {
    const secrets = await readFile(path.join(home, 'credentials.json'), 'utf8');
    const { url: databaseUrl } = database;

    controller = await startControllerProcess({ databaseUrl, home, port: controller.port });

    expect(await readFile(path.join(home, 'credentials.json'), 'utf8')).toBe(secrets);
    expect((await (await adminOf(controller, home)).keys.list.query({})).items).toEqual([]);
  });

  test('SIGINT ends it cleanly, even with open connections', () => expectCleanEnd('SIGINT'));

  async function expectCleanEnd(signal: NodeJS.Signals): Promise<void> {
    const { url } = controller;
    const client = createControllerClient({ url, token: 'lh_none', transport: 'ws' });
    onTestFinished(() => client.close());
    await client.api.keys.list.query({}).catch(() => 'refused');

    controller.signal(signal);

    expect(await controller.exited).toBe(0);
  }
});

describe('controller process', () => {
  test('two that start at once on an empty database both get ready, and one home has the first tokens', async () => {
    const databaseUrl = await aDatabase();
    const homes = [await aFolder(), await aFolder()];

    const controllers = await Promise.all(homes.map((home) => aController(databaseUrl, home)));

    expect(await Promise.all(controllers.map((one) => statusOf(one, '/readyz')))).toEqual([
      200, 200,
    ]);
    // Exactly one home has the first tokens, all of them; the other controller names it.
    const files = await Promise.all(homes.map((home) => readdir(home)));
    const [winner] = homes.filter((_home, index) => files[index]?.includes('credentials.json'));
    expect(files.flat().filter((name) => name.startsWith('credentials'))).toHaveLength(1);
    const [first, loser] = winner === homes[0] ? controllers : controllers.toReversed();
    if (first === undefined || loser === undefined) throw new Error('two were started');
    const admin = await adminOf(loser, winner ?? '');
    expect((await admin.tokens.list.query({})).items).toHaveLength(6);
    expect(first.log()).toContain('first tokens written');
    expect(loser.log()).toContain(`${winner ?? ''}/credentials.json`);
    expect(loser.log()).toContain('leasehold admin create');
  });

  test('reports plainly that its port is in use, with what to do', async () => {
    const server = net.createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const port = String((server.address() as net.AddressInfo).port);

    const { code, printed } = await runToEnd({
      DATABASE_URL: await aDatabase(),
      LEASEHOLD_HOME: await aFolder(),
      LEASEHOLD_PORT: port,
    });

    expect(code).toBe(1);
    expect(printed).toContain(`127.0.0.1:${port} is in use: set LEASEHOLD_PORT to another port.`);
    expect(printed).not.toContain('    at ');
  });

  test('reports all wrong values at once, and starts nothing', async () => {
    const home = path.join(await aFolder(), 'home');

    const { code, printed } = await runToEnd({
      LEASEHOLD_HOME: home,
      LEASEHOLD_PORT: 'x',
      LEASEHOLD_PRESET: 'quick',
    });

    expect(code).toBe(1);
    expect(printed).toContain('LEASEHOLD_PORT: must be a whole number from 0 to 65535');
    expect(printed).toContain('LEASEHOLD_PRESET: must be standard or fast');
    await expect(stat(home)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('is not ready while the database is gone, reports that, and is ready again afterwards', async () => {
    const folder = await aFolder();
    const dataDir = path.join(folder, 'postgres');
    let postgres = await startEmbeddedPostgres({ dataDir, fsync: false });
    onTestFinished(() => postgres.stop());
    const databaseUrl = postgres.url('leasehold');
    await createDatabase(databaseUrl);
    const controller = await aController(databaseUrl, path.join(folder, 'home'));
    const admin = await adminOf(controller, path.join(folder, 'home'));

    postgres.kill();
    await postgres.exited;
    expect(await statusOf(controller, '/readyz')).toBe(503);
    expect(await statusOf(controller, '/healthz')).toBe(200);
    await expect(admin.keys.list.query({})).rejects.toMatchObject({
      data: { retryable: true, httpStatus: 503 },
    });

    postgres = await startEmbeddedPostgres({ dataDir, port: postgres.port, fsync: false });
    await waitUntil(async () => (await statusOf(controller, '/readyz')) === 200);
    expect((await admin.keys.list.query({})).items).toEqual([]);
  });

  test('starts its own PostgreSQL again when it dies, and is ready again afterwards', async () => {
    const home = await aFolder();
    const controller = await aController('', home);
    const pidFile = path.join(home, 'postgres', 'data', 'postmaster.pid');
    const pidOf = async (): Promise<number> => Number.parseInt(await readFile(pidFile, 'utf8'), 10);
    const pid = await pidOf();

    process.kill(pid, 'SIGKILL');
    await waitUntil(() => controller.log().includes('PostgreSQL runs again'));

    await waitUntil(async () => (await statusOf(controller, '/readyz')) === 200);
    expect(await pidOf()).not.toBe(pid);
  });
});
