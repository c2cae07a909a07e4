/** What a service sees of a wrong address, a wrong token, or none: at once, and in two lines. */
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { freePort } from '@leasehold/testing';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { createLeasehold, type Leasehold, type LeaseholdOptions } from '../index.ts';
import { failureOf } from '../testing/outcomes.ts';
import { clock, endSoon } from '../testing/quick-end.ts';

const TOKEN = `lh_${'x'.repeat(43)}`;
/** For a connection that is answered: whatever time the machine takes for it. */
const LONG_MS = 60_000;

function aClient(options: LeaseholdOptions): Leasehold {
  const client = createLeasehold({ token: TOKEN, connectMs: 30, clock, ...options });
  onTestFinished(() => endSoon(client));
  return client;
}

/** Every kind of call. */
const CALLS: readonly (readonly [string, (client: Leasehold) => Promise<unknown>])[] = [
  ['acquire', (client) => client.defineLease(['a']).acquire('k')],
  ['a waiting acquire', (client) => client.defineLease(['a'], { waitMs: 60_000 }).acquire('k')],
  ['tryAcquire', (client) => client.defineLease(['a']).tryAcquire('k')],
  ['run', (client) => client.defineLease(['a']).run('k', () => Promise.resolve())],
  ['an environment', (client) => client.environments.tryAcquire('prod', { action: 'deploy' })],
  ['connect', (client) => client.keys.connect({ key: { name: 'k' }, spawn: { program: 'p' } })],
  ['reserve', (client) => client.reservations.reserve(['a'])],
  ['a query', (client) => client.api.keys.get.query({ name: 'k' })],
  ['a mutation', (client) => client.api.leases.declare.mutate({ declarations: [] })],
];

/** Accepts connections, and never says anything. */
async function silentAddress(): Promise<string> {
  const server = createServer();
  server.on('connection', (socket) => onTestFinished(() => void socket.destroy()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

describe.each(['ws', 'http'] as const)(
  'over %s, at an address where nobody listens',
  (transport) => {
    test.each(CALLS)('%s fails, and names the address in two lines', async (_name, call) => {
      const url = `http://127.0.0.1:${String(await freePort())}`;

      const failure = await failureOf(call(aClient({ url, transport })));

      const [first, second, ...more] = inspect(failure).split('\n');
      expect(more).toEqual([]);
      expect(first).toContain('(request.unreachable)');
      expect(second).toContain(url);
    });
  },
);

test.each(CALLS)(
  'over ws, at an address that says nothing, %s is not waited for longer than for a connection',
  async (_name, call) => {
    const url = await silentAddress();

    const failure = await failureOf(call(aClient({ url })));

    expect(inspect(failure)).toContain('(request.unreachable)');
    expect(inspect(failure)).toContain(url);
  },
);

const REFUSED = {
  error: {
    message: 'A valid token is required.',
    code: -32_001,
    data: { leaseholdCode: 'auth.required', retryable: false, incidentId: null, details: {} },
  },
};

/** Refuses every token as a controller does: over a WebSocket when it has read the token, or even before. */
async function refusingAddress(when: 'read' | 'open' = 'read'): Promise<string> {
  const server = createHttpServer((_request, response) => {
    response.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify(REFUSED));
  });
  new WebSocketServer({ server }).on('connection', (socket) => {
    const refuse = (): void => socket.close(1008, 'auth.required');
    if (when === 'open') refuse();
    else socket.once('message', refuse);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

test.each([
  ...CALLS.map(([name, call]) => ['http', name, call] as const),
  ...CALLS.map(([name, call]) => ['ws', name, call] as const),
])(
  'over %s, %s with a wrong token fails with the code, the address and a hint',
  async (transport, _name, call) => {
    const url = await refusingAddress();

    const failure = await failureOf(call(aClient({ url, transport, connectMs: LONG_MS })));

    const [first, second, ...more] = inspect(failure).split('\n');
    expect(more).toEqual([]);
    expect(first).toContain('A valid token is required. (auth.required)');
    expect(second).toContain(url);
    expect(second).toContain('unknown, expired or revoked');
  },
);

test.each(CALLS)(
  'over ws, %s on a connection that is refused before the call is sent fails with the code',
  async (_name, call) => {
    const url = await refusingAddress('open');

    const failure = await failureOf(call(aClient({ url, connectMs: LONG_MS })));

    expect(inspect(failure)).toContain('A valid token is required. (auth.required)');
  },
);

describe('without options', () => {
  afterEach(() => vi.unstubAllEnvs());

  test('the address and the token are those of the environment', async () => {
    const url = `http://127.0.0.1:${String(await freePort())}`;
    vi.stubEnv('LEASEHOLD_URL', url);
    vi.stubEnv('LEASEHOLD_TOKEN', TOKEN);
    const client = createLeasehold({ transport: 'http', connectMs: 1 });
    onTestFinished(() => client.close());

    const failure = await failureOf(client.api.keys.get.query({ name: 'k' }));

    expect(inspect(failure)).toContain(url);
  });

  test.each([
    ['LEASEHOLD_URL', {}],
    ['LEASEHOLD_URL', { url: undefined, token: TOKEN }],
    ['LEASEHOLD_TOKEN', { url: 'http://127.0.0.1:1' }],
  ])('%s is named if it is not set: %j', (variable, options) => {
    vi.stubEnv('LEASEHOLD_URL', '');
    vi.stubEnv('LEASEHOLD_TOKEN', '');

    expect(() => createLeasehold(options)).toThrow(
      expect.objectContaining({ code: 'config.invalid', message: `${variable} is not set.` }),
    );
  });
});
