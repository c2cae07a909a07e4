import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { FAIR_USE_CONFIG_DEFAULTS } from '@leasehold/keys-core';
import { expect, onTestFinished, test } from 'vitest';
import { createTestBrowser } from '../../testing/test-browser.ts';
import { openSocket } from '../../testing/raw-socket.ts';
import { startTestController, type TestController } from '../../testing/test-controller.ts';

const MAX = 5;
const SECRET = 'a console of these controllers: 0';

async function startSmall(): Promise<TestController> {
  return startTestController({
    signIn: { consoleSecret: SECRET },
    fairUse: {
      ...FAIR_USE_CONFIG_DEFAULTS,
      anonymous: { ...FAIR_USE_CONFIG_DEFAULTS.anonymous, connections: MAX },
    },
  });
}

/** A connection that sends this, has its answer if it asks for one, and then nothing more. */
async function hold(on: TestController, text: string): Promise<Socket> {
  const { hostname, port } = new URL(on.url);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined).resume();
  await once(socket, 'connect');
  socket.write(text);
  if (text.endsWith('\r\n\r\n')) await once(socket, 'data');
  return socket;
}

const viaConsole = (address: string): string =>
  `leasehold-console-secret: ${SECRET}\r\nleasehold-caller: ${address}\r\n`;

/** Of a body that never comes. */
const half = (headers: string): string =>
  `POST /api/auth/sign-in/email HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${headers}` +
  `content-length: 100\r\n\r\n{`;

test.each([
  ['nothing', ''],
  ['half a header', 'GET / HTTP/1.1\r\nhost'],
  ['half a body', half('')],
  [
    'a token that is no good',
    `GET /trpc/leases.list HTTP/1.1\r\nhost: x\r\nauthorization: Bearer lh_${'x'.repeat(43)}\r\n\r\n`,
  ],
  ['half a body through the console', half(viaConsole('127.0.0.1'))],
])(
  'strangers that hold connections with %s lock out no newcomer of their address',
  async (_what, text) => {
    const on = await startSmall();
    const { secret } = await on.token('viewer');
    const strangers: Socket[] = [];
    for (let i = 0; i < MAX * 2; i += 1) strangers.push(await hold(on, text));

    const client = await on.client('viewer');
    const socket = await openSocket(on, secret);

    expect(await client.leases.list.query({})).toMatchObject({ items: [] });
    expect(await socket.ask(1, 'query', 'leases.list', {})).toMatchObject({ id: 1, result: {} });
    expect((await createTestBrowser(on).request('/healthz')).status).toBe(200);
    await expect.poll(() => strangers.filter((one) => !one.closed).length).toBeLessThanOrEqual(MAX);
  },
);
