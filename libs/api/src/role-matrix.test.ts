import { randomUUID } from 'node:crypto';
import {
  isOrderedRole,
  LeaseError,
  ORDERED_ROLES,
  roleAllows,
  ROLES,
  type Role,
} from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import type { Access } from './access.ts';
import { appRouter, PROCEDURES } from './app-router.ts';
import type { ApiContext, ApiServices } from './context.ts';
import { describeError } from './error-map.ts';
import { createCallerFactory } from './trpc.ts';

/** The contract's table: which role each procedure needs. */
const CONTRACT: Record<string, Role> = {
  'keys.connect': 'client',
  'keys.get': 'viewer',
  'keys.list': 'viewer',
  'keys.count': 'viewer',
  'keys.renew': 'drone',
  'keys.blockRenewal': 'operator',
  'keys.allowRenewal': 'operator',
  'keys.revoke': 'operator',
  'refusals.list': 'viewer',
  'settings.list': 'admin',
  'webhook.get': 'viewer',
  'webhook.test': 'admin',
  'keys.failures': 'viewer',
  'keys.resetFailures': 'operator',
  'keys.waiters': 'viewer',
  'keys.history': 'viewer',
  'keys.at': 'viewer',
  'leases.acquire': 'client',
  'leases.acquireAll': 'client',
  'leases.acquireMany': 'client',
  'leases.heartbeat': 'client',
  'leases.release': 'client',
  'leases.releaseMany': 'client',
  'leases.cancel': 'client',
  'leases.update': 'client',
  'leases.downgrade': 'client',
  'leases.session': 'client',
  'leases.declare': 'client',
  'leases.declared': 'viewer',
  'leases.list': 'viewer',
  'leases.count': 'viewer',
  'leases.get': 'viewer',
  'leases.tree': 'viewer',
  'leases.waiters': 'viewer',
  'leases.contention': 'viewer',
  'leases.why': 'viewer',
  'leases.mostWaited': 'viewer',
  'leases.failingCallbacks': 'viewer',
  'leases.history': 'viewer',
  'leases.at': 'viewer',
  'leases.setPermits': 'operator',
  'leases.blockRenewal': 'operator',
  'leases.allowRenewal': 'operator',
  'leases.revoke': 'operator',
  'environments.tryAcquire': 'client',
  'environments.acquire': 'client',
  'environments.queue': 'viewer',
  'environments.why': 'viewer',
  'environments.heartbeat': 'client',
  'environments.release': 'client',
  'environments.cancel': 'client',
  'environments.update': 'client',
  'environments.list': 'viewer',
  'environments.count': 'viewer',
  'environments.get': 'viewer',
  'environments.history': 'viewer',
  'environments.at': 'viewer',
  'environments.revoke': 'operator',
  'environments.freeze': 'operator',
  'environments.unfreeze': 'operator',
  'environments.freezes': 'viewer',
  'backends.get': 'viewer',
  'backends.list': 'viewer',
  'backends.count': 'viewer',
  'backends.watch': 'viewer',
  'backends.logs': 'viewer',
  'backends.followLogs': 'viewer',
  'backends.terminate': 'operator',
  'backends.report': 'drone',
  'drones.list': 'viewer',
  'drones.count': 'viewer',
  'drones.get': 'viewer',
  'drones.drain': 'operator',
  'drones.undrain': 'operator',
  'drones.markLost': 'operator',
  'drones.remove': 'admin',
  'drones.session': 'drone',
  'drones.heartbeat': 'drone',
  'drones.goodbye': 'drone',
  'drones.ack': 'drone',
  'drones.answer': 'drone',
  'gateway.sign': 'client',
  'gateway.revoke': 'client',
  'gateway.rotate': 'admin',
  'gateway.route': 'gateway',
  'gateway.handOver': 'gateway',
  'gateway.sync': 'gateway',
  'gateway.list': 'viewer',
  'tokens.create': 'admin',
  'tokens.list': 'admin',
  'tokens.count': 'admin',
  'tokens.get': 'admin',
  'tokens.revoke': 'admin',
  'holdOff.get': 'viewer',
  'holdOff.end': 'operator',
  'events.watch': 'viewer',
  'events.changes': 'viewer',
  'events.observe': 'viewer',
  'events.head': 'viewer',
  'events.list': 'viewer',
  'events.count': 'viewer',
  'audit.list': 'operator',
  'audit.count': 'operator',
  'bulk.preview': 'viewer',
  'bulk.start': 'operator',
  'bulk.abort': 'operator',
  'bulk.get': 'viewer',
  'bulk.items': 'viewer',
  'bulk.watch': 'viewer',
  'people.list': 'admin',
  'people.count': 'admin',
  'people.invite': 'admin',
  'people.setRole': 'admin',
  'people.disable': 'admin',
  'people.enable': 'admin',
  'people.resetPassword': 'admin',
  'people.signOutEverywhere': 'admin',
  'reservations.reserve': 'client',
  'reservations.resolve': 'viewer',
  'reservations.get': 'viewer',
  'reservations.move': 'operator',
  'reservations.requestMove': 'operator',
  'reservations.cancelMove': 'operator',
  'reservations.pendingMove': 'viewer',
  'reservations.list': 'viewer',
  'reservations.count': 'viewer',
  'datacenters.list': 'viewer',
  'datacenters.giveUp': 'admin',
  'datacenters.takeBack': 'admin',
  'peer.ping': 'peer',
  'peer.offers': 'peer',
  'peer.connect': 'peer',
  'peer.resolve': 'peer',
  'peer.move': 'peer',
  'peer.carryOut': 'peer',
  'search.find': 'viewer',
  'session.get': 'viewer',
  'stats.overview': 'viewer',
};

