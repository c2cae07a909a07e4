import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Fenced, openObject, writeObject } from './fenced-object.ts';

/**
 * One object, as stores with conditional writes keep it: its version is a hash of its body alone. `isBusy` is asked
 * before each write whether another one is under way.
 */
async function startObjectStore(value: string, isBusy = (): boolean => false): Promise<string> {
  let body = JSON.stringify({ fencingToken: '0', value });
  const etag = (): string => `"${createHash('md5').update(body).digest('hex')}"`;
  const server = createServer((request, response) => {
    void (async () => {
      const sent = await text(request);
      if (request.method !== 'PUT') return response.writeHead(200, { etag: etag() }).end(body);
      if (isBusy()) return response.writeHead(409).end();
      if (request.headers['if-match'] !== etag()) return response.writeHead(412).end();
      body = sent;
      return response.writeHead(200, { etag: etag() }).end();
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/counter`;
}

async function keptAt(url: string): Promise<unknown> {
  return (await fetch(url)).json();
}

describe('a fenced object in an object store', () => {
  test('I3 a write with a smaller token is refused, and changes nothing', async () => {
    const url = await startObjectStore('1');
    const paused = await openObject(url, '7');
    const present = await openObject(url, '8');

    const late = writeObject(url, { ...paused, value: 'too late' }, '7');

    await expect(late).rejects.toBeInstanceOf(Fenced);
    await expect(openObject(url, '7')).rejects.toBeInstanceOf(Fenced);
    await writeObject(url, { ...present, value: '2' }, '8');
    expect(await keptAt(url)).toEqual({ fencingToken: '8', value: '2' });
  });

  test('a holder goes on writing over its own versions; tokens are compared beyond what a double holds', async () => {
    const url = await startObjectStore('0');
    let object = await openObject(url, '9007199254740993');

    for (let round = 0; round < 3; round += 1) {
      const value = String(Number(object.value) + 1);
      object = await writeObject(url, { ...object, value }, '9007199254740993');
    }

    expect(await keptAt(url)).toEqual({ fencingToken: '9007199254740993', value: '3' });
    await expect(openObject(url, '9007199254740992')).rejects.toBeInstanceOf(Fenced);
  });

  test('a write that meets another one under way is repeated: the holder was not replaced', async () => {
    let busyCount = 0;
    const url = await startObjectStore('1', () => (busyCount -= 1) >= 0);
    busyCount = 2;
    const object = await openObject(url, '7');

    busyCount = 2;
    await writeObject(url, { ...object, value: '2' }, '7');

    expect(await keptAt(url)).toEqual({ fencingToken: '7', value: '2' });
  });

  test('a store that never stops writing fails the write, and not as if the holder were replaced', async () => {
    let isBusy = false;
    const url = await startObjectStore('1', () => isBusy);
    const object = await openObject(url, '7');

    isBusy = true;
    const failure = await writeObject(url, object, '7').catch((error: unknown) => error);

    expect(failure).not.toBeInstanceOf(Fenced);
    expect(failure).toMatchObject({ message: `${url}: 409` });
  });

  test('when two holders show their tokens at once, in any order, the one with the larger token can write', async () => {
    const url = await startObjectStore('0');

    const [small, large] = await Promise.allSettled([openObject(url, '1'), openObject(url, '2')]);

    expect(large.status).toBe('fulfilled');
    expect(await keptAt(url)).toMatchObject({ fencingToken: '2' });
    if (small.status === 'fulfilled') {
      await expect(writeObject(url, small.value, '1')).rejects.toBeInstanceOf(Fenced);
    }
  });
});
