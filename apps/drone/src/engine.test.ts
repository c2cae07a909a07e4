import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Engine } from './engine.ts';

type Answer = (request: http.IncomingMessage, response: http.ServerResponse) => void;

/** What answers where an engine should: an engine that hangs or floods, or a proxy before one. */
async function engineThat(answer: Answer): Promise<Engine> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-engine-'));
  const socket = path.join(folder, 'engine.sock');
  const server = http.createServer(answer).listen(socket);
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return new Engine(socket);
}

describe('the output of a container', () => {
  const FRAME_BYTES = 32_768;
  const FRAMES = 512;

  test('is taken no faster than it can be written: a flood does not fill the memory', async () => {
    const frame = Buffer.alloc(8 + FRAME_BYTES, 'x');
    frame.writeUInt32BE(0x01_00_00_00, 0);
    frame.writeUInt32BE(FRAME_BYTES, 4);
    const engine = await engineThat((_request, response) => {
      for (let count = 0; count < FRAMES; count += 1) response.write(frame);
      response.end();
    });
    let [taken, mostWaiting] = [0, 0];
    const slow = new Writable({
      write(chunk: Buffer, _encoding, done) {
        taken += chunk.length;
        mostWaiting = Math.max(mostWaiting, slow.writableLength);
        // Others have their turns in between, as they do while a disk writes.
        setImmediate(() => setImmediate(() => setImmediate(done)));
      },
    });
    const errors = new Writable({ write: (_chunk, _encoding, done) => done() });

    await new Promise<void>((resolve, reject) => {
      engine.follow('c1', { stdout: slow, stderr: errors }, { onEnd: resolve }).catch(reject);
    });
    slow.end();
    await once(slow, 'finish');

    expect(taken).toBe(FRAMES * FRAME_BYTES);
    expect(mostWaiting).toBeLessThan(1_048_576);
  });

  test('is not asked for any longer when the engine has not answered in time', async () => {
    let isClosed: Promise<unknown> = Promise.reject(new Error('it was not asked'));
    isClosed.catch(() => undefined);
    const engine = await engineThat((request) => {
      isClosed = once(request.socket, 'close');
    });
    const sink = new Writable({ write: (_chunk, _encoding, done) => done() });

    const following = engine.follow(
      'c1',
      { stdout: sink, stderr: sink },
      { onEnd: () => undefined, timeoutMs: 500 },
    );

    await expect(following).rejects.toThrow('not in time');
    await isClosed;
  });
});

test.each([
  { what: 'a page of a proxy', body: '<html>\n<p>Bad gateway</p>\n</html>', says: '<html>' },
  { what: 'no object', body: 'null\n', says: 'cannot be read' },
  { what: 'a failure', body: '{"status":"Pulling"}\n{"error":"no such image"}\n', says: 'no such' },
  { what: 'a failure without a line end', body: '{"error":"denied"}', says: 'denied' },
  { what: 'a line without end', body: 'x'.repeat(2_000_000), says: 'cannot be read' },
])(
  'a pull that is answered with $what has failed, and ends nothing else',
  async ({ body, says }) => {
    const engine = await engineThat((_request, response) => void response.end(body));
    const { signal } = new AbortController();

    await expect(engine.pull('room', { login: undefined, signal })).rejects.toMatchObject({
      name: 'EngineRefused',
      message: expect.stringContaining(says) as string,
    });
  },
);

test('a pull that is answered with progress alone has succeeded', async () => {
  const engine = await engineThat((_request, response) => {
    response.end('{"status":"Pulling"}\r\n\r\n{"status":"Done"}\r\n');
  });
  const { signal } = new AbortController();

  await expect(engine.pull('room', { login: undefined, signal })).resolves.toBeUndefined();
});
