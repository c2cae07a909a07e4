import { randomUUID } from 'node:crypto';

const LEASE_ID = randomUUID();
const REF = { leaseId: LEASE_ID, fencingToken: '1' };
const NAMED = { namespace: 'odd', name: 'k', datacenter: 'local' };
const PAGE = { cursor: 'x', limit: 10 };
const BETWEEN = { from: '2030-01-31T12:00:00Z', to: '2030-01-31T12:00:00.5Z' };
const ACT = { leaseId: LEASE_ID, reason: 'why', datacenter: 'local' };
const ITEM = {
  ...{ namespace: ['odd'], key: 'k', ttlMs: 30_000, holder: 'a', comment: 'why' },
  ...{ metadata: { a: 1 }, idempotencyKey: 'one', datacenter: 'local' },
};
const FILTER = {
  ...{ namespace: 'odd', includeChildren: true, name: 'k', prefix: 'k', phase: 'held' },
  ...{ endedWithinMs: 1_000, holder: 'a', leaseId: LEASE_ID, datacenter: 'local' },
  ...{ is: 'waited', withoutOwn: true },
};
const LIST = { ...FILTER, sort: 'name', direction: 'asc', ...PAGE };
const ISOLATION = {
  ...{
    user: 'own',
    pidNamespace: true,
    privateProc: true,
    hiddenHome: true,
    noNewPrivs: true,
    detail: 'a',
  },
};
const SPAWN = { program: 'room', args: ['a'], env: { A: 'a' }, lifetimeLimitSeconds: 60 };
const CONNECT = {
  spawn: SPAWN,
  waitMs: 0,
  waitFor: 'granted',
  idempotencyKey: 'one',
};
const KEY = { name: 'k', namespace: 'odd', tag: '' };
const CALLER = {
  ...{ principal: randomUUID(), actor: 'a', role: 'operator', namespaces: ['odd'], source: '::1' },
};
const ENVIRONMENT = {
  ...{ environment: ['odd', 'prod'], action: 'deploy', holder: 'a', comment: 'why' },
  ...{
    metadata: { a: 1 },
    durationMs: 30_000,
    localTimeMs: 1,
    witness: 'a',
    idempotencyKey: 'two',
  },
};
const RESERVATION_ID = `local.${randomUUID()}`;
const ACTED = { personId: randomUUID(), reason: 'why' };
const DRONE = { droneId: 'd9', reason: 'why' };