/** Procedures that concern every namespace, so that a token that is limited to some may not call them. */
const UNLIMITED_ONLY = [
  'settings.list',
  'webhook.get',
  'webhook.test',
  'drones.list',
  'drones.count',
  'drones.get',
  'drones.drain',
  'drones.undrain',
  'drones.markLost',
  'drones.remove',
  'audit.list',
  'audit.count',
  'bulk.preview',
  'bulk.start',
  'bulk.abort',
  'bulk.get',
  'bulk.items',
  'bulk.watch',
  'people.list',
  'people.count',
  'people.invite',
  'people.setRole',
  'people.disable',
  'people.enable',
  'people.resetPassword',
  'people.signOutEverywhere',
  'holdOff.end',
  'datacenters.giveUp',
  'datacenters.takeBack',
  'stats.overview',
  'gateway.rotate',
  'tokens.create',
  'tokens.list',
  'tokens.count',
  'tokens.get',
  'tokens.revoke',
];

function accessOf(role: Role, change: Partial<Access> = {}): Access {
  return {
    principal: '00000000-0000-4000-8000-000000000000',
    name: `a ${role}`,
    role,
    namespaces: null,
    droneId: role === 'drone' ? 'd1' : null,
    ...change,
  };
}

/** Services that are out of reach: a call that reaches one was let in. */
const OUT_OF_REACH = new Proxy(
  {},
  {
    get() {
      throw new LeaseError('store.unavailable');
    },
  },
) as ApiServices;

/** Refusals need no service that decides. */
const UNRECORDED: ApiServices['refusals'] = {
  note: () => undefined,
  list: () => Promise.reject(new LeaseError('store.unavailable')),
};

/** A datacenter without others. */
const ALONE: ApiServices['datacenters'] = {
  peers: [],
  list: () => ({
    items: [],
    store: { kind: 'postgres', isReachable: true, since: null },
    givenUp: [],
  }),
  away: () => undefined,
  call: () => Promise.reject(new LeaseError('store.unavailable')),
};

/** The code that a call ends in; undefined when it was let in and answered. */
async function codeOf(
  path: string,
  access: Access | undefined,
  input: unknown,
  known: Partial<ApiServices> = {},
): Promise<string | undefined> {
  const { signal } = new AbortController();
  const ctx: ApiContext = {
    access,
    services: Object.create(
      OUT_OF_REACH,
      Object.getOwnPropertyDescriptors({ refusals: UNRECORDED, ...known }),
    ) as ApiServices,
    use: undefined,
    signal,
    life: { signal, isAlive: () => true, watch: () => () => undefined },
    source: null,
    isForwarded: false,
  };
  const caller = createCallerFactory(appRouter)(ctx) as unknown as Record<
    string,
    Record<string, (input: unknown) => Promise<unknown>>
  >;
  const [group = '', name = ''] = path.split('.');
  try {
    await caller[group]?.[name]?.(input);
    return undefined;
  } catch (error) {
    return describeError(error).leaseholdCode;
  }
}

