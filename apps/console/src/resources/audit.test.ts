import { describe, expect, test } from 'vitest';
import { AUDIT_ACTIONS, type AuditAction } from '@leasehold/keys-core';
import { routes } from '~/lib/routes.ts';
import {
  type Act,
  actionLabel,
  actionName,
  actSentence,
  actText,
  auditTarget,
  modeOf,
} from './audit.ts';

describe('auditTarget', () => {
  test('names a grant by its key, lease or environment, and links to that', () => {
    const detail = { mode: 'force', face: 'key', namespace: 'rooms.eu', name: 'a&b' };

    expect(auditTarget({ resource: 'lease:0190', detail })).toEqual({
      kind: 'key',
      label: 'rooms.eu/a&b',
      href: '/keys/detail?namespace=rooms.eu&name=a%26b',
    });
    expect(modeOf({ detail })).toBe('force');
  });

  test('links drones, backends, tokens and people to their pages', () => {
    expect(auditTarget({ resource: 'drone:d-1' }).href).toBe('/drones/detail?id=d-1');
    expect(auditTarget({ resource: 'backend:b-1' }).href).toBe('/backends/detail?id=b-1');
    expect(auditTarget({ resource: 'token:t', detail: { name: 'ci' } })).toMatchObject({
      label: 'ci',
      href: '/access',
    });
    expect(auditTarget({ resource: 'person:p', detail: { email: 'a@b.example' } })).toMatchObject({
      label: 'a@b.example',
      href: '/access?tab=people',
    });
  });

  test('links a moved key, and any other reserved list, to its chain', () => {
    const detail = { toDatacenter: 'dc2', reservationId: 'dc2.x' };

    expect(auditTarget({ resource: 'key:rooms.eu/a/b', detail })).toEqual({
      kind: 'reservation',
      label: 'rooms.eu/a/b',
      href: routes.reservation(['rooms.eu', 'a/b']),
    });
    expect(auditTarget({ resource: 'key:rooms%2Feu/a', detail }).href).toBe(
      routes.reservation(['rooms/eu', 'a']),
    );
    expect(auditTarget({ resource: 'key:/root', detail }).href).toBe(
      routes.reservation(['', 'root']),
    );
    expect(auditTarget({ resource: 'reservation:["a/b"]', detail })).toMatchObject({
      label: '["a/b"]',
      href: routes.reservation(['a/b']),
    });
  });

  test('gives names as they are, for what shows the invisible in them', () => {
    const detail = { face: 'key', namespace: 'rooms', name: 'a\u202eb', reservationId: 'dc2.x' };
    expect(auditTarget({ resource: 'lease:0190', detail }).label).toBe('rooms/a\u202eb');
    const moved = auditTarget({
      resource: 'reservation:["a\u200bb"]',
      detail: { reservationId: 'dc2.x' },
    });
    expect(moved.label).toBe('["a\u200bb"]');
  });

  test('shows a token without a name by the end of its id, which others do not share', () => {
    const resource = 'token:0198c0de-1111-7000-8000-00000000000a';
    expect(auditTarget({ resource }).label).toBe('…0000000a');
  });

  test('shows anything else by its id, without a link', () => {
    expect(auditTarget({ resource: 'lease:0190', detail: null })).toEqual({
      kind: 'lease',
      label: '0190',
      href: null,
    });
    expect(auditTarget({ resource: 'everything' }).label).toBe('everything');
  });
});

test('each action has a name of its own, in words', () => {
  const names = AUDIT_ACTIONS.map(actionName);

  expect(new Set(names).size).toBe(names.length);
  expect(names.filter((name) => !/^[A-Z][a-z -]+$/u.test(name))).toEqual([]);
});

test('a list names an action without what the row names, and one of a later version as it is', () => {
  expect(actionLabel('keys.blockRenewal')).toBe('Blocked renewal');
  expect(actionLabel('moons.land')).toBe('moons.land');
});

