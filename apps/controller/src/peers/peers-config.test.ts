import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { LeaseError } from '@leasehold/keys-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../config.ts';

const SECRET = `lh_${'s'.repeat(43)}`;
const OTHER = `lh_${'t'.repeat(43)}`;

/** Two datacenters as they should be. */
const GOOD = {
  LEASEHOLD_DATACENTER: 'dc1',
  LEASEHOLD_PEERS: 'dc3=https://leasehold.dc3.example.com,dc2=http://127.0.0.1:4600',
  LEASEHOLD_PEER_TOKEN: SECRET,
  LEASEHOLD_ETCD: 'http://10.0.0.1:2379,http://10.0.0.2:2379',
};

function problemsOf(change: Record<string, string>): string[] {
  try {
    readConfig({ ...GOOD, ...change });
    return [];
  } catch (error) {
    return (error as LeaseError).details['problems'] as string[];
  }
}

function pemFile(text = '-----BEGIN CERTIFICATE-----\n'): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-peers-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true, maxRetries: 10 });
  });
  const file = path.join(folder, 'file.pem');
  writeFileSync(file, text);
  return file;
}

describe('peers', () => {
  test('are in the order of their names, all with one secret', () => {
    expect(readConfig(GOOD).datacenters).toMatchObject({
      peers: [
        { name: 'dc2', url: 'http://127.0.0.1:4600', secret: SECRET },
        { name: 'dc3', url: 'https://leasehold.dc3.example.com', secret: SECRET },
      ],
      etcd: { endpoints: ['http://10.0.0.1:2379', 'http://10.0.0.2:2379'] },
    });
  });

  test('have a secret for each pair where one is given', () => {
    const config = readConfig({ ...GOOD, LEASEHOLD_PEER_TOKEN: `dc2=${SECRET},dc3=${OTHER}` });

    expect(config.datacenters?.peers.map(({ secret }) => secret)).toEqual([SECRET, OTHER]);
  });

  test('are empty, and there is no etcd, unless configured', () => {
    expect(readConfig({}).datacenters).toMatchObject({ peers: [], etcd: null });
  });

  test.each([
    ['dc2', 'must have a URL'],
    ['Dc2=https://example.com', 'must be a list as in'],
    ['dc2=ftp://example.com', 'must have an http:// or https:// URL'],
    ['dc2=http://leasehold.example.com', 'must have an https:// URL'],
    ['dc2=http://127.0.0.1.example.com', 'must have an https:// URL'],
    ['dc2=https://user:hunter2@example.com', 'must have a URL of a host and a port alone'],
    ['dc2=https://example.com/path', 'must have a URL of a host and a port alone'],
    ['dc2=https://a.example.com,dc2=https://b.example.com', 'twice'],
    ['dc1=https://a.example.com', 'which is this datacenter'],
  ])('%s is refused: %s', (peers, why) => {
    const problems = problemsOf({ LEASEHOLD_PEERS: peers });

    expect(problems).toEqual([expect.stringContaining(why)]);
    expect(problems[0]).toMatch(/^LEASEHOLD_PEERS: /u);
    expect(problems[0]).not.toContain('hunter2');
  });

  test.each([
    ['lh_short', 'must be a secret'],
    ['hunter2'.repeat(10), 'must be a secret'],
    [`dc2=${SECRET}`, 'has none for dc3'],
    [`dc2=${SECRET},dc3=${OTHER},dc4=${OTHER}`, 'dc4 is not one of LEASEHOLD_PEERS'],
    [`dc2=${SECRET},dc2=${OTHER}`, 'twice'],
    [`dc2=${SECRET},dc3=lh_short`, 'must be a secret'],
  ])('a secret is refused, and not repeated: %s', (secret, why) => {
    const problems = problemsOf({ LEASEHOLD_PEER_TOKEN: secret });

    expect(problems).toEqual([expect.stringContaining(why)]);
    expect(problems.join()).not.toContain('hunter2');
    expect(problems.join()).not.toContain('sss');
  });

  test('C62 do not start without etcd, nor without a secret', () => {
    expect(problemsOf({ LEASEHOLD_ETCD: '' })).toEqual([
      expect.stringMatching(/^LEASEHOLD_ETCD: must be set where LEASEHOLD_PEERS is/u),
    ]);
    expect(problemsOf({ LEASEHOLD_PEER_TOKEN: '' })).toEqual([
      expect.stringMatching(/^LEASEHOLD_PEER_TOKEN: must be set where LEASEHOLD_PEERS is/u),
    ]);
    expect(problemsOf({ LEASEHOLD_PEERS: '' })).toEqual([
      expect.stringMatching(/^LEASEHOLD_PEERS: must be set where LEASEHOLD_PEER_TOKEN is/u),
    ]);
  });
});

describe('etcd', () => {
  const https = { LEASEHOLD_ETCD: 'https://10.0.0.1:2379' };

  test('can be configured with a user, a CA and a certificate', () => {
    const file = pemFile();
    const config = readConfig({
      ...GOOD,
      ...https,
      LEASEHOLD_ETCD_USER: 'leasehold',
      LEASEHOLD_ETCD_PASSWORD: 'hunter2',
      LEASEHOLD_ETCD_CA_FILE: file,
      LEASEHOLD_ETCD_CERT_FILE: file,
      LEASEHOLD_ETCD_KEY_FILE: file,
    });

    const pem = '-----BEGIN CERTIFICATE-----\n';
    expect(config.datacenters?.etcd).toEqual({
      endpoints: ['https://10.0.0.1:2379'],
      user: 'leasehold',
      password: 'hunter2',
      ca: pem,
      cert: pem,
      key: pem,
    });
  });

  test.each([
    [{ LEASEHOLD_ETCD_USER: 'u' }, 'LEASEHOLD_ETCD_PASSWORD: must be set'],
    [{ LEASEHOLD_ETCD_PASSWORD: 'hunter2' }, 'LEASEHOLD_ETCD_USER: must be set'],
    [
      { LEASEHOLD_ETCD_CA_FILE: '/nowhere/ca.pem' },
      'LEASEHOLD_ETCD_CA_FILE: cannot be read: ENOENT',
    ],
    [{ LEASEHOLD_ETCD: '10.0.0.1:2379' }, 'LEASEHOLD_ETCD: must be a list of URLs'],
    [{ LEASEHOLD_ETCD: 'https://u:hunter2@etcd' }, 'LEASEHOLD_ETCD: must be a list of URLs'],
  ])('%o is refused: %s', (change, why) => {
    const problems = problemsOf({ ...https, ...change });

    expect(problems).toEqual([expect.stringContaining(why)]);
    expect(problems.join()).not.toContain('hunter2');
  });

  test('a certificate needs its key and the CA, in PEM files, over https', () => {
    const file = pemFile();

    expect(problemsOf({ ...https, LEASEHOLD_ETCD_CERT_FILE: file })).toEqual([
      expect.stringMatching(/^LEASEHOLD_ETCD_KEY_FILE: must be set/u),
      expect.stringMatching(/^LEASEHOLD_ETCD_CA_FILE: must be set/u),
    ]);
    expect(problemsOf({ LEASEHOLD_ETCD_CA_FILE: file })).toEqual([
      expect.stringMatching(/^LEASEHOLD_ETCD: must have https/u),
    ]);
    expect(problemsOf({ ...https, LEASEHOLD_ETCD_CA_FILE: pemFile('hunter2') })).toEqual([
      'LEASEHOLD_ETCD_CA_FILE: must be a PEM file',
    ]);
  });
});
