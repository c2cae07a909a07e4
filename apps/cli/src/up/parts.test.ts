import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SECRETS } from '@leasehold/service-kit';
import { parseConfig } from '../config.ts';
import { identityOf } from '../processes.ts';
import {
  agentSpec,
  consoleSpec,
  controllerSpec,
  describeStart,
  endDrone,
  gatewaySpec,
} from './parts.ts';

/** What only the drone's agent is started with. */
const drone = { configPath: 'drone.json', stopGraceMs: 10_000, token: 'lh_drone' };

test('trusted proxies and the secret of the console are passed on to the controller and the console alone', () => {
  const environment = {
    LEASEHOLD_TRUSTED_PROXIES: '10.0.0.1',
    LEASEHOLD_CONSOLE_SECRET: 'a secret of the console: 0123456',
  };
  const config = parseConfig({ LEASEHOLD_HOST: '192.0.2.7' });
  const of = { environment, programPath: 'main.mjs', controllerUrl: 'http://192.0.2.7:4600' };

  expect(
    controllerSpec(config, { ...of, databaseUrl: 'postgresql://db', withGateway: true }).env,
  ).toMatchObject(environment);
  expect(consoleSpec(config, of).env).toMatchObject(environment);
  expect(agentSpec(config, { ...of, ...drone }).env).not.toHaveProperty('LEASEHOLD_CONSOLE_SECRET');
});

test('the secrets of datacenters are passed on to the controller, and to no other process', () => {
  const environment = {
    LEASEHOLD_DATACENTER: 'dc1',
    LEASEHOLD_PEERS: 'dc2=https://dc2.example.com',
    LEASEHOLD_PEER_TOKEN: `lh_${'s'.repeat(43)}`,
    LEASEHOLD_ETCD: 'https://etcd.example.com:2379',
    LEASEHOLD_ETCD_USER: 'leasehold',
    LEASEHOLD_ETCD_PASSWORD: 'hunter2',
  };
  const config = parseConfig(environment);
  const of = { environment, programPath: 'main.mjs', controllerUrl: 'http://127.0.0.1:4600' };

  expect(
    controllerSpec(config, { ...of, databaseUrl: 'postgresql://db', withGateway: true }).env,
  ).toMatchObject(environment);
  for (const { env } of [consoleSpec(config, of), agentSpec(config, { ...of, ...drone })]) {
    expect(Object.keys(env)).not.toContain('LEASEHOLD_PEER_TOKEN');
    expect(Object.keys(env)).not.toContain('LEASEHOLD_ETCD_PASSWORD');
  }
});

test('a secret in a file is passed on to the controller as such, and neither to others nor beside another value', () => {
  const environment = {
    DATABASE_URL_FILE: '/run/secrets/database-url',
    LEASEHOLD_AUTH_SECRET_FILE: '/run/secrets/auth',
    LEASEHOLD_TOKEN_FILE: '/run/secrets/token',
  };
  const config = parseConfig({});
  const of = { environment, programPath: 'main.mjs', controllerUrl: 'http://127.0.0.1:4600' };
  const filesOf = (env: object): string[] =>
    Object.keys(env).filter((name) => name.endsWith('_FILE'));

  expect(
    filesOf(
      controllerSpec(config, { ...of, databaseUrl: 'postgresql://db', withGateway: true }).env,
    ),
  ).toEqual(['LEASEHOLD_AUTH_SECRET_FILE']);
  expect(filesOf(consoleSpec(config, of).env)).toEqual([]);
  expect(filesOf(agentSpec(config, { ...of, ...drone }).env)).toEqual([]);
  expect(filesOf(gatewaySpec(config, { ...of, token: 'lh_gateway' }).env)).toEqual([]);
});