/** A right input of each procedure, with every field that it takes. */
export function rightInputs(session: object, backendId: string): Record<string, object> {
  return {
    'keys.connect': { key: KEY, ...CONNECT },
    'keys.get': NAMED,
    'keys.list': { ...LIST, droneId: 'd1', tag: '' },
    'keys.count': { ...FILTER, droneId: 'd1', tag: '' },
    'keys.renew': {
      droneId: 'd1',
      clockId: randomUUID(),
      localTimeMs: 1,
      witness: 'a',
      renewals: [REF],
    },
    'keys.blockRenewal': ACT,
    'keys.allowRenewal': ACT,
    'keys.revoke': { ...ACT, mode: 'force', abandon: true },
    'keys.waiters': { ...NAMED, ...PAGE },
    'keys.history': { ...NAMED, ...PAGE },
    'keys.at': { ...NAMED, at: '2026-11-01T03:12:00Z' },
    'leases.acquire': { ...ITEM, waitMs: 0, confirms: true, localTimeMs: 1, witness: 'a' },
    'leases.acquireMany': { localTimeMs: 1, witness: 'a', items: [ITEM] },
    'leases.heartbeat': { localTimeMs: 1, witness: 'a', renewals: [REF] },
    'leases.release': { ...REF, result: 'ok', detail: 'why' },
    'leases.releaseMany': { items: [{ ...REF, result: 'ok', detail: 'why' }] },
    'leases.cancel': { idempotencyKey: 'one', datacenter: 'local' },
    'leases.session': { clientId: 'a' },
    'leases.declare': { declarations: [{ namespace: ['odd'], ttlMs: 30_000, description: 'a' }] },
    'leases.declared': PAGE,
    'leases.list': LIST,
    'leases.count': FILTER,
    'leases.get': NAMED,
    'leases.tree': { namespace: 'odd', datacenter: 'local' },
    'leases.waiters': { ...NAMED, ...PAGE },
    'leases.contention': { namespace: 'odd', datacenter: 'local', ...PAGE },
    'leases.failingCallbacks': { namespace: 'odd', datacenter: 'local', ...PAGE },
    'leases.history': { ...NAMED, ...PAGE },
    'leases.at': { ...NAMED, at: '2026-11-01T03:12:00Z' },
    'leases.blockRenewal': ACT,
    'leases.allowRenewal': ACT,
    'leases.revoke': { ...ACT, mode: 'force' },
    'environments.tryAcquire': ENVIRONMENT,
    'environments.heartbeat': { localTimeMs: 1, witness: 'a', renewals: [REF] },
    'environments.release': { ...REF, result: 'ok', detail: 'why' },
    'environments.cancel': { idempotencyKey: 'two', datacenter: 'local' },
    'environments.list': { ...LIST, action: 'deploy' },
    'environments.count': { ...FILTER, action: 'deploy' },
    'environments.get': NAMED,
    'environments.history': { ...NAMED, ...PAGE },
    'environments.at': { ...NAMED, at: '2026-11-01T03:12:00Z' },
    'environments.revoke': { ...ACT, mode: 'force' },
    'backends.get': { backendId, datacenter: 'local' },
    'backends.list': {
      ...{ droneId: 'd1', status: 'ready', live: true, program: 'room', ...NAMED, ...PAGE },
    },
    'backends.count': {
      ...{ droneId: 'd1', status: 'ready', live: true, program: 'room', ...NAMED },
    },
    'backends.terminate': { backendId: 'b-1', mode: 'hard', reason: 'why' },
    'backends.report': {
      ...{ ...session, backendId, status: 'terminated', reason: 'exited', address: '127.0.0.1:1' },
      ...{ exitCode: 1, detail: 'why', refused: true },
    },
    'backends.watch': { backendId },
    'drones.list': {
      ...{ status: 'ready', program: 'room', search: 'D', datacenter: 'local', ...PAGE },
    },
    'drones.count': { status: 'ready', program: 'room', search: 'D', datacenter: 'local' },
    'drones.get': { droneId: 'd1' },
    'drones.drain': DRONE,
    'drones.undrain': DRONE,
    'drones.markLost': DRONE,
    'drones.heartbeat': {
      ...session,
      localTimeMs: 1,
      witness: 'a',
      load: { backends: 0, roundTripMs: 1 },
    },
    'drones.session': {
      ...{ droneId: 'd8', clockId: randomUUID(), datacenter: 'local', version: '1', capacity: 1 },
      ...{
        programs: [{ name: 'room', allowArgs: true, allowEnv: ['A'] }],
        logFolder: '/a',
        isolation: ISOLATION,
        witness: 'a',
      },
    },
    'drones.ack': { ...session, actionId: '1' },
    'tokens.create': {
      ...{ name: 'a', role: 'client', namespaces: ['odd'], expiresAt: BETWEEN.from },
      ...{ programs: ['room'], limits: { callsPerSecond: 10 } },
    },
    'tokens.list': { search: 'a', ...PAGE },
    'tokens.count': { search: 'a' },
    'tokens.get': { tokenId: randomUUID() },
    'tokens.revoke': { tokenId: randomUUID(), reason: 'why' },
    'events.changes': {},
    'events.head': {},
    'events.watch': {
      ...{ afterId: '1', lastEventId: '1', face: 'lease', namespace: 'odd', name: 'k' },
      kinds: ['granted'],
    },
    'events.count': {
      ...{ face: 'lease', namespace: 'odd', name: 'k', kinds: ['granted'], leaseId: LEASE_ID },
      ...{ ...BETWEEN, windowMinutes: 60, datacenter: 'local' },
    },
    'events.list': {
      ...{ face: 'lease', namespace: 'odd', name: 'k', kinds: ['granted'], leaseId: LEASE_ID },
      ...{
        afterId: '1',
        ...BETWEEN,
        windowMinutes: 60,
        direction: 'asc',
        datacenter: 'local',
        ...PAGE,
      },
    },
    'audit.count': {
      ...{ actor: 'a', action: 'a', resource: 'a', text: 'a', signIns: false, windowMinutes: 60 },
      notable: true,
      ...BETWEEN,
    },
    'audit.list': {
      ...{ actor: 'a', action: 'a', resource: 'a', text: 'a', signIns: false, windowMinutes: 60 },
      notable: true,
      ...BETWEEN,
      ...PAGE,
    },
    'bulk.preview': { items: [REF] },
    'bulk.start': { action: 'revoke', mode: 'force', reason: 'why', items: [REF] },
    'bulk.abort': { bulkId: randomUUID() },
    'bulk.watch': { bulkId: randomUUID() },
    'bulk.get': { bulkId: randomUUID() },
    'people.list': { search: 'a', ...PAGE },
    'people.count': { search: 'a' },
    'people.invite': { email: 'a@example.org', name: 'a', role: 'viewer' },
    'people.setRole': { ...ACTED, role: 'viewer' },
    'people.disable': ACTED,
    'people.enable': ACTED,
    'people.resetPassword': ACTED,
    'people.signOutEverywhere': ACTED,
    'reservations.reserve': { key: ['odd', 'k'], datacenter: 'local' },
    'reservations.resolve': { key: ['odd', 'k'], fresh: true },
    'reservations.get': { key: ['odd', 'k'] },
    'reservations.move': { key: ['odd', 'k'], toDatacenter: 'local', reason: 'why' },
    'reservations.requestMove': {
      ...{ key: ['odd', 'k'], reservationId: `local.${randomUUID()}`, toDatacenter: 'local' },
      ...{ reason: 'why', waitsFor: null },
    },
    'reservations.cancelMove': { key: ['odd', 'k'], reservationId: `local.${randomUUID()}` },
    'reservations.pendingMove': { key: ['odd', 'k'], reservationId: `local.${randomUUID()}` },
    'reservations.list': { namespace: 'odd', prefix: 'k', contains: 'K', state: 'active', ...PAGE },
    'reservations.count': { namespace: 'odd', prefix: 'k', contains: 'K', state: 'active' },
    'datacenters.list': {},
    'datacenters.giveUp': { datacenter: 'dc9', reason: 'why' },
    'datacenters.takeBack': { datacenter: 'dc9', reason: 'why' },
    'peer.ping': {},
    'peer.connect': {
      input: { key: KEY, ...CONNECT, homeReservation: RESERVATION_ID },
      caller: CALLER,
    },
    'peer.resolve': { reservationId: RESERVATION_ID, key: ['odd', 'k'] },
    'peer.move': {
      input: { key: ['odd', 'k'], toDatacenter: 'local', reason: 'why' },
      caller: CALLER,
    },
    'peer.carryOut': {
      procedure: 'leases.revoke',
      input: { ...ACT, mode: 'force' },
      caller: CALLER,
    },
    'holdOff.get': { datacenter: 'local' },
    'holdOff.end': { reason: 'why', datacenter: 'local' },
    'search.find': { text: 'k', kinds: ['key'], limit: 2, datacenter: 'local' },
    'session.get': {},
    'stats.overview': { windowMinutes: 60 },
  };
}
