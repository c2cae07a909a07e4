import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import { readConfig } from './config.ts';

const GIVEN = {
  LEASEHOLD_URL: 'http://a:4600, http://b:4600/',
  LEASEHOLD_TOKEN: `lh_${'a'.repeat(43)}`,
};

test('what is required is enough', () => {
  expect(readConfig(GIVEN)).toMatchObject({
    controllerUrls: ['http://a:4600', 'http://b:4600'],
    listen: { host: '127.0.0.1', port: 4_602 },
    metricsListen: { host: '127.0.0.1', port: 4_603 },
    publicUrl: null,
    keyHosts: null,
    tls: null,
    bounds: { connectionsMax: 20_000, heldMax: 2_000, holdMs: 30_000 },
  });
  expect(readConfig(GIVEN).gatewayId).toMatch(/^[a-z0-9-]+-4602$/u);
});

test('addresses, hosts and bounds are read', () => {
  const config = readConfig({
    ...GIVEN,
    LEASEHOLD_GATEWAY_ID: 'edge-1',
    LEASEHOLD_GATEWAY_LISTEN: '[::]:443',
    LEASEHOLD_GATEWAY_URL: 'https://Rooms.example.com',
    LEASEHOLD_GATEWAY_HOSTS: '*.Rooms.example.com',
    LEASEHOLD_TRUSTED_PROXIES: '10.0.0.0/8',
  });
  expect(config).toMatchObject({
    gatewayId: 'edge-1',
    listen: { host: '::', port: 443 },
    publicUrl: 'https://rooms.example.com',
    keyHosts: '.rooms.example.com',
    trustedProxies: ['10.0.0.0/8'],
  });
});

test('every problem is named by its variable, and no secret is repeated', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gateway-config-'));
  const file = path.join(folder, 'not.pem');
  writeFileSync(file, 'no certificate');
  const problemsOf = (environment: Record<string, string>): unknown => {
    try {
      readConfig(environment);
      return undefined;
    } catch (error) {
      return (error as { details: { problems: string[] } }).details.problems;
    }
  };
  expect(problemsOf({})).toEqual([
    expect.stringContaining('LEASEHOLD_URL: is required'),
    expect.stringContaining('LEASEHOLD_TOKEN: is required'),
  ]);
  const wrong = {
    LEASEHOLD_TOKEN: 'secret',
    LEASEHOLD_GATEWAY_ID: 'A B',
    LEASEHOLD_GATEWAY_LISTEN: '4602',
    LEASEHOLD_GATEWAY_URL: 'https://a/b',
    LEASEHOLD_GATEWAY_HOSTS: 'rooms.example.com',
    LEASEHOLD_GATEWAY_TLS_CERT: '/does/not/exist',
    LEASEHOLD_GATEWAY_HELD_MAX: '0',
    LEASEHOLD_TRUSTED_PROXIES: 'everybody',
  };
  const problems = problemsOf({ ...GIVEN, ...wrong }) as string[];
  expect(problems.map((problem) => problem.split(':')[0]).sort()).toEqual(
    Object.keys(wrong).sort(),
  );
  expect(problems.join()).not.toContain('secret');
  expect(problemsOf({ ...GIVEN, LEASEHOLD_GATEWAY_TLS_CERT: file })).toEqual([
    'LEASEHOLD_GATEWAY_TLS_KEY: is required with LEASEHOLD_GATEWAY_TLS_CERT',
  ]);
  const pair = { LEASEHOLD_GATEWAY_TLS_CERT: file, LEASEHOLD_GATEWAY_TLS_KEY: file };
  expect(problemsOf({ ...GIVEN, ...pair })).toEqual([
    expect.stringContaining('LEASEHOLD_GATEWAY_TLS_CERT: is not a certificate'),
  ]);
});