const PERSON = 'person:0198c0de-0000-7000-8000-000000000001';
const EMAIL = 'omar@example.com';
const KEY = { face: 'key', namespace: 'boards.eu', name: 'q4' };
const LEASE = { face: 'lease', namespace: 'jobs', name: 'nightly' };
const ENVIRONMENT = { face: 'environment', namespace: 'shop', name: 'demo' };
const WEEKENDS = { namespace: 'shop', name: null, recurrence: { schedule: '0 17 * * 5' } };

interface Example {
  readonly resource?: string;
  readonly detail?: unknown;
  readonly text: string;
}

/** What the audit records of each action, and the sentence for it. */
const EXAMPLES: Readonly<Record<AuditAction, Example>> = {
  'keys.revoke': {
    detail: { ...KEY, mode: 'force' },
    text: 'Ada Okafor (ada@example.com) revoked the key boards.eu/q4 by force',
  },
  'keys.blockRenewal': {
    detail: KEY,
    text: 'Ada Okafor (ada@example.com) blocked the renewal of the key boards.eu/q4',
  },
  'keys.allowRenewal': {
    detail: KEY,
    text: 'Ada Okafor (ada@example.com) allowed the renewal of the key boards.eu/q4 again',
  },
  'keys.resetFailures': {
    resource: 'key:boards.eu/q4',
    text: 'Ada Okafor (ada@example.com) reset the failures of the key boards.eu/q4',
  },
  'webhook.test': {
    resource: 'webhook',
    text: 'Ada Okafor (ada@example.com) sent a test to the webhook',
  },
  'leases.revoke': {
    detail: { ...LEASE, mode: 'graceful' },
    text: 'Ada Okafor (ada@example.com) revoked the lease jobs/nightly',
  },
  'leases.blockRenewal': {
    detail: LEASE,
    text: 'Ada Okafor (ada@example.com) blocked the renewal of the lease jobs/nightly',
  },
  'leases.allowRenewal': {
    detail: LEASE,
    text: 'Ada Okafor (ada@example.com) allowed the renewal of the lease jobs/nightly again',
  },
  'leases.setPermits': {
    resource: 'declaration:jobs',
    detail: { namespace: 'jobs', permits: { perKey: 3, total: null } },
    text: 'Ada Okafor (ada@example.com) set the number of permits of jobs',
  },
  'environments.revoke': {
    detail: { ...ENVIRONMENT, mode: 'force' },
    text: 'Ada Okafor (ada@example.com) revoked the environment shop/demo by force',
  },
  'environments.freeze': {
    resource: 'freeze:1',
    detail: { ...WEEKENDS, stopRunning: true },
    text: 'Ada Okafor (ada@example.com) froze shop/*, again and again, and asked for its holders to be told to stop',
  },
  'environments.unfreeze': {
    resource: 'freeze:1',
    detail: { namespace: 'shop', name: 'prod' },
    text: 'Ada Okafor (ada@example.com) ended a freeze of shop/prod',
  },
  'environments.overrideFreeze': {
    detail: ENVIRONMENT,
    text: 'Ada Okafor (ada@example.com) acquired the environment shop/demo although it was frozen',
  },
  'environments.supersede': {
    detail: { ...ENVIRONMENT, holder: 'ci/42', waiting: ['ci/41'] },
    text: 'Ada Okafor (ada@example.com) superseded older requests for the environment shop/demo for ci/42',
  },
  'bulk.start': {
    resource: 'bulk:1',
    detail: { action: 'revoke', mode: 'force', total: 1_200 },
    text: 'Ada Okafor (ada@example.com) began to revoke 1,200 grants by force',
  },
  'bulk.abort': {
    resource: 'bulk:1',
    detail: { done: 3, total: 1_200 },
    text: 'Ada Okafor (ada@example.com) stopped a bulk action after 3 of 1,200 grants',
  },
  'backends.terminate': {
    resource: 'backend:bk-1',
    detail: { mode: 'hard' },
    text: 'Ada Okafor (ada@example.com) terminated the backend bk-1 at once',
  },
  'backends.logs': {
    resource: 'backend:bk-1',
    text: 'Ada Okafor (ada@example.com) read the output of the backend bk-1',
  },
  'reservations.move': {
    resource: 'key:boards.eu/q4',
    detail: { toDatacenter: 'ams', reservationId: 'fra.1' },
    text: 'Ada Okafor (ada@example.com) moved the key boards.eu/q4 to ams',
  },
  'reservations.cancelMove': {
    resource: 'key:boards.eu/q4',
    detail: { reservationId: 'fra.1' },
    text: 'Ada Okafor (ada@example.com) cancelled the move of the key boards.eu/q4',
  },
  'holdOff.end': { resource: 'database', text: 'Ada Okafor (ada@example.com) ended the hold-off' },
  'datacenters.giveUp': {
    resource: 'datacenter:ams',
    detail: { abandon: false },
    text: 'Ada Okafor (ada@example.com) gave up the datacenter ams',
  },
  'datacenters.takeBack': {
    resource: 'datacenter:ams',
    text: 'Ada Okafor (ada@example.com) took back the datacenter ams',
  },
  'gateway.revoke': {
    resource: 'namespace:boards.eu',
    detail: { namespace: 'boards.eu', user: 'eve' },
    text: 'Ada Okafor (ada@example.com) revoked the gateway tokens of eve in boards.eu',
  },
  'gateway.rotate': {
    resource: 'gateway-key:gk-1',
    detail: { now: true },
    text: 'Ada Okafor (ada@example.com) changed the key that signs gateway tokens, and ended all tokens',
  },
  'drones.drain': {
    resource: 'drone:drone-fra-2',
    text: 'Ada Okafor (ada@example.com) drained drone-fra-2',
  },
  'drones.undrain': {
    resource: 'drone:drone-fra-2',
    text: 'Ada Okafor (ada@example.com) ended the drain of drone-fra-2',
  },
  'drones.markLost': {
    resource: 'drone:drone-fra-2',
    text: 'Ada Okafor (ada@example.com) marked drone-fra-2 lost',
  },
  'drones.remove': {
    resource: 'drone:drone-fra-2',
    text: 'Ada Okafor (ada@example.com) removed drone-fra-2',
  },
  'tokens.create': {
    resource: 'token:1',
    detail: { name: 'ci', role: 'client' },
    text: 'Ada Okafor (ada@example.com) created the token ci',
  },
  'tokens.revoke': {
    resource: 'token:1',
    detail: { name: 'ci' },
    text: 'Ada Okafor (ada@example.com) revoked the token ci',
  },
  'people.invite': {
    detail: { email: EMAIL, role: 'operator' },
    text: 'Ada Okafor (ada@example.com) invited omar@example.com as operator',
  },
  'people.add': {
    detail: { email: EMAIL, role: 'operator', namespaces: null },
    text: 'Ada Okafor (ada@example.com) added omar@example.com as operator',
  },
  'people.acceptInvitation': { text: 'Ada Okafor (ada@example.com) accepted the invitation' },
  'people.resetPassword': {
    detail: { email: EMAIL },
    text: 'Ada Okafor (ada@example.com) reset the password of omar@example.com',
  },
  'people.acceptPasswordReset': {
    text: 'Ada Okafor (ada@example.com) chose a new password after a reset',
  },
  'people.setRole': {
    detail: { email: EMAIL, role: 'operator' },
    text: 'Ada Okafor (ada@example.com) changed the role of omar@example.com to operator',
  },
  'people.disable': {
    detail: { email: EMAIL, endedCount: 1 },
    text: 'Ada Okafor (ada@example.com) disabled omar@example.com',
  },
  'people.enable': {
    detail: { email: EMAIL, wasDisabled: true, wasLocked: false },
    text: 'Ada Okafor (ada@example.com) enabled omar@example.com again',
  },
  'people.signIn': {
    detail: { method: 'password' },
    text: 'Ada Okafor (ada@example.com) signed in',
  },
  'people.refuseSignIn': {
    detail: { method: 'oidc', endedCount: 1 },
    text: 'Ada Okafor (ada@example.com) was refused: no group has a role',
  },
  'people.linkAccount': {
    detail: { provider: 'okta', subject: '1' },
    text: 'Ada Okafor (ada@example.com) linked an account of okta',
  },
  'people.signOutEverywhere': {
    detail: { email: EMAIL, endedCount: 2 },
    text: 'Ada Okafor (ada@example.com) signed omar@example.com out everywhere',
  },
  'people.changePassword': {
    detail: { endedCount: 0 },
    text: 'Ada Okafor (ada@example.com) changed the password',
  },
  'people.lockOut': {
    detail: { email: EMAIL },
    text: 'omar@example.com was locked out after too many failed sign-ins',
  },
  'people.makeAdmin': {
    detail: { email: EMAIL },
    text: 'Ada Okafor (ada@example.com) made omar@example.com an administrator',
  },
};

