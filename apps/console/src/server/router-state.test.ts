import type { IncomingMessage } from 'node:http';
import { createLogger } from '@leasehold/service-kit';
import { expect, onTestFinished, test } from 'vitest';
import { startConsoleServer } from './console-server.ts';
import { NO_DOCUMENTS } from './console-server-for-test.ts';
import { openDocuments } from './documents.ts';
import { isRouterStateSound } from './router-state.ts';

const SENT_BY_A_BROWSER = encodeURIComponent(
  JSON.stringify(['', { children: ['keys', { children: ['__PAGE__', {}, null, null, 0] }] }]),
);

const isSound = (state?: string): boolean =>
  isRouterStateSound({
    headers: { 'next-router-state-tree': state },
  } as unknown as IncomingMessage);

test('a router state that a browser sends is sound, and so is a missing one', () => {
  expect(isSound(SENT_BY_A_BROWSER)).toBe(true);
  expect(isSound()).toBe(true);
});

test.each([
  '',
  'nonsense',
  '%E0%A4%A',
  '[1]',
  '{}',
  encodeURIComponent('["",{"a":1}]'),
  '['.repeat(100),
])(
  'a request for a page with an unreadable router state gets a 400 and is not rendered: %j',
  async (state) => {
    let renderedCount = 0;
    const server = await startConsoleServer({
      config: {
        ...{ host: '127.0.0.1', port: 0, controllerUrls: ['http://127.0.0.1:1'] },
        ...{ origin: 'http://localhost:4601', trustedProxies: [], consoleSecret: null },
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