const isLetIn = (code: string | undefined): boolean => code?.startsWith('auth.') !== true;

describe('role matrix', () => {
  test('every procedure declares the role in the contract, and no procedure is missing', () => {
    expect(
      Object.fromEntries([...PROCEDURES].map(([path, { meta }]) => [path, meta?.role])),
    ).toEqual(CONTRACT);
  });

  const cells = [...PROCEDURES.keys()].flatMap((path) =>
    ROLES.map((role) => [path, role] as const),
  );

  test.each(cells)('%s accepts a token of role %s only if it suffices', async (path, role) => {
    const needed = CONTRACT[path];

    const code = await codeOf(path, accessOf(role), { droneId: 'd1' });

    expect(isLetIn(code)).toBe(needed !== undefined && roleAllows(role, needed));
    if (!isLetIn(code)) expect(code).toBe('auth.forbidden');
  });

  test.each([...PROCEDURES.keys()])('%s without a token is refused', async (path) => {
    expect(await codeOf(path, undefined, {})).toBe('auth.required');
  });

  test.each(Object.keys(CONTRACT).filter((path) => CONTRACT[path] === 'drone'))(
    '%s refuses a drone that acts for another drone',
    async (path) => {
      expect(await codeOf(path, accessOf('drone'), { droneId: 'd2' })).toBe('auth.forbidden');
      expect(isLetIn(await codeOf(path, accessOf('drone'), { droneId: 'd1' }))).toBe(true);
      expect(await codeOf(path, accessOf('drone'), {})).toBe('request.invalid');
      expect(await codeOf(path, accessOf('drone'), 'text')).toBe('request.invalid');
    },
  );

  test.each(Object.keys(CONTRACT).filter((path) => isOrderedRole(CONTRACT[path] ?? 'peer')))(
    '%s refuses a token that is limited to namespaces exactly if it concerns all of them',
    async (path) => {
      const code = await codeOf(path, accessOf('admin', { namespaces: ['a'] }), {});

      expect(code === 'auth.forbidden').toBe(UNLIMITED_ONLY.includes(path));
    },
  );

  test('each ordered role may do what the lower ones may, and drone is separate', () => {
    for (const [index, role] of ORDERED_ROLES.entries()) {
      expect(ORDERED_ROLES.filter((needed) => roleAllows(role, needed))).toEqual(
        ORDERED_ROLES.slice(0, index + 1),
      );
      expect(roleAllows(role, 'drone')).toBe(false);
      expect(roleAllows('drone', role)).toBe(false);
    }
    expect(roleAllows('drone', 'drone')).toBe(true);
  });
});

