import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Fenced, openObject, writeObject } from './fenced-object.ts';

/** One object, as stores with conditional writes keep it: the version is a hash of all that is kept. */
async function startObjectStore(body: string): Promise<string> {
  let kept = { body, token: '0' };
  const etag = (): string => `"${createHash('md5').update(JSON.stringify(kept)).digest('hex')}"`;
  const server = createServer((request, response) => {
    void (async () => {
      const sent = await text(request);
      if (request.method === 'PUT') {
        if (request.headers['if-match'] !== etag()) return response.writeHead(412).end();
        kept = { body: sent, token: String(request.headers['x-amz-meta-fencing-token']) };
        return response.writeHead(200, { etag: etag() }).end();
      }
      const headers = { etag: etag(), 'x-amz-meta-fencing-token': kept.token };
      return response.writeHead(200, headers).end(kept.body);
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

describe('a fenced object in an object store', () => {
  test('I3 a write with a smaller token is refused, and changes nothing', async () => {
    const url = await startObjectStore('1');
    const paused = await openObject(url, '7');
    const present = await openObject(url, '8');

    const late = writeObject(url, { ...paused, body: 'too late' }, '7');

    await expect(late).rejects.toBeInstanceOf(Fenced);
    await expect(openObject(url, '7')).rejects.toBeInstanceOf(Fenced);
    expect((await writeObject(url, { ...present, body: '2' }, '8')).body).toBe('2');
    expect(await (await fetch(url)).text()).toBe('2');
  });

  test('a holder goes on writing over its own versions', async () => {
    const url = await startObjectStore('0');
    let object = await openObject(url, '9007199254740993');

    for (let round = 0; round < 3; round += 1) {
      const body = String(Number(object.body) + 1);
      object = await writeObject(url, { ...object, body }, '9007199254740993');
    }

    expect(await (await fetch(url)).text()).toBe('3');
    await expect(openObject(url, '9007199254740992')).rejects.toBeInstanceOf(Fenced);
  });
});