function act(action: string, change: Partial<Act> = {}): Act {
  return {
    actor: 'ada@example.com',
    actorName: 'Ada Okafor',
    action,
    resource: PERSON,
    detail: null,
    ...change,
  };
}

test.each(AUDIT_ACTIONS)('%s is a sentence', (action) => {
  const { text, resource = PERSON, detail } = EXAMPLES[action];

  expect(actText(act(action, { resource, detail }))).toBe(text);
});

test('who acted links to all that they did, and what it was done to links to its page', () => {
  const links = actSentence(act('drones.drain', { resource: 'drone:drone-fra-2' }))
    .filter(({ href }) => href !== null)
    .map(({ text, href }) => [text, href]);

  expect(links).toEqual([
    ['Ada Okafor (ada@example.com)', '/audit?q=actor%3A%22ada%40example.com%22'],
    ['drone-fra-2', '/drones/detail?id=drone-fra-2'],
  ]);
});

test('a token is called by its name, and an act on oneself has no other person in it', () => {
  const byToken = act('people.signOutEverywhere', {
    actor: 'oncall-scripts',
    actorName: null,
    detail: { endedCount: 1 },
  });

  expect(actText(byToken)).toBe('oncall-scripts signed out everywhere');
  expect(
    actText(
      act('people.enable', { detail: { email: EMAIL, wasDisabled: false, wasLocked: true } }),
    ),
  ).toBe('Ada Okafor (ada@example.com) unlocked the sign-in of omar@example.com');
});