test('no other process has a secret of the controller', () => {
  const environment = Object.fromEntries(SECRETS.map((name) => [name, 'x']));
  const config = parseConfig({});
  const of = { environment, programPath: 'main.mjs', controllerUrl: 'http://127.0.0.1:4600' };
  const secretsOf = (env: object): string[] =>
    SECRETS.filter((name) => Object.keys(env).includes(name));

  expect(secretsOf(consoleSpec(config, of).env)).toEqual(['LEASEHOLD_CONSOLE_SECRET']);
  expect(secretsOf(agentSpec(config, { ...of, ...drone }).env)).toEqual(['LEASEHOLD_TOKEN']);
  expect(secretsOf(gatewaySpec(config, { ...of, token: 'lh_gateway' }).env)).toEqual([
    'LEASEHOLD_TOKEN',
  ]);
});

test('controllers know where browsers find the gateway, unless it is not started', () => {
  const config = parseConfig({});
  const of = { environment: {}, programPath: 'main.mjs', databaseUrl: 'postgresql://db' };
  const elsewhere = parseConfig({ LEASEHOLD_GATEWAY_URL: 'https://rooms.example.com' });

  expect(controllerSpec(config, { ...of, withGateway: true }).env).toMatchObject({
    LEASEHOLD_GATEWAY_URL: 'http://localhost:4602',
  });
  expect(controllerSpec(config, { ...of, withGateway: false }).env).not.toHaveProperty(
    'LEASEHOLD_GATEWAY_URL',
  );
  expect(controllerSpec(elsewhere, { ...of, withGateway: true }).env).toMatchObject({
    LEASEHOLD_GATEWAY_URL: 'https://rooms.example.com',
  });
});

test('the drone has the grace of its slowest program to end in, and some seconds more', () => {
  const of = { environment: {}, programPath: 'main.mjs', controllerUrl: 'http://127.0.0.1:4600' };
  const stopTimeoutOf = (stopGraceMs: number): number =>
    agentSpec(parseConfig({}), { ...of, ...drone, stopGraceMs }).stopTimeoutMs;

  expect([0, 10_000, 60_000, 86_400_000].map(stopTimeoutOf)).toEqual([
    30_000, 30_000, 75_000, 86_415_000,
  ]);
});

test('the folder that PostgreSQL has its data in is printed, with a warning where it is not in the home', () => {
  const usual = { port: 5_433, lostPort: undefined, dir: '/app/postgres', notice: undefined };
  const elsewhere = { dir: '/var/lib/leasehold/0a/cluster', notice: 'its data is elsewhere' };

  expect(describeStart(usual)).toEqual({
    place: 'PostgreSQL       127.0.0.1:5433, data in /app/postgres',
    notes: [],
  });
  expect(describeStart({ ...usual, ...elsewhere, lostPort: 5_432 })).toEqual({
    place: 'PostgreSQL       127.0.0.1:5433, data in /var/lib/leasehold/0a/cluster',
    notes: ['its data is elsewhere', expect.stringContaining('port 5432') as string],
  });
});

/** A drone whose record names, as its warden, a process with these arguments. */
function droneWithRecordOf(command: string, argsOf: (stateDir: string) => readonly string[]) {
  const stateDir = mkdtempSync(join(tmpdir(), 'lh-parts-'));
  const child = spawn(command, argsOf(stateDir));
  writeFileSync(join(stateDir, 'warden.json'), JSON.stringify({ pid: child.pid }));
  onTestFinished(() => {
    child.kill('SIGKILL');
    rmSync(stateDir, { recursive: true });
  });
  return { stateDir, pid: child.pid ?? 0 };
}

const agent = { stop: () => Promise.resolve() };

test('a process that has got the number of the warden since lives on when the drone ends', async () => {
  const { stateDir, pid } = droneWithRecordOf('sleep', () => ['60']);

  await endDrone(agent, { stateDir });

  expect(identityOf(pid)).toBeDefined();
});

test('a warden that its agent has left is killed', async () => {
  const idle = 'setInterval(() => undefined, 1000)';
  const { stateDir, pid } = droneWithRecordOf(process.execPath, (folder) => [
    ...['-e', idle, 'warden', folder],
  ]);

  await endDrone(agent, { stateDir });

  expect(identityOf(pid)).toBeUndefined();
});
