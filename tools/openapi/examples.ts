/** Examples in the description of the API. A test sends the inputs, and checks the answers against the schemas. */

interface Example {
  readonly input: unknown;
  readonly answer?: unknown;
}

const LEASE_ID = '0b5cfa8e-2a7e-4d2b-9d6c-5a1f0e6f3c11';
const FENCING_TOKEN = '1795214150823';
const WITNESS = '1.1795214150824';
const GRANT = { leaseId: LEASE_ID, fencingToken: FENCING_TOKEN };
const DEADLINES = { renewAtMs: 11_000, loseAtMs: 26_000 };
const EVENT = {
  id: '1.42',
  at: '2026-11-21T12:00:00.000Z',
  face: 'lease',
  namespace: 'user.import',
  name: '42',
  leaseId: LEASE_ID,
  fencingToken: FENCING_TOKEN,
  kind: 'granted',
  actor: 'importer',
  reason: null,
  datacenter: 'local',
};

/** By procedure. */
export const EXAMPLES: Readonly<Record<string, Example>> = {
  'leases.acquire': {
    input: {
      namespace: ['user', 'import'],
      key: '42',
      ttlMs: 30_000,
      waitMs: 5_000,
      holder: 'importer',
      localTimeMs: 1_000,
      idempotencyKey: 'import-2026-11-21',
    },
    answer: {
      outcome: 'granted',
      lease: { ...GRANT, namespace: ['user', 'import'], key: '42', deadlines: DEADLINES },
      waitedMs: 0,
      witness: WITNESS,
    },
  },
  'leases.heartbeat': {
    input: { localTimeMs: 11_000, renewals: [GRANT], witness: WITNESS },
    answer: {
      results: [
        {
          leaseId: LEASE_ID,
          outcome: 'renewed',
          deadlines: { renewAtMs: 21_000, loseAtMs: 36_000 },
        },
      ],
      witness: WITNESS,
    },
  },
  'leases.release': { input: { ...GRANT, result: 'ok' }, answer: { outcome: 'released' } },
  'leases.update': {
    input: { ...GRANT, metadata: { url: 'http://10.0.0.7:8080' } },
    answer: { outcome: 'updated' },
  },
  'leases.cancel': {
    input: { idempotencyKey: 'import-2026-11-21' },
    answer: { outcome: 'cancelled' },
  },
  'leases.get': { input: { namespace: 'user.import', key: '42' } },
  'leases.list': { input: { namespace: 'user', phase: 'held', limit: 50 } },
  'leases.revoke': { input: { leaseId: LEASE_ID, mode: 'graceful', reason: 'a new version' } },
  'environments.tryAcquire': {
    input: {
      environment: ['shop', 'prod'],
      action: 'deploy',
      holder: 'ci run 17',
      localTimeMs: 1_000,
    },
  },
  'environments.freeze': {
    input: {
      namespace: 'shop',
      reason: 'nobody deploys at weekends',
      recurrence: { schedule: '0 17 * * 5', durationMs: 226_800_000, zone: 'Europe/Zurich' },
    },
  },
  'environments.release': { input: { ...GRANT, result: 'ok' }, answer: { outcome: 'released' } },
  'keys.connect': {
    input: { key: { name: 'lobby' }, spawn: { program: 'room' } },
    answer: {
      key: { name: 'lobby', namespace: '', tag: '' },
      ...GRANT,
      datacenter: 'local',
      droneId: 'drone-1',
      backendId: 'b-01',
      status: 'ready',
      address: '127.0.0.1:21000',
      spawned: true,
      url: 'https://rooms.example.com/k/_/lobby/',
      urlExpiresAt: null,
    },
  },
  'keys.get': { input: { name: 'lobby' } },
  'events.head': { input: undefined, answer: { oldestId: '1.1', lastId: '1.42' } },
  'events.list': {
    input: { namespace: 'user', kinds: ['granted', 'expired'] },
    answer: { items: [EVENT], nextCursor: null, unreachable: [], asOf: EVENT.at },
  },
  'events.observe': { input: { namespace: 'user.import', name: '42' } },
  'events.watch': { input: { afterId: 'oldest', namespace: 'user' } },
  'tokens.create': { input: { name: 'importer', role: 'client', namespaces: ['user'] } },
};

/** An error that a caller sees early. */
export const ERROR_EXAMPLE = {
  error: {
    message: 'A valid token is required.',
    code: -32_001,
    data: {
      code: 'UNAUTHORIZED',
      leaseholdCode: 'auth.required',
      httpStatus: 401,
      retryable: false,
      incidentId: null,
      details: {},
    },
  },
};