test('a person who calls themselves as another is named with their own address', () => {
  const by = (actorName: string | null) => actText(act('holdOff.end', { actorName }));

  expect(by('ben@example.com')).toBe('ben@example.com (ada@example.com) ended the hold-off');
  expect(by('ada@example.com')).toBe('ada@example.com ended the hold-off');
  expect(by('')).toBe('ada@example.com ended the hold-off');
});

test('Leasehold itself and the command line begin a sentence', () => {
  const detail = { email: EMAIL, done: 3, total: 4 };
  const by = (actor: string, action: string) =>
    actText(act(action, { actor, actorName: null, detail }));

  expect(by('command line', 'people.makeAdmin')).toBe(
    'The command line made omar@example.com an administrator',
  );
  expect(by('controller', 'bulk.abort')).toBe(
    'A controller stopped a bulk action after 3 of 4 grants',
  );
});

test('what cannot be seen in a text is escaped, once', () => {
  const detail = { ...KEY, name: 'a\u202eb', mode: 'force' };
  expect(actText(act('keys.revoke', { detail }))).toBe(
    String.raw`Ada Okafor (ada@example.com) revoked the key boards.eu/a\u{202e}b by force`,
  );
});

test('an action of another version is named as it is', () => {
  expect(actText(act('things.paint', { resource: 'drone:d1' }))).toBe(
    'Ada Okafor (ada@example.com) did things.paint to d1',
  );
});
