import { describe, expect, test } from 'vitest';
import { LeaseError } from '@leasehold/keys-core';
import { readConfig } from './config.ts';

function problemsOf(environment: Record<string, string>): string[] {
  try {
    readConfig(environment);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(LeaseError);
    return (error as LeaseError).details['problems'] as string[];
  }
}

describe('configuration', () => {
  test('an empty environment gives the documented defaults', () => {
    expect(readConfig({})).toMatchObject({
      databaseUrl: null,
      host: '127.0.0.1',
      port: 4_600,
      datacenter: 'local',
      ladder: { renewAfterMs: 30_000, softAfterMs: 40_000, hardAfterMs: 50_000, ttlMs: 60_000 },
      heartbeatMs: 7_000,
      environmentLeaseMs: 60_000,
      isReadingAudited: false,
      retentionDays: 30,
      logLevel: 'info',
      signIn: {
        consoleOrigin: 'http://localhost:4601',
        authSecret: null,
        oidc: null,
        consoleSecret: null,
        trustedProxies: [],
      },
    });
  });

  test('an environment is leased for the time that is configured', () => {
    const config = readConfig({ LEASEHOLD_ENVIRONMENT_LEASE_MS: '45000' });

    expect(config.environmentLeaseMs).toBe(45_000);
  });

  test('a variable that is set to nothing counts as not set', () => {
    expect(readConfig({ LEASEHOLD_PORT: '', DATABASE_URL: '' })).toEqual(readConfig({}));
  });

  test('the preset fast sets its ladder and its heartbeat, and single rungs can be changed', () => {
    const config = readConfig({ LEASEHOLD_PRESET: 'fast', LEASEHOLD_KEY_EXPIRE_MS: '7000' });

    expect(config.ladder).toEqual({
      renewAfterMs: 3_000,
      softAfterMs: 4_000,
      hardAfterMs: 5_000,
      ttlMs: 7_000,
    });
    expect(config.heartbeatMs).toBe(1_000);
  });

  test('every wrong value is named at once, and no value is repeated', () => {
    const environment = {
      DATABASE_URL: 'mysql://root:hunter2@host/db',
      LEASEHOLD_PORT: '70000',
      LEASEHOLD_PRESET: 'quick',
      LEASEHOLD_KEY_SOFT_MS: '-1',
      LEASEHOLD_HEARTBEAT_MS: '1.5',
      LEASEHOLD_EVENT_RETENTION_DAYS: '0',
      LEASEHOLD_LOG_LEVEL: 'loud',
      LEASEHOLD_DATACENTER: 'Über',
      LEASEHOLD_ENVIRONMENT_LEASE_MS: '999',
      LEASEHOLD_CONSOLE_ORIGIN: 'https://console.example.com/path',
      LEASEHOLD_AUTH_SECRET: 'hunter2',
      LEASEHOLD_CONSOLE_SECRET: 'hunter2 with spaces, although it is sent in a header',
      LEASEHOLD_TRUSTED_PROXIES: '10.0.0.0/8,everybody',
    };

    const problems = problemsOf(environment);

    expect(problems.map((problem) => problem.split(':')[0])).toEqual(Object.keys(environment));
    expect(problems.join()).not.toContain('hunter2');
  });

  test('an identity provider is configured as a whole or not at all', () => {
    const oidc = {
      LEASEHOLD_OIDC_ISSUER: 'https://id.example.com/',
      LEASEHOLD_OIDC_CLIENT_ID: 'leasehold',
      LEASEHOLD_OIDC_CLIENT_SECRET: 'hunter2',
    };

    expect(readConfig(oidc).signIn.oidc).toEqual({
      issuer: 'https://id.example.com',
      clientId: 'leasehold',
      clientSecret: 'hunter2',
      name: 'single sign-on',
    });
    const more = {
      LEASEHOLD_OIDC_ISSUER: 'https://id.example.com',
      LEASEHOLD_OIDC_CLIENT_ID: 'leasehold',
      LEASEHOLD_OIDC_CLIENT_SECRET: 'hunter2',
    };
    const roles = { LEASEHOLD_OIDC_ROLES: 'ops=operator,sre=root' };
    expect(problemsOf({ ...more, ...roles })).toEqual([
      'LEASEHOLD_OIDC_ROLES: entry 2 must have a role of viewer, client, operator, admin',
    ]);
    expect(problemsOf({ LEASEHOLD_OIDC_ROLES: 'ops=operator' })).toEqual([
      'LEASEHOLD_OIDC_ROLES: needs LEASEHOLD_OIDC_ISSUER',
    ]);
    expect(problemsOf({ ...more, LEASEHOLD_OIDC_GROUPS_CLAIM: 'roles' })).toEqual([
      'LEASEHOLD_OIDC_GROUPS_CLAIM: needs LEASEHOLD_OIDC_ROLES',
    ]);
    expect(problemsOf({ ...more, LEASEHOLD_OIDC_SCOPES: 'a  b' })).toEqual([
      'LEASEHOLD_OIDC_SCOPES: must be scopes, separated by single spaces',
    ]);
    expect(
      readConfig({ ...more, LEASEHOLD_OIDC_ROLES: 'ops=client@a', LEASEHOLD_OIDC_SCOPES: 'x y' })
        .signIn.oidc,
    ).toMatchObject({
      scopes: ['x', 'y'],
      groups: { claim: 'groups', rules: [{ group: 'ops', role: 'client', namespaces: ['a'] }] },
    });
    expect(problemsOf({ LEASEHOLD_OIDC_ISSUER: 'https://id.example.com' })).toEqual([
      expect.stringMatching(/^LEASEHOLD_OIDC_CLIENT_ID: must be set/u),
      expect.stringMatching(/^LEASEHOLD_OIDC_CLIENT_SECRET: must be set/u),
    ]);
  });

  test('proxies are a list of addresses and networks', () => {
    const trusted = (text: string): readonly string[] =>
      readConfig({ LEASEHOLD_TRUSTED_PROXIES: text }).signIn.trustedProxies;

    expect(trusted('10.0.0.0/8, ::1')).toEqual(['10.0.0.0/8', '::1']);
  });

  test('a ladder that cannot keep its promises is refused with each of its problems', () => {
    const problems = problemsOf({
      LEASEHOLD_KEY_RENEW_MS: '1000',
      LEASEHOLD_KEY_SOFT_MS: '1000',
      LEASEHOLD_KEY_HARD_MS: '1200',
      LEASEHOLD_KEY_EXPIRE_MS: '1300',
      LEASEHOLD_HEARTBEAT_MS: '500',
    });

    expect(problems).toHaveLength(4);
  });
});