describe('namespaces', () => {
  const limited = accessOf('client', { namespaces: ['team'] });

  test.each([
    ['another namespace', { key: { name: 'k', namespace: 'other' } }],
    ['one that is named alike', { key: { name: 'k', namespace: 'team2' } }],
    ['the root', { key: { name: 'k' } }],
    ['a random key in the root', { spawn: { program: 'room' } }],
  ])('a limited token may not connect in %s', async (_where, input) => {
    expect(await codeOf('keys.connect', limited, input)).toBe('auth.forbidden');
  });

  test.each(['team', 'team.a'])('a limited token may connect in %s', async (namespace) => {
    expect(await codeOf('keys.connect', limited, { key: { name: 'k', namespace } })).toBe(
      'store.unavailable',
    );
  });

  test.each(['leasehold', 'leasehold.jobs'])('nobody may connect in %s', async (namespace) => {
    expect(await codeOf('keys.connect', accessOf('admin'), { key: { name: 'k', namespace } })).toBe(
      'auth.forbidden',
    );
  });

  const reservation = { key: ['other', 'k'], reservationId: `local.${randomUUID()}` };

  // All other reads are judged by their services: see namespace-limits.pg.test.ts.
  test.each([
    ['keys.get', { name: 'k', namespace: 'other' }],
    ['reservations.get', { key: reservation.key }],
    ['reservations.pendingMove', reservation],
  ])(
    '%s in a namespace that the caller may not read is answered as if nothing existed there',
    async (path, input) => {
      expect(
        await codeOf(path, accessOf('viewer', { namespaces: ['team'] }), input),
      ).toBeUndefined();
      expect(await codeOf(path, accessOf('viewer'), input)).toBe('store.unavailable');
    },
  );

  const item = { namespace: ['team'], key: 'k', ttlMs: 1_000, holder: 'h' };
  const environment = { action: 'verify', holder: 'h', localTimeMs: 1 };

  test.each([
    ['leases.acquire', { ...item, namespace: ['team2'], localTimeMs: 1 }],
    ['leases.acquire', { ...item, namespace: [], localTimeMs: 1 }],
    ['leases.declare', { declarations: [{ namespace: ['other'], ttlMs: 1_000 }] }],
    ['environments.tryAcquire', { ...environment, environment: ['other', 'prod'] }],
    ['environments.tryAcquire', { ...environment, environment: 'prod' }],
    ['events.observe', { namespace: 'other', name: 'k' }],
    ['events.observe', { face: 'key', name: 'k' }],
  ])('a limited token may not use another namespace: %s', async (path, input) => {
    expect(await codeOf(path, limited, input)).toBe('auth.forbidden');
    expect(await codeOf(path, accessOf('client'), input)).toBe('store.unavailable');
  });

  test.each([
    ['another environment', { environment: ['other', 'prod'] }, 'auth.forbidden'],
    ['one in the root', { environment: 'team' }, 'auth.forbidden'],
    ['another namespace', { namespace: 'team2' }, 'auth.forbidden'],
    ['everything', { namespace: '' }, 'auth.forbidden'],
    ['its own namespace', { namespace: 'team' }, 'store.unavailable'],
    ['an environment of it', { environment: ['team', 'prod'] }, 'store.unavailable'],
  ])(
    'a limited operator that freezes %s gets an answer by its namespaces',
    async (_what, place, code) => {
      const operator = accessOf('operator', { namespaces: ['team'] });
      const input = { ...place, reason: 'r', until: '2030-01-31T12:00:00Z' };

      expect(await codeOf('environments.freeze', operator, input)).toBe(code);
      expect(await codeOf('environments.freeze', accessOf('operator'), input)).toBe(
        'store.unavailable',
      );
    },
  );

  test('a freeze that names no place is refused: it would be one of everything', async () => {
    const input = { reason: 'r', until: '2030-01-31T12:00:00Z' };
    expect(await codeOf('environments.freeze', accessOf('admin'), input)).toBe('request.invalid');
  });

  test.each([
    ['leases.acquire', { ...item, namespace: ['team', 'a'], localTimeMs: 1 }],
    ['environments.tryAcquire', { ...environment, environment: ['team', 'prod'] }],
  ])('a limited token may use its own namespace: %s', async (path, input) => {
    expect(await codeOf(path, limited, input)).toBe('store.unavailable');
  });

  test.each([
    ['leases.acquire', { ...item, namespace: ['leasehold', 'jobs'], localTimeMs: 1 }],
    ['leases.declare', { declarations: [{ namespace: ['leasehold'], ttlMs: 1_000 }] }],
    ['environments.tryAcquire', { ...environment, environment: ['leasehold', 'prod'] }],
  ])('nobody may use the reserved namespace: %s', async (path, input) => {
    expect(await codeOf(path, accessOf('admin'), input)).toBe('auth.forbidden');
  });

  test.each([
    ['leases.acquire', { ...item, localTimeMs: 1, datacenter: 'mars' }],
    ['environments.tryAcquire', { ...environment, environment: 'prod', datacenter: 'mars' }],
  ])('%s in an unknown datacenter is a clear error', async (path, input) => {
    const known = { datacenter: 'local', datacenters: ALONE };

    expect(await codeOf(path, accessOf('client'), input, known)).toBe(
      'reservation.unknown_datacenter',
    );
  });
});

test.each([
  ['leases.acquire', true],
  ['environments.tryAcquire', true],
  ['leases.renew', false],
  ['leases.list', false],
])(
  'while the database is behind, %s for another datacenter is refused as overloaded: %s',
  async (procedure, isRefused) => {
    const caller = { principal: 'p', actor: 'a', role: 'operator', namespaces: null, source: null };
    const peer = accessOf('peer', { peer: 'dc2' });

    const code = await codeOf(
      'peer.carryOut',
      peer,
      { procedure, caller, input: {} },
      {
        assertNotPressed: () => {
          throw new LeaseError('controller.overloaded');
        },
      },
    );

    expect(code === 'controller.overloaded').toBe(isRefused);
  },
);
