import { randomUUID } from 'node:crypto';
import { readOpenApi } from '@leasehold/api/openapi';

/** As much of a JSON Schema as inputs need. */
interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly minimum?: number;
  readonly format?: string;
}

interface Described {
  readonly paths: Readonly<Record<string, { readonly get?: Operation; readonly post?: Operation }>>;
}

interface Operation {
  readonly parameters?: readonly { readonly content: Json }[];
  readonly requestBody?: { readonly content: Json };
}

type Json = Readonly<Record<'application/json', { readonly schema: Schema }>>;

const UUID = randomUUID();
const RESERVATION_ID = `local.${UUID}`;
/** Stands for a key that no other procedure uses. */
const OWN_KEY = '@own@';
const INSTANT = '2030-01-31T12:00:00Z';

/** What fields are sent whose description does not say enough, by their names. */
const VALUES: Readonly<Record<string, unknown>> = {
  address: '127.0.0.1:1',
  logFolder: '/a',
  source: '::1',
  version: '1',
  email: 'a@example.org',
  afterId: '1',
  lastEventId: '1',
  actionId: '1',
  fencingToken: '1',
  cursor: 'x',
  datacenter: 'local',
  toDatacenter: 'local',
  droneId: 'd1',
  backendId: 'b-1',
  face: 'lease',
  phase: 'held',
  status: 'ready',
  mode: 'force',
  role: 'operator',
  homeReservation: RESERVATION_ID,
  reservationId: RESERVATION_ID,
  waitsFor: null,
  idempotencyKey: OWN_KEY,
  reason: 'why',
  tag: '',
  env: { A: 'a' },
  claims: { a: 1 },
  grantOnly: false,
  metadata: { a: 1 },
  name: 'k',
  key: 'k',
  namespace: 'odd',
  namespaces: 'odd',
  prefix: 'k',
  text: 'k',
  program: 'room',
  programs: 'room',
  addresses: '10.0.0.0/8',
  durationMs: 30_000,
  ttlMs: 30_000,
  waitMs: 0,
  callMs: 100,
  lifetimeLimitSeconds: 60,
  idleStopSeconds: 60,
  endedWithinMs: 1_000,
  windowMinutes: 60,
  limit: 10,
  backends: 0,
  at: '2026-11-01T03:12:00Z',
  to: '2030-01-31T12:00:00.5Z',
};
/** The same for lists of several texts. */
const LISTS: Readonly<Record<string, readonly unknown[]>> = {
  environment: ['odd', 'prod'],
  key: ['odd', 'k'],
};

/** What differs for one procedure; what is undefined excludes what is sent. */
const DIFFERENT: Readonly<Record<string, object>> = {
  'environments.at': { environment: undefined },
  'environments.freeze': {
    environment: undefined,
    name: 'frozen',
    from: undefined,
    recurrence: undefined,
    until: new Date(Date.now() + 60 * 60 * 1_000).toISOString(),
    allowRoles: ['admin'],
    allowPeople: ['ci'],
    stopRunning: true,
  },
  'environments.get': { environment: undefined },
  'environments.acquire': { supersede: undefined, again: undefined },
  'environments.history': { environment: undefined },
  'environments.queue': { environment: undefined },
  'environments.why': { environment: undefined },
  'leases.at': { key: undefined },
  // In a namespace of its own: what others acquire is held by one.
  'leases.declare': {
    declarations: [
      {
        namespace: ['declared'],
        ttlMs: 30_000,
        description: 'a',
        permits: { perKey: 1, total: 1 },
      },
    ],
  },
  'leases.setPermits': { namespace: 'permits' },
  'leases.get': { key: undefined },
  'leases.history': { key: undefined },
  'leases.waiters': { key: undefined },
  'leases.why': { key: undefined },
  'backends.report': { status: 'terminated', reason: 'exited' },
  'backends.terminate': { mode: 'hard' },
  'datacenters.giveUp': { datacenter: 'dc9' },
  'datacenters.takeBack': { datacenter: 'dc9' },
  'drones.drain': { droneId: 'd9' },
  'drones.markLost': { droneId: 'd9' },
  'drones.remove': { droneId: 'd9' },
  'drones.session': { droneId: 'd8' },
  'drones.undrain': { droneId: 'd9' },
  'gateway.sign': { leaseId: undefined },
  'holdOff.end': { epoch: undefined },
  'peer.carryOut': {
    procedure: 'leases.revoke',
    input: { leaseId: UUID, reason: 'why', datacenter: 'local', mode: 'force' },
  },
  'tokens.create': {
    role: 'client',
    droneId: undefined,
    capacity: undefined,
    addresses: undefined,
  },
};
const OF_SESSIONS = [
  'drones.ack',
  'drones.answer',
  'drones.goodbye',
  'drones.heartbeat',
  'backends.report',
];
const OF_BACKENDS = ['backends.get', 'backends.report', 'backends.watch'];

const NO_FIELDS: Schema = { properties: {} };

/** A right input of each procedure, with every field that its description has. */
export async function rightInputs(
  session: object,
  backendId: string,
): Promise<Record<string, Readonly<Record<string, unknown>>>> {
  const { paths } = JSON.parse(await readOpenApi()) as Described;
  const inputs = Object.entries(paths).map(([address, operations]) => {
    const path = address.replace('/trpc/', '');
    const own = {
      ...(OF_SESSIONS.includes(path) ? session : {}),
      ...(OF_BACKENDS.includes(path) ? { backendId } : {}),
    };
    const input = { ...(valueOf('', schemaOf(operations)) as object), ...own, ...DIFFERENT[path] };
    // As it is sent: without what is undefined.
    const text = JSON.stringify(input).replaceAll(OWN_KEY, path);
    return [path, JSON.parse(text) as object];
  });
  return Object.fromEntries(inputs) as Record<string, Readonly<Record<string, unknown>>>;
}

function schemaOf({ get, post }: Described['paths'][string]): Schema {
  const content = get?.parameters?.[0]?.content ?? post?.requestBody?.content;
  return content?.['application/json'].schema ?? NO_FIELDS;
}

function valueOf(name: string, schema: Schema): unknown {
  const { type, anyOf, properties, items } = schema;
  if (properties !== undefined) {
    const fields = Object.entries(properties);
    return Object.fromEntries(fields.map(([field, inner]) => [field, valueOf(field, inner)]));
  }
  if (type === 'array') return LISTS[name] ?? [valueOf(name, items ?? {})];
  const taken = anyOf === undefined ? undefined : choiceOf(anyOf);
  if (taken !== undefined) return valueOf(name, taken);
  const isNamed = name in VALUES && schema.enum?.includes(VALUES[name]) !== false;
  return isNamed ? VALUES[name] : scalarOf(schema);
}

/** Of several types, the one of which most can be wrong. */
function choiceOf(anyOf: readonly Schema[]): Schema | undefined {
  return (
    anyOf.find(({ type }) => type === 'array') ??
    anyOf.find(isAnyText) ??
    anyOf.find(({ type }) => type === 'integer')
  );
}

function scalarOf({ type, format, minimum = 1, ...schema }: Schema): unknown {
  if (schema.enum !== undefined) return schema.enum[0];
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return Math.max(1, minimum);
  if (format === 'uuid') return UUID;
  return format === 'date-time' ? INSTANT : 'a';
}

function isAnyText(schema: Schema): boolean {
  return schema.type === 'string' && !('const' in schema);
}
