import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createControllerClient } from '@leasehold/client';
import {
  bundleOf,
  createTestDatabase,
  freePort,
  startControllerProcess,
  startFaultProxy,
  waitUntil,
  type ControllerProcess,
  type FaultProxy,
  type TestDatabase,
} from '@leasehold/testing';
import {
  aController,
  aDatabase,
  adminOf,
  aFolder,
  statusOf,
} from './testing/controller-process.ts';

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

/** One after the other, on one database and one home. */
describe('a controller, from its first start to its last', () => {
  let database: TestDatabase;
  /** Through which the controller reaches the database: without it, nobody listens there. */
  let proxy: FaultProxy;
  let databaseUrl: string;
  let home: string;
  let controller: ControllerProcess;
  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await aProxy(await freePort());
    databaseUrl = Object.assign(new URL(database.url), { port: String(proxy.port) }).href;
    home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-controller-'));
    controller = await startControllerProcess({ databaseUrl, home });
  });
  afterAll(async () => {
    await controller.kill();
    await proxy.close();
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

  test('is not ready while the database is gone, reports that, and is ready again afterwards', async () => {
    const admin = await adminOf(controller, home);

    await proxy.close();
    const statuses = [
      await statusOf(controller, '/readyz'),
      await statusOf(controller, '/healthz'),
    ];
    const refusal = await admin.keys.list.query({}).catch((error: unknown) => error);
    proxy = await aProxy(proxy.port);

    expect(statuses).toEqual([503, 200]);
    expect(refusal).toMatchObject({ data: { retryable: true, httpStatus: 503 } });
    await waitUntil(async () => (await statusOf(controller, '/readyz')) === 200);
    expect((await admin.keys.list.query({})).items).toEqual([]);
  });

  test('SIGTERM ends it cleanly, even with open connections', () => expectCleanEnd('SIGTERM'));

  test('C35 a restart keeps tokens, credentials and their permissions', async () => {
    const secrets = await readFile(path.join(home, 'credentials.json'), 'utf8');

    controller = await startControllerProcess({ databaseUrl, home, port: controller.port });

    expect(await readFile(path.join(home, 'credentials.json'), 'utf8')).toBe(secrets);
    expect((await (await adminOf(controller, home)).keys.list.query({})).items).toEqual([]);
  });

  test('SIGINT ends it cleanly, even with open connections', () => expectCleanEnd('SIGINT'));

  function aProxy(port: number): Promise<FaultProxy> {
    const { hostname, port: databasePort } = new URL(database.url);
    return startFaultProxy({ host: hostname, port: Number(databasePort) }, { port });
  }

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
