import { once } from 'node:events';
import net from 'node:net';
import { describe, expect, test } from 'vitest';
import { SocketWardenLink } from '../agent/warden-link.ts';
import { commandOf, createEar, type Ear, linkOptions, startOf } from '../testing/warden-fixture.ts';
import { wardenOf, whileListening } from '../testing/warden-in-process.ts';
import { PROTOCOL_VERSION } from './protocol.ts';
import { untilUnneeded } from './run-warden.ts';

/** Ten thousand starts over a socket take a second, and many times that on a busy machine. */
const THOUSANDS_MS_MAX = 60_000;

const paperProcess = {
  pid: 1,
  exitCode: null,
  signalStop: () => undefined,
  kill: () => undefined,
  isGone: () => false,
  release: () => undefined,
};

function inFolder(
  use: (connect: (ear?: Ear) => Promise<SocketWardenLink>, socketPath: string) => Promise<void>,
): Promise<void> {
  const warden = wardenOf(() => Promise.resolve(paperProcess));
  return whileListening(warden, (socketPath) =>
    use((ear) => commandOf({ socketPath, secret: 'one' }, ear), socketPath),
  );
}

test('H-warden-hello a client that does not know the secret learns nothing, changes nothing and is cut off', async () => {
  await inFolder(async (connect, socketPath) => {
    const ear = createEar();
    const link = await connect(ear);
    const request = startOf('', { backendId: 'b1' });
    await link.start(request);
    const { backendId, leaseId, softAtMs, hardAtMs } = request;
    const extend = { backendId, leaseId, softAtMs: softAtMs + 1_000, hardAtMs: hardAtMs + 1_000 };

    const answers = await Promise.all(
      [
        { id: 1, op: 'hello', protocol: PROTOCOL_VERSION, secret: 'two' },
        { id: 1, op: 'hello', protocol: PROTOCOL_VERSION, secret: '' },
        { id: 1, op: 'peek', protocol: PROTOCOL_VERSION, secret: 'on' },
        { id: 1, op: 'hello', protocol: PROTOCOL_VERSION },
        { id: 1, op: 'list' },
        { id: 1, op: 'extend', items: [extend] },
        { id: 1, op: 'stop', stop: { backendId, mode: 'hard', reason: 'external' } },
        { id: 1, op: 'shutdown' },
      ].map((line) => answersTo(socketPath, line)),
    );

    for (const answer of answers) {
      expect(answer).toMatchObject([{ ok: false }]);
      expect(answer[0]).not.toHaveProperty('value');
    }
    expect(ear.isSuperseded).toBe(false);
    expect(await link.list()).toMatchObject([{ backendId, state: 'running', softAtMs, hardAtMs }]);
    link.close();
  });
});

test('an agent that only looks learns the clock of the warden, and the one in command stays in command', async () => {
  await inFolder(async (connect, socketPath) => {
    const ear = createEar();
    const inCommand = await connect(ear);

    const looking = await SocketWardenLink.connect(
      { socketPath, secret: 'one' },
      linkOptions(createEar()),
    );

    expect(looking.identity).toMatchObject({ clockId: 'one', pid: 1 });
    await expect(looking.list()).rejects.toThrow('superseded');
    expect(await inCommand.list()).toEqual([]);
    expect(ear.isSuperseded).toBe(false);
    looking.close();
    inCommand.close();
  });
});

test(
  'the next agent attaches to a warden of thousands, and moves all their deadlines at once',
  async () => {
    await inFolder(async (connect) => {
      const former = await connect();
      const requests = Array.from({ length: 10_000 }, (_, index) =>
        startOf('', { backendId: `b-${String(index)}`, meta: { notes: 'x'.repeat(200) } }),
      );
      await Promise.all(requests.map((request) => former.start(request)));

      const next = await connect();
      const problems = await next.extend(
        requests.map(({ backendId, leaseId, softAtMs, hardAtMs }) => ({
          backendId,
          leaseId,
          softAtMs: softAtMs + 1,
          hardAtMs: hardAtMs + 1,
        })),
      );

      expect((await next.list()).map(({ backendId }) => backendId)).toEqual(
        requests.map(({ backendId }) => backendId),
      );
      expect(problems).toEqual(requests.map(() => null));
      next.close();
    });
  },
  THOUSANDS_MS_MAX,
);

test('the longest allowed start is carried out, a longer one is refused, and other backends are not affected', async () => {
  await inFolder(async (connect) => {
    const link = await connect();
    const long = Array.from({ length: 64 }, () => '\u0001'.repeat(4_096));

    await link.start(startOf('', { backendId: 'long', args: long }));
    await expect(
      link.start(startOf('', { backendId: 'longer', args: [...long, ...long, ...long] })),
    ).rejects.toThrow('too long');

    expect(await link.list()).toMatchObject([{ backendId: 'long' }]);
    link.close();
  });
});

describe('a warden without an agent', () => {
  function begin() {
    const state = { hasAgent: false, isShutdown: false, isDone: false, hasEnded: false };
    let tick: (nowMs: number) => void = () => undefined;
    void untilUnneeded({
      clock: {
        onTick: (listener) => {
          tick = listener;
          return () => {
            state.hasEnded = true;
          };
        },
      },
      warden: wardenOf(() => Promise.resolve(paperProcess)),
      hasAgent: () => state.hasAgent,
      isShutdown: () => state.isShutdown,
      removals: state,
    });
    return { state, tick: (nowMs: number) => tick(nowMs) };
  }

  test('ends after 5 s, and waits 5 s more for its last containers to be removed', () => {
    const { state, tick } = begin();

    for (const nowMs of [0, 5_000, 9_999]) tick(nowMs);
    expect(state.hasEnded).toBe(false);
    tick(10_000);

    expect(state.hasEnded).toBe(true);
  });

  test('stays for an agent that comes while containers are being removed', () => {
    const { state, tick } = begin();

    for (const nowMs of [0, 5_000]) tick(nowMs);
    state.hasAgent = true;
    for (const nowMs of [7_000, 20_000]) tick(nowMs);
    state.hasAgent = false;
    state.isDone = true;
    for (const nowMs of [30_000, 34_999]) tick(nowMs);
    expect(state.hasEnded).toBe(false);
    tick(35_000);

    expect(state.hasEnded).toBe(true);
  });

  test('that was told to end does so once nothing is left to remove', () => {
    const { state, tick } = begin();

    state.isShutdown = true;
    tick(0);
    expect(state.hasEnded).toBe(false);
    state.isDone = true;
    tick(50);

    expect(state.hasEnded).toBe(true);
  });
});

/** Everything that is answered to one line, until the other side ends the connection. */
async function answersTo(socketPath: string, line: unknown): Promise<unknown[]> {
  const socket = net.connect(socketPath);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  socket.write(`${JSON.stringify(line)}\n`);
  await once(socket, 'close');
  return text
    .split('\n')
    .filter((answer) => answer !== '')
    .map((answer) => JSON.parse(answer) as unknown);
}
