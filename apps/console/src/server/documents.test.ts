import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as send } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startConsole } from './console-server-for-test.ts';
import { openDocuments } from './documents.ts';

const NOBODY = new URL('http://127.0.0.1:1');

async function consoleWithDocuments(): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'lh-documents-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  await mkdir(path.join(folder, 'site/assets'), { recursive: true });
  await writeFile(path.join(folder, 'secret.txt'), 'not for everybody');
  await writeFile(path.join(folder, 'site/index.html'), '<h1>Start</h1>');
  await writeFile(path.join(folder, 'site/guide.html'), '<h1>Guide</h1>');
  await writeFile(path.join(folder, 'site/404.html'), '<h1>Not here</h1>');
  await writeFile(path.join(folder, 'site/assets/app.1a2b.js'), '1;');
  return startConsole(NOBODY, { documents: openDocuments(path.join(folder, 'site')) });
}

/** The path as it is: `fetch` would shorten it. */
function statusOf(url: string, raw: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    send(url, { path: raw }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

test('everybody can read the documentation, signed in or not', async () => {
  const url = await consoleWithDocuments();

  const start = await fetch(`${url}/docs`);
  const guide = await fetch(`${url}/docs/guide?from=search`);

  expect(start.url).toBe(`${url}/docs/`);
  expect(await start.text()).toBe('<h1>Start</h1>');
  expect(await guide.text()).toBe('<h1>Guide</h1>');
  expect(guide.headers.get('content-type')).toContain('text/html');
});

test('a page of the documentation runs scripts of this origin only, and no script of its own', async () => {
  const url = await consoleWithDocuments();

  const { headers } = await fetch(`${url}/docs/guide`);

  expect(headers.get('content-security-policy')).toContain("script-src 'self';");
  expect(headers.get('content-security-policy')).toContain("default-src 'self';");
  expect(headers.get('x-frame-options')).toBe('DENY');
  expect(headers.get('x-content-type-options')).toBe('nosniff');
});

test('a browser keeps what has its content in its name, and asks again for pages', async () => {
  const url = await consoleWithDocuments();

  const asset = await fetch(`${url}/docs/assets/app.1a2b.js`);
  const page = await fetch(`${url}/docs/guide`);
  const etag = page.headers.get('etag') ?? '';
  const again = await fetch(`${url}/docs/guide`, { headers: { 'if-none-match': etag } });

  expect(asset.headers.get('cache-control')).toContain('immutable');
  expect(page.headers.get('cache-control')).toBe('no-cache');
  expect(again.status).toBe(304);
});

test('what is not in the documentation is answered by its own page, and never by another file', async () => {
  const url = await consoleWithDocuments();

  const missing = await fetch(`${url}/docs/no-such-page`);

  expect(missing.status).toBe(404);
  expect(await missing.text()).toBe('<h1>Not here</h1>');
  for (const raw of ['/docs/../secret.txt', '/docs/%2e%2e/secret.txt', '/docs//etc/passwd']) {
    expect(await statusOf(url, raw)).toBe(404);
  }
  expect((await fetch(`${url}/docs/guide`, { method: 'POST' })).status).toBe(405);
});

test('without documentation the console works, and tells how to get it', async () => {
  const url = await startConsole(NOBODY);

  const response = await fetch(`${url}/docs/`);

  expect(response.status).toBe(404);
  expect(await response.text()).toContain('npm run build');
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});
