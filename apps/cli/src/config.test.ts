import { describe, expect, test } from 'vitest';
import { parseConfig, redactedConfig } from './config.ts';
import { problemsOf } from './testing/problems.ts';

describe('parseConfig', () => {
  test('has the defaults of the contract', () => {
    expect(parseConfig({})).toMatchObject({
      host: '127.0.0.1',
      port: 4_600,
      datacenter: 'local',
      ladder: { renewAfterMs: 30_000, softAfterMs: 40_000, hardAfterMs: 50_000, ttlMs: 60_000 },
      heartbeatMs: 7_000,
      environmentLeaseMs: 60_000,
      eventRetentionDays: 30,
      databaseUrl: null,
    });
  });

  test('the preset sets the ladder and the heartbeat, and a variable for one rung overrides it', () => {
    const config = parseConfig({ LEASEHOLD_PRESET: 'fast', LEASEHOLD_KEY_EXPIRE_MS: '7000' });

    expect(config.ladder).toEqual({
      renewAfterMs: 3_000,
      softAfterMs: 4_000,
      hardAfterMs: 5_000,
      ttlMs: 7_000,
    });
    expect(config.heartbeatMs).toBe(1_000);
  });

  test('reports every wrong value at once, and repeats none of them', () => {
    const message = problemsOf({
      LEASEHOLD_PORT: '70000',
      LEASEHOLD_PRESET: 'slow',
      LEASEHOLD_KEY_SOFT_MS: '4s',
      DATABASE_URL: 'mysql://root:hunter2@db',
      LEASEHOLD_TOKEN: 'lh_hunter2',
      LEASEHOLD_DATACENTER: 'Zürich',
    });

    for (const name of ['PORT', 'PRESET', 'KEY_SOFT_MS', 'TOKEN', 'DATACENTER']) {
      expect(message).toContain(`LEASEHOLD_${name}: must be`);
    }
    expect(message).toContain('DATABASE_URL: must be');
    expect(message).not.toContain('hunter2');
  });

  test('several controllers are a list separated by commas', () => {
    const urlsOf = (text: string): unknown => parseConfig({ LEASEHOLD_URL: text }).urls;

    expect(parseConfig({}).urls).toBeNull();
    expect(urlsOf('https://a/, https://b:1/x')).toEqual(['https://a', 'https://b:1/x']);
    expect(problemsOf({ LEASEHOLD_URL: 'https://a,b' })).toContain(
      'LEASEHOLD_URL: entry 2 of the list must be',
    );
  });

  test('the port of the console is one above that of the controller, unless it is set', () => {
    expect(parseConfig({}).consolePort).toBe(4_601);
    expect(parseConfig({ LEASEHOLD_PORT: '8080' }).consolePort).toBe(8_081);
    expect(parseConfig({ LEASEHOLD_PORT: '0' }).consolePort).toBe(0);
    expect(
      parseConfig({ LEASEHOLD_PORT: '8080', LEASEHOLD_CONSOLE_PORT: '1234' }).consolePort,
    ).toBe(1_234);
    expect(problemsOf({ LEASEHOLD_PORT: '65535' })).toContain('LEASEHOLD_CONSOLE_PORT: must be');
  });

  test('the origin of the console must be an origin, without a path', () => {
    const origin = 'https://console.example.com';

    expect(parseConfig({ LEASEHOLD_CONSOLE_ORIGIN: origin }).consoleOrigin).toBe(origin);
    for (const wrong of [`${origin}/`, `${origin}/keys`, 'console.example.com', 'ftp://x']) {
      expect(problemsOf({ LEASEHOLD_CONSOLE_ORIGIN: wrong })).toContain(
        'LEASEHOLD_CONSOLE_ORIGIN: must be an origin',
      );
    }
  });

  test('refuses a ladder whose rungs are out of order', () => {
    expect(problemsOf({ LEASEHOLD_KEY_RENEW_MS: '45000' })).toContain(
      'renew must be less than soft',
    );
  });

  test('an empty variable counts as not set', () => {
    expect(parseConfig({ LEASEHOLD_PORT: '', DATABASE_URL: '' })).toMatchObject({
      port: 4_600,
      databaseUrl: null,
    });
  });
});

describe('a configuration as it is shown', () => {
  test('holds no password and no token', () => {
    const shown = JSON.stringify(
      redactedConfig(
        parseConfig({
          DATABASE_URL: 'postgresql://me:hunter2@db:5432/x?password=hunter3',
          LEASEHOLD_TOKEN: `lh_${'s'.repeat(43)}`,
        }),
      ),
    );

    expect(shown).not.toMatch(/hunter|sss/u);
    expect(shown).toContain('postgresql://me:***@db:5432/x');
  });

  test('an address of a controller with a password is refused, and not repeated', () => {
    for (const LEASEHOLD_URL of [
      'https://me:hunter2@leasehold.example.com',
      'https://hunter2@leasehold.example.com',
      'http://a,https://:hunter2@b',
    ]) {
      const problem = problemsOf({ LEASEHOLD_URL });
      expect(problem).toMatch(/LEASEHOLD_URL: .*or a password/u);
      expect(problem).not.toContain('hunter2');
    }
  });
});

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
