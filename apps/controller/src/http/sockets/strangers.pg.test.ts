import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { FAIR_USE_CONFIG_DEFAULTS } from '@leasehold/keys-core';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import type { SendingTimes } from '../http-server.ts';
import { createTestBrowser } from '../../testing/test-browser.ts';
import { openSocket } from '../../testing/raw-socket.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../../testing/test-controller.ts';

const MAX = 5;
const SECRET = 'a console of these controllers: 0';

const SMALL = {
  signIn: { consoleSecret: SECRET },
  fairUse: {
    ...FAIR_USE_CONFIG_DEFAULTS,
    anonymous: { ...FAIR_USE_CONFIG_DEFAULTS.anonymous, connections: MAX },
  },
};

/** A connection that sends this, has its answer or its end if it asks for one, and then nothing more. */
async function hold(at: TestController, text: string): Promise<Socket> {
  const { hostname, port } = new URL(at.url);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined).resume();
  await once(socket, 'connect');
  socket.write(text);
  if (text.endsWith('\r\n\r\n')) await Promise.race([once(socket, 'data'), once(socket, 'close')]);
  return socket;
}

const viaConsole = (address: string): string =>
  `leasehold-console-secret: ${SECRET}\r\nleasehold-caller: ${address}\r\n`;

const WHOLE = 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n';
/** Of a body that never comes. */
const half = (headers: string, path = '/api/auth/sign-in/email'): string =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${headers}` +
  `content-length: 100\r\n\r\n{`;

let on: TestController;

shareTestController((shared) => {
  on = shared;
}, SMALL);

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
    const { secret } = await on.token('viewer');
    const strangers: Socket[] = [];
    for (let i = 0; i < MAX * 2; i += 1) strangers.push(await hold(on, text));

    const client = await on.client('viewer');
    const socket = await openSocket(on, secret);

    expect(await client.leases.list.query({ namespace: 'x' })).toMatchObject({ items: [] });
    expect(await socket.ask(1, 'query', 'leases.list', {})).toMatchObject({ id: 1, result: {} });
    expect((await createTestBrowser(on).request('/healthz')).status).toBe(200);
    await expect.poll(() => strangers.filter((one) => !one.closed).length).toBeLessThanOrEqual(MAX);
  },
);

describe('a stranger who never sends the rest', () => {
  const times: SendingTimes = {
    headersTimeout: 1_000,
    requestTimeout: 1_000,
    connectionsCheckingInterval: 10,
    tokenMsMax: 1_000,
  };
  let hasty: TestController;
  shareTestController(
    (shared) => {
      hasty = shared;
    },
    { ...SMALL, sendingTimes: times },
  );

  /** Of all connections that it may have at once. */
  const allClosed = async (text: string): Promise<void> => {
    const held = await Promise.all(Array.from({ length: MAX }, () => hold(hasty, text)));
    for (const one of held) if (!one.closed) await once(one, 'close');
  };

  test.each([
    ['any byte', ''],
    ['the rest of a header', 'GET / HTTP/1.1\r\nhost'],
    // The body of a sign-in has a time of its own.
    ['the rest of a body', half('', '/nothing')],
    ['the rest of a body through the console', half(viaConsole('127.0.0.1'), '/nothing')],
  ])('is cut off without %s, and its places are free', async (_what, text) => {
    await allClosed(text);

    // Newcomers have no more time than strangers: where everything is slow, some are cut off too.
    const areAllOpen = async (): Promise<boolean> => {
      const newcomers = await Promise.all(Array.from({ length: MAX }, () => hold(hasty, WHOLE)));
      const areOpen = newcomers.every(({ closed }) => !closed);
      for (const newcomer of newcomers) newcomer.destroy();
      return areOpen;
    };
    await expect(waitUntil(areAllOpen, { what: 'all places' })).resolves.toBe(true);
  });

  test('is cut off without a token for its WebSocket, and its places are free', async () => {
    // All of its places must be free.
    const fresh = await startTestController({ ...SMALL, sendingTimes: times });
    const { secret } = await fresh.token('viewer');
    const sockets = Array.from(
      { length: MAX },
      () => new WebSocket(`${fresh.url.replace('http', 'ws')}/trpc?connectionParams=1`),
    );

    const closed = await Promise.all(sockets.map((socket) => once(socket, 'close')));

    expect(new Set(closed.map(([code]) => code as number))).toEqual(new Set([4_401]));
    const newcomer = await openSocket(fresh, secret);
    expect(await newcomer.ask(1, 'query', 'leases.list', {})).toMatchObject({ id: 1, result: {} });
  });
});
