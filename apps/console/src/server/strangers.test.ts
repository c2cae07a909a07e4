import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startConsole } from './console-server-for-test.ts';
import { openReadyFiles } from './ready-files.ts';

const NOBODY = new URL('http://127.0.0.1:1');
const SESSION = 'leasehold.session_token=made-up';
const AT_ONCE_MAX = 8;
const SCRIPT = 'document.title = "x"';

/** A folder with what a build makes once. */
function builtFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'console-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const files = {
    'server/app/sign-in.html': `<html><script>${SCRIPT}</script><script src="/x.js" async></script></html>`,
    'server/app/icon.svg.body': '<svg/>',
    'static/chunks/a.js': 'let a',
  };
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(folder, '.next', name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return folder;
}

/** Pages that are finished when the test ends them. */
function slowPages() {
  const making: ServerResponse[] = [];
  const done: (() => void)[] = [];
  return {
    making,
    pages: (_request: unknown, response: ServerResponse): Promise<void> =>
      new Promise((resolve) => {
        making.push(response);
        done.push(() => {
          response.end('page');
          resolve();
        });
      }),
    finishAll: () => {
      for (const finish of done.splice(0)) finish();
    },
  };
}

test.each(['/', '/keys?q=a', '/drones/detail?id=x', '/nothing/there', '//evil.example', '/.//x'])(
  'no page is made for a visitor without a session, who is sent to sign in: %s',
  async (address) => {
    const { pages, making } = slowPages();
    const url = await startConsole(NOBODY, { pages, readyFiles: openReadyFiles(builtFolder()) });

    for (const cookie of ['', 'a=b', 'leasehold.session_token=', 'xleasehold.session_token=a']) {
      const answer = await fetch(`${url}${address}`, { redirect: 'manual', headers: { cookie } });

      expect(answer.status).toBe(307);
      expect(answer.headers.get('cache-control')).toBe('no-store');
      const { pathname, search } = new URL(`${url}${address}`);
      expect(answer.headers.get('location')).toBe(
        `/sign-in?${new URLSearchParams({ next: pathname + search }).toString()}`,
      );
    }
    expect(making).toEqual([]);
  },
);

test('what strangers load is not made: the sign-in page, its scripts, the icon', async () => {
  const { pages, making } = slowPages();
  const url = await startConsole(NOBODY, { pages, readyFiles: openReadyFiles(builtFolder()) });
  const textOf = async (address: string): Promise<string> =>
    (await fetch(`${url}${address}`)).text();

  const page = await fetch(`${url}/sign-in?next=%2Fkeys`, { headers: { cookie: SESSION } });

  expect(await page.text()).toContain(SCRIPT);
  const hash = createHash('sha256').update(SCRIPT).digest('base64');
  expect(page.headers.get('content-security-policy')).toContain(
    `script-src 'self' 'sha256-${hash}';`,
  );
  expect(page.headers.get('x-frame-options')).toBe('DENY');
  expect(page.headers.get('cache-control')).toBe('no-store');
  expect(await textOf('/_next/static/chunks/a.js')).toBe('let a');
  expect(await textOf('/icon.svg?v=1')).toBe('<svg/>');
  expect(making).toEqual([]);
});

test.each([
  '/_next/image?url=%2Fa%0Ab&w=64&q=75',
  '/_next/data/x.json',
  '/_next/static/../server/app/sign-in.html',
])('nothing else of Next can be asked for: %s', async (address) => {
  const { pages, making } = slowPages();
  const url = await startConsole(NOBODY, { pages, readyFiles: openReadyFiles(builtFolder()) });

  const answer = await fetch(`${url}${address}`, {
    headers: { cookie: SESSION },
    redirect: 'manual',
  });

  expect([404, 307, 200]).toContain(answer.status);
  if (address.startsWith('/_next/image')) expect(answer.status).toBe(404);
  expect(await answer.text()).not.toContain(SCRIPT);
  expect(making).toEqual([]);
});

test('of a flood of one address a few pages are made at once, and what is too much is refused', async () => {
  const { pages, making, finishAll } = slowPages();
  const url = await startConsole(NOBODY, { pages, trustedProxies: ['127.0.0.1'] });
  const leaving = new AbortController();
  const ask = (address: string): Promise<number> =>
    fetch(`${url}/keys`, {
      headers: { cookie: SESSION, 'x-forwarded-for': address },
      signal: leaving.signal,
    }).then(
      ({ status }) => status,
      () => 0,
    );

  const flood = Array.from({ length: 100 }, () => ask('203.0.113.1'));

  expect(await Promise.race(flood)).toBe(429);
  expect(making.length).toBe(AT_ONCE_MAX);
  leaving.abort();
  await Promise.all(flood);
  finishAll();
});

test('requests that are piled up on one connection end it', async () => {
  const { pages, making } = slowPages();
  const url = new URL(await startConsole(NOBODY, { pages }));
  const { connect } = await import('node:net');
  const socket = connect(Number(url.port), url.hostname);
  socket.on('error', () => undefined).resume();
  onTestFinished(() => void socket.destroy());

  socket.write(`GET /keys HTTP/1.1\r\nhost: x\r\ncookie: ${SESSION}\r\n\r\n`.repeat(1_000));

  await expect.poll(() => socket.closed).toBe(true);
  expect(making.length).toBeLessThanOrEqual(AT_ONCE_MAX);
});

test('an address gets so many answers of the console itself in a second, and is cut off when it goes on', async () => {
  const now = { ms: 0 };
  const url = await startConsole(NOBODY, { nowMs: () => now.ms });
  const ask = async (): Promise<number | 'cut'> => {
    const answer = await fetch(`${url}/healthz`).catch(() => undefined);
    await answer?.text();
    return answer?.status ?? 'cut';
  };
  const statuses: (number | 'cut')[] = [];
  for (let asked = 0; asked < 2_001; asked += 1) statuses.push(await ask());

  const countOf = (status: number | 'cut'): number =>
    statuses.filter((one) => one === status).length;
  expect([countOf(200), countOf(429), countOf('cut')]).toEqual([1_000, 1_000, 1]);
  now.ms = 1_000;
  expect(await ask()).toBe(200);
});
