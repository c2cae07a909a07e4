import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { SocketWardenLink } from '../agent/socket-warden-link.ts';
import { createEar, startOf } from '../testing/warden-fixture.ts';
import { AgentServer } from './agent-server.ts';
import { Warden } from './warden.ts';

const paperProcess = {
  pid: 1,
  exitCode: null,
  signalStop: () => undefined,
  kill: () => undefined,
  isGone: () => false,
  release: () => undefined,
};

async function inFolder(use: (connect: () => Promise<SocketWardenLink>) => Promise<void>) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-lines-'));
  const warden = new Warden({
    launch: () => Promise.resolve(paperProcess),
    nowMs: () => os.uptime() * 1_000,
    onChange: () => undefined,
  });
  const server = new AgentServer({
    identity: { clockId: 'one', pid: 1, isolation: 'process-group', isolationDetail: '' },
    warden: () => warden,
    onShutdown: () => undefined,
  });
  const socketPath = path.join(folder, 'warden.sock');
  await server.listen(socketPath);
  try {
    await use(() => SocketWardenLink.connect(socketPath, createEar()));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('the next agent attaches to a warden of thousands, and moves all their deadlines at once', async () => {
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
});

test('a start of any length costs the others nothing: the longest that is let through is carried out, more is refused', async () => {
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
