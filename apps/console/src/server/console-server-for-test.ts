/** A console server, and a server in the place of its controller. */
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { createLogger } from '@leasehold/service-kit';
import { type Pages, startConsoleServer } from './console-server.ts';
import { openDocuments } from './documents.ts';
import type { ReadyFiles } from './ready-files.ts';

/** A folder without documentation. */
export const NO_DOCUMENTS = import.meta.dirname;

export interface Asked {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: NodeJS.Dict<string | string[]>;
  body: string;
  isOver: boolean;
}

/** A server in the controller's place that remembers what it is asked. */
export async function startUpstream(
  answer: RequestListener,
): Promise<{ url: URL; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    const { method, url, headers } = request;
    const entry = { method, url, headers, body: '', isOver: false };
    asked.push(entry);
    request.setEncoding('utf8').on('data', (text: string) => {
      entry.body += text;
    });
    response.once('close', () => {
      entry.isOver = true;
    });
    answer(request, response);
  });
  await listen(server);
  return { url: urlOf(server), asked };
}

async function listen(server: Server): Promise<void> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
}

export function urlOf(server: Server): URL {
  return new URL(`http://127.0.0.1:${String((server.address() as AddressInfo).port)}`);
}

export async function startConsole(
  controllerUrl: URL | readonly string[],
  {
    origin = 'http://localhost:4601',
    answerTimeoutMs = 60_000,
    trustedProxies = [] as readonly string[],
    consoleSecret = null as string | null,
    documents = openDocuments(NO_DOCUMENTS),
    readyFiles = undefined as ReadyFiles | undefined,
    pages = undefined as Pages['handle'] | undefined,
    nowMs = undefined as (() => number) | undefined,
  } = {},
): Promise<string> {
  const controllerUrls = controllerUrl instanceof URL ? [controllerUrl.origin] : controllerUrl;
  const server = await startConsoleServer({
    config: { host: '127.0.0.1', port: 0, controllerUrls, origin, trustedProxies, consoleSecret },
    log: createLogger({ name: 'console', level: 'silent' }),
    answerTimeoutMs,
    documents,
    readyFiles,
    nowMs,
    pages:
      pages ??
      ((request, response) => {
        response.end(`page, policy ${String(request.headers['content-security-policy'])}`);
        return Promise.resolve();
      }),
  });
  onTestFinished(() => server.close());
  return server.url;
}
