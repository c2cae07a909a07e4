import type { LeaseError } from '@leasehold/keys-core';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readConfig } from './config.ts';

test('without variables the configuration is for a local controller', () => {
  expect(readConfig({})).toEqual({
    host: '127.0.0.1',
    port: 4_601,
    controllerUrls: ['http://127.0.0.1:4600'],
    origin: 'http://localhost:4601',
    trustedProxies: [],
    consoleSecret: null,
    home: path.resolve('.leasehold'),
    logLevel: 'info',
  });
});

test('the origin follows the port unless it is set', () => {
  expect(readConfig({ LEASEHOLD_CONSOLE_PORT: '8080' }).origin).toBe('http://localhost:8080');
  expect(
    readConfig({
      LEASEHOLD_CONSOLE_PORT: '8080',
      LEASEHOLD_CONSOLE_ORIGIN: 'https://Console.example.com',
    }).origin,
  ).toBe('https://console.example.com');
});

test('proxies are a list of addresses and networks', () => {
  const trusted = (text: string): readonly string[] =>
    readConfig({ LEASEHOLD_TRUSTED_PROXIES: text }).trustedProxies;

  expect(trusted('10.0.0.0/8, ::1')).toEqual(['10.0.0.0/8', '::1']);
  for (const text of ['10.0.0.0/33', '0.0.0.0/0', '::1/129', 'loopback', '10.0.0', 'fe80::1%x']) {
    expect(() => trusted(text)).toThrow('LEASEHOLD_TRUSTED_PROXIES: must be a list');
  }
});

test('every bad value is reported at once, by its name and without its value', () => {
  const bad = {
    LEASEHOLD_CONSOLE_PORT: '99999',
    LEASEHOLD_URL: 'postgresql://secret@x',
    LEASEHOLD_CONSOLE_ORIGIN: 'https://console.example.com/path',
    LEASEHOLD_TRUSTED_PROXIES: '10.0.0.0/8,everybody',
    LEASEHOLD_CONSOLE_SECRET: 'short',
    LEASEHOLD_LOG_LEVEL: 'loud',
  };

  let said = '';
  try {
    readConfig(bad);
  } catch (error) {
    said = (error as LeaseError).message;
    expect((error as LeaseError).code).toBe('config.invalid');
  }

  for (const [name, value] of Object.entries(bad)) {
    expect(said).toMatch(new RegExp(`${name}: must (?:be|have)`, 'u'));
    expect(said).not.toContain(value);
  }
});
