import { describe, expect, test } from 'vitest';
import { parseConfig, redactedConfig } from './config.ts';
import { problemsOf } from '../testing/problems.ts';

const SECRET = `lh_${'s'.repeat(43)}`;

const WHOLE = {
  LEASEHOLD_DATACENTER: 'dc1',
  LEASEHOLD_PEERS: 'dc2=http://127.0.0.1:4600/, dc3=https://dc3.example.com',
  LEASEHOLD_PEER_TOKEN: SECRET,
  LEASEHOLD_ETCD: 'https://a:2379,https://b:2379',
};

describe('the configuration of datacenters', () => {
  test('names peers with their URLs, and the endpoints of etcd', () => {
    expect(parseConfig(WHOLE)).toMatchObject({
      peers: { dc2: 'http://127.0.0.1:4600', dc3: 'https://dc3.example.com' },
      peerToken: SECRET,
      etcd: { endpoints: ['https://a:2379', 'https://b:2379'], user: null },
    });
    expect(parseConfig({})).toMatchObject({ peers: {}, peerToken: null, etcd: null });
  });

  test('peers need etcd and a secret, one for all or one for each', () => {
    const { LEASEHOLD_DATACENTER, LEASEHOLD_PEERS } = WHOLE;
    const alone = problemsOf({ LEASEHOLD_DATACENTER, LEASEHOLD_PEERS });
    const each = `dc2=${SECRET},dc3=${SECRET}`;

    expect(alone).toContain('LEASEHOLD_ETCD: must be set');
    expect(alone).toContain('LEASEHOLD_PEER_TOKEN: must be set');
    expect(problemsOf({ ...WHOLE, LEASEHOLD_PEER_TOKEN: each })).toBe('');
    expect(problemsOf({ ...WHOLE, LEASEHOLD_PEER_TOKEN: `dc2=${SECRET}` })).toContain(
      'LEASEHOLD_PEER_TOKEN: has none for dc3',
    );
  });

  test.each([
    ['LEASEHOLD_PEERS', 'http://10.0.0.2:4600'],
    ['LEASEHOLD_PEERS', 'dc2=ftp://hunter2'],
    ['LEASEHOLD_PEERS', 'dc2=http://hunter2.example.com'],
    ['LEASEHOLD_PEERS', 'dc2=https://hunter2,dc2=https://b'],
    ['LEASEHOLD_PEERS', 'DC.2=https://hunter2'],
    ['LEASEHOLD_PEER_TOKEN', 'lh_hunter2'],
    ['LEASEHOLD_ETCD', 'hunter2:2379'],
    ['LEASEHOLD_ETCD', ','],
    ['LEASEHOLD_ETCD', 'https://u:hunter2@a:2379'],
    ['LEASEHOLD_ETCD', 'https://:hunter2@a:2379'],
  ])('refuses %s=%s, and does not repeat it', (name, value) => {
    const message = problemsOf({ ...WHOLE, [name]: value });

    expect(message).toMatch(new RegExp(`${name}: (?:must be|"dc2" must have|names) `, 'u'));
    expect(message).not.toContain('hunter2');
  });

  test('refuses the datacenter as its own peer, and incomplete credentials', () => {
    expect(problemsOf({ ...WHOLE, LEASEHOLD_DATACENTER: 'dc2' })).toContain(
      'LEASEHOLD_PEERS: names "dc2", which is this datacenter',
    );
    expect(problemsOf({ ...WHOLE, LEASEHOLD_ETCD_USER: 'u' })).toContain('LEASEHOLD_ETCD_PASSWORD');
    expect(problemsOf({ ...WHOLE, LEASEHOLD_ETCD_CERT_FILE: '/c' })).toContain(
      'LEASEHOLD_ETCD_KEY_FILE',
    );
  });

  test('shows no secret of a peer or of etcd', () => {
    const shown = JSON.stringify(
      redactedConfig(
        parseConfig({
          ...WHOLE,
          LEASEHOLD_PEER_TOKEN: `dc2=${SECRET},dc3=${SECRET}`,
          LEASEHOLD_ETCD_USER: 'leasehold',
          LEASEHOLD_ETCD_PASSWORD: 'hunter3',
        }),
      ),
    );

    expect(shown).not.toMatch(/hunter|sss/u);
    expect(shown).toContain('dc2=lh_…,dc3=lh_…');
    expect(shown).toContain('"password":"***"');
  });
});
