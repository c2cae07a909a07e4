import { get } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import {
  createDeltaFetch,
  DELTA_TYPE,
  HAVE_HEADER,
  NOTHING,
  TAG_HEADER,
} from '../lib/api/json-delta.ts';
import { startConsole, startUpstream } from './console-server-for-test.ts';

const ROWS = Array.from({ length: 100 }, (_, index) => ({
  name: `room-${String(index)}`,
  leaseId: `lease ${String(index)} of a hundred`,
}));

/** What the controller has to say, which a test changes. */
interface Said {
  body: unknown;
}

async function consoleOf(said: Said): Promise<string> {
  const upstream = await startUpstream((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(said.body));
  });
  return startConsole(upstream.url);
}

interface Received {
  readonly headers: NodeJS.Dict<string | string[]>;
  /** As it came. */
  readonly body: Buffer;
}

function ask(url: string, headers: Record<string, string>): Promise<Received> {
  return new Promise((resolve, reject) => {
    get(url, { headers: { 'accept-encoding': 'gzip', ...headers } }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        resolve({ headers: answer.headers, body: Buffer.concat(chunks) });
      });
    }).on('error', reject);
  });
}

test('a page that asks again gets what has changed, and makes the whole answer of it', async () => {
  const said: Said = { body: { result: { data: { asOf: '1', items: ROWS } } } };
  const url = await consoleOf(said);
  const lengths: number[] = [];
  const deltaFetch = createDeltaFetch(async (path, init) => {
    const response = await fetch(`${url}${path}`, init);
    lengths.push((await response.clone().text()).length);
    return response;
  });
  const read = async (): Promise<unknown> =>
    (await deltaFetch('/trpc/keys.list', { method: 'GET' })).json();

  expect(await read()).toEqual(said.body);
  expect(await read()).toEqual(said.body);
  said.body = { result: { data: { asOf: '2', items: [{ name: 'new' }, ...ROWS.slice(0, 99)] } } };
  expect(await read()).toEqual(said.body);

  expect(lengths[0]).toBe(JSON.stringify({ result: { data: { asOf: '1', items: ROWS } } }).length);
  expect(lengths[1]).toBe('null'.length);
  expect(lengths[2]).toBeLessThan(200);
});

test('a large answer is compressed for a page that asks for it, and a small one is left as it is', async () => {
  const said: Said = { body: ROWS };
  const url = `${await consoleOf(said)}/trpc/keys.list`;

  const large = await ask(url, { [HAVE_HEADER]: NOTHING });
  said.body = [];
  const small = await ask(url, { [HAVE_HEADER]: NOTHING });

  expect(large.headers['content-encoding']).toBe('gzip');
  expect(large.body.byteLength).toBeLessThan(JSON.stringify(ROWS).length / 4);
  expect(JSON.parse(gunzipSync(large.body).toString())).toEqual(ROWS);
  expect(small.headers['content-encoding']).toBeUndefined();
  expect(small.body.toString()).toBe('[]');
});

test('what another site can make a browser ask for, and what holds a secret, is never compressed', async () => {
  const url = await consoleOf({ body: ROWS });

  const withoutHeader = await ask(`${url}/trpc/keys.list`, {});
  const session = await ask(`${url}/trpc/session.get`, { [HAVE_HEADER]: NOTHING });

  for (const { headers, body } of [withoutHeader, session]) {
    expect(headers['content-encoding']).toBeUndefined();
    expect(JSON.parse(body.toString())).toEqual(ROWS);
  }
  expect(withoutHeader.headers[TAG_HEADER]).toBeUndefined();
});

test('an answer is compared with those of the same session to the same question alone', async () => {
  const said: Said = { body: ROWS };
  const url = await consoleOf(said);
  const first = await ask(`${url}/trpc/keys.list`, { [HAVE_HEADER]: NOTHING, cookie: 'a=1' });
  const tag = String(first.headers[TAG_HEADER]);
  said.body = ROWS.slice(1);

  const same = await ask(`${url}/trpc/keys.list`, { [HAVE_HEADER]: tag, cookie: 'a=1' });
  const other = await ask(`${url}/trpc/keys.list`, { [HAVE_HEADER]: tag, cookie: 'a=2' });
  const elsewhere = await ask(`${url}/trpc/keys.get`, { [HAVE_HEADER]: tag, cookie: 'a=1' });

  expect(same.headers['content-type']).toBe(DELTA_TYPE);
  expect(other.headers['content-type']).toBe('application/json');
  expect(elsewhere.headers['content-type']).toBe('application/json');
});

test('a refusal is passed on as it is', async () => {
  const upstream = await startUpstream((_request, response) => {
    response.writeHead(403, { 'content-type': 'application/json' }).end('{"error":1}');
  });
  const url = await startConsole(upstream.url);

  const { headers, body } = await ask(`${url}/trpc/keys.list`, { [HAVE_HEADER]: NOTHING });

  expect(headers[TAG_HEADER]).toBeUndefined();
  expect(body.toString()).toBe('{"error":1}');
});

test('an answer that breaks off does not look complete', async () => {
  const upstream = await startUpstream((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 });
    response.write('{"result":');
    setImmediate(() => response.destroy());
  });
  const url = await startConsole(upstream.url);

  await expect(ask(`${url}/trpc/keys.list`, { [HAVE_HEADER]: NOTHING })).rejects.toThrow();
});
