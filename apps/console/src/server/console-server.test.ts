import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createLogger } from '@leasehold/service-kit';
import { NO_DOCUMENTS } from './console-server-for-test.ts';
import { isRouterStateSound, notePath, PageQueue, startConsoleServer } from './console-server.ts';
import { openDocuments } from './documents.ts';

const AT_ONCE_MAX = 8;

/** A queue, and the addresses for which pages are made. */
function aQueue() {
  const queue = new PageQueue();
  const made: string[] = [];
  const ends: (() => void)[] = [];
  return {
    made,
    add(address: string) {
      const response = new EventEmitter() as ServerResponse;
      const isAdded = queue.add(address, response, () => {
        made.push(address);
        return new Promise((resolve) => ends.push(resolve));
      });
      return { isAdded, close: () => response.emit('close') };
    },
    async endOne() {
      ends.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('only a few pages are made at once', async () => {
  const queue = aQueue();

  for (let i = 0; i < AT_ONCE_MAX * 2; i += 1) queue.add('a');
  expect(queue.made).toHaveLength(AT_ONCE_MAX);
  await queue.endOne();

  expect(queue.made).toHaveLength(AT_ONCE_MAX + 1);
});

test('no page is made for a caller that has gone', async () => {
  const queue = aQueue();
  for (let i = 0; i < AT_ONCE_MAX; i += 1) queue.add('a');
  const waiting = [queue.add('a'), queue.add('a'), queue.add('b')];

  for (const { close } of waiting.slice(0, 2)) close();
  await queue.endOne();
  await queue.endOne();

  expect(queue.made.slice(AT_ONCE_MAX)).toEqual(['b']);
});

test('addresses take turns, however much one of them asks for', async () => {
  const queue = aQueue();
  for (let i = 0; i < AT_ONCE_MAX + 30; i += 1) queue.add('a');
  queue.add('b');
  queue.add('c');
  queue.add('b');

  for (let i = 0; i < 6; i += 1) await queue.endOne();

  expect(queue.made.slice(AT_ONCE_MAX)).toEqual(['a', 'b', 'c', 'a', 'b', 'a']);
});

test('an address that asks for too much is refused, and others are not', () => {
  const queue = aQueue();
  const answers = Array.from({ length: 100 }, () => queue.add('a').isAdded);

  expect(answers.filter((isAdded) => isAdded)).toHaveLength(AT_ONCE_MAX + 40);
  expect(queue.add('b').isAdded).toBe(true);
});

test('all addresses together are bounded, and what has left makes place', () => {
  const queue = aQueue();
  const answers = Array.from({ length: 1_000 }, (_, i) => queue.add(`a${String(i)}`));

  expect(answers.filter(({ isAdded }) => isAdded)).toHaveLength(AT_ONCE_MAX + 400);
  answers.at(AT_ONCE_MAX)?.close();
  expect(queue.add('another').isAdded).toBe(true);
});

function noted(url: string, headers: Record<string, string> = {}): unknown {
  const request = { url, headers } as unknown as IncomingMessage;
  notePath(request);
  return request.headers['x-leasehold-path'];
}

describe('notePath', () => {
  test('tells a page its path and query, without what Next adds', () => {
    expect(noted('/keys?q=phase%3Aheld&after=a%2Fb&_rsc=1x2y')).toBe(
      '/keys?q=phase%3Aheld&after=a%2Fb',
    );
    expect(noted('/')).toBe('/');
    expect(noted('/drones?_rsc=1')).toBe('/drones');
  });

  test('replaces a path that the browser claims', () => {
    expect(noted('/keys', { 'x-leasehold-path': '//evil.example' })).toBe('/keys');
  });

  test('survives invalid addresses', () => {
    expect(noted('//')).toBe('//');
    expect(noted('/a?b?c=1')).toBe('/a?b%3Fc=1');
  });
});

const SENT_BY_A_BROWSER = encodeURIComponent(
  JSON.stringify(['', { children: ['keys', { children: ['__PAGE__', {}, null, null, 0] }] }]),
);

const SENT_FROM_AN_UNKNOWN_PAGE = encodeURIComponent(
  JSON.stringify(['', { children: [['unknown', 'a/b', 'c', null], {}, ['/a', ''], 'refetch'] }]),
);

const isSound = (state?: string): boolean =>
  isRouterStateSound({
    headers: { 'next-router-state-tree': state },
  } as unknown as IncomingMessage);

test('a router state that a browser sends is sound, and so is a missing one', () => {
  expect(isSound(SENT_BY_A_BROWSER)).toBe(true);
  expect(isSound(SENT_FROM_AN_UNKNOWN_PAGE)).toBe(true);
  expect(isSound()).toBe(true);
});

test.each([
  '',
  'nonsense',
  '%E0%A4%A',
  '[1]',
  '{}',
  encodeURIComponent('["",{"a":1}]'),
  encodeURIComponent('[["a","b","z",null],{}]'),
  encodeURIComponent('["",{},["/a"]]'),
  '['.repeat(100),
])(
  'a request for a page with an unreadable router state gets a 400 and is not rendered: %j',
  async (state) => {
    let renderedCount = 0;
    const server = await startConsoleServer({
      config: {
        host: '127.0.0.1',
        port: 0,
        controllerUrls: ['http://127.0.0.1:1'],
        origin: 'http://localhost:4601',
        trustedProxies: [],
        consoleSecret: null,
      },
      log: createLogger({ name: 'console', level: 'silent' }),
      documents: openDocuments(NO_DOCUMENTS),
      pages: (_request, response) => {
        renderedCount += 1;
        response.end();
        return Promise.resolve();
      },
    });
    onTestFinished(() => server.close());
    const headers = { rsc: '1', 'next-router-state-tree': state };

    const response = await fetch(`${server.url}/keys`, { headers });

    expect(response.status).toBe(400);
    expect(renderedCount).toBe(0);
  },
);
