import { expect, test } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { agentSpec, consoleSpec, controllerSpec } from './processes.ts';

/** The proxies that the controller is told to trust when `leasehold up` has these variables. */
function trustedWith(environment: Record<string, string>): string | undefined {
  const of = { environment, programPath: 'main.mjs', databaseUrl: 'postgresql://db' };
  return controllerSpec(parseConfig(environment), of).env['LEASEHOLD_TRUSTED_PROXIES'];
}

test.each([
  ['192.0.2.7', '127.0.0.1/32,::1/128,192.0.2.7/32'],
  ['2001:db8::7', '127.0.0.1/32,::1/128,2001:db8::7/128'],
])('a controller that listens at %s trusts the console, which comes from there', (host, list) => {
  expect(trustedWith({ LEASEHOLD_HOST: host })).toBe(list);
  expect(trustedWith({ LEASEHOLD_HOST: host, LEASEHOLD_TRUSTED_PROXIES: '' })).toBe(list);
});

test('no trusted proxies are set when the host is loopback, every address or a name', () => {
  for (const host of ['127.0.0.1', '::1', '0.0.0.0', '::', 'localhost', 'machine-7']) {
    expect(trustedWith({ LEASEHOLD_HOST: host })).toBeUndefined();
  }
});

test('trusted proxies that the environment sets are kept, for the controller and the console', () => {
  const environment = { LEASEHOLD_HOST: '192.0.2.7', LEASEHOLD_TRUSTED_PROXIES: '10.0.0.1' };
  const of = { environment, programPath: 'main.mjs', controllerUrl: 'http://192.0.2.7:4600' };

  expect(trustedWith(environment)).toBe('10.0.0.1');
  expect(consoleSpec(parseConfig(environment), of).env['LEASEHOLD_TRUSTED_PROXIES']).toBe(
    '10.0.0.1',
  );
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

  expect(controllerSpec(config, { ...of, databaseUrl: 'postgresql://db' }).env).toMatchObject(
    environment,
  );
  for (const { env } of [
    consoleSpec(config, of),
    agentSpec(config, { ...of, configPath: 'drone.json', token: 'lh_drone' }),
  ]) {
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

  expect(filesOf(controllerSpec(config, { ...of, databaseUrl: 'postgresql://db' }).env)).toEqual([
    'LEASEHOLD_AUTH_SECRET_FILE',
  ]);
  expect(filesOf(consoleSpec(config, of).env)).toEqual([]);
  expect(
    filesOf(agentSpec(config, { ...of, configPath: 'drone.json', token: 'lh_drone' }).env),
  ).toEqual([]);
});
