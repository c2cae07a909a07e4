import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { LeaseError } from '@leasehold/keys-core';
import { listenProblem, type Logger } from '@leasehold/service-kit';
import type { ConsoleConfig } from './config.ts';
import { isOfDocuments, type Documents } from './documents.ts';
import { cutOff, createPassThrough } from './pass-through/pass-through.ts';
import { createNoteSource } from './pass-through/forwarded-for.ts';
import { notePath } from './page-path.ts';
import { isRouterStateSound } from './router-state.ts';
import { setCommonHeaders, setPageHeaders } from './security-headers.ts';

/** Paths that begin with these go to the controller. */
const OF_THE_CONTROLLER = ['/trpc', '/api/auth', '/export'];

/** Longer than any call of a page may take; a stream of events begins at once. */
const ANSWER_TIMEOUT_MS = 30_000;
/** How long calls under way may still take at the end. */
const FINISH_MS_MAX = 2_000;

/** A running console. */
interface ConsoleServer {
  /** Where it listens. */
  readonly url: string;
  /** Stops accepting, lets calls under way finish for a moment, and closes everything. */
  close(): Promise<void>;
}

interface ConsoleServerOptions {
  /** Its secret is the one that is used, wherever it was. */
  readonly config: Omit<ConsoleConfig, 'logLevel' | 'home'>;
  readonly log: Logger;
  /** Serves the pages: everything that neither the controller nor this server answers. */
  readonly pages: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** Serves the documentation. */
  readonly documents: Documents;
  readonly answerTimeoutMs?: number | undefined;
}

/**
 * Starts the console: the one origin that a browser speaks to.
 * @throws {LeaseError} `config.invalid` when the address cannot be listened on.
 */
export async function startConsoleServer(options: ConsoleServerOptions): Promise<ConsoleServer> {
  const { config, log, pages, documents } = options;
  const passThrough = createPassThrough({
    controllerUrls: config.controllerUrls,
    answerTimeoutMs: options.answerTimeoutMs ?? ANSWER_TIMEOUT_MS,
    log,
  });
  const answer = listenerOf({ config, log, pages, documents, pass: passThrough.handle });
  const underWay = new Set<ServerResponse>();
  let isClosing = false;
  const server = createServer((request, response) => {
    underWay.add(response);
    response.once('close', () => {
      underWay.delete(response);
      closeIfQuiet();
    });
    answer(request, response);
  });
  const closeIfQuiet = (): void => {
    // Idle connections would keep the server open for as long as the clients like.
    if (isClosing && underWay.size === 0) server.closeAllConnections();
  };
  try {
    server.listen(config.port, config.host);
    await once(server, 'listening');
  } catch (error) {
    passThrough.close();
    throw listenError(error, config);
  }
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${String(port)}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      passThrough.endStreams();
      isClosing = true;
      closeIfQuiet();
      const timer = setTimeout(() => {
        for (const response of underWay) cutOff(response);
        server.closeAllConnections();
      }, FINISH_MS_MAX);
      await closed;
      clearTimeout(timer);
      passThrough.close();
    },
  };
}

function listenerOf({
  config,
  log,
  pages,
  documents,
  pass,
}: Pick<ConsoleServerOptions, 'config' | 'log' | 'pages' | 'documents'> & {
  pass: (request: IncomingMessage, response: ServerResponse) => void;
}): RequestListener {
  const noteSource = createNoteSource(config);
  const isHttps = config.origin.startsWith('https:');
  return (request, response) => {
    setCommonHeaders(response, { isHttps });
    noteSource(request);
    const path = pathnameOf(request);
    if (path === '/healthz') {
      answerHealth(response);
    } else if (OF_THE_CONTROLLER.some((root) => path === root || path.startsWith(`${root}/`))) {
      pass(request, response);
    } else if (isOfDocuments(path)) {
      documents(request, response);
    } else if (!isRouterStateSound(request)) {
      response.writeHead(400, { 'content-type': 'text/plain' });
      response.end('The header next-router-state-tree cannot be read.');
    } else {
      keepLengthSecret(request);
      setPageHeaders(request, response);
      notePath(request);
      pages(request, response).catch((error: unknown) => {
        log.error({ err: error, path }, 'page failed');
        if (response.headersSent) response.destroy();
        else response.writeHead(500).end('The page could not be made.');
      });
    }
  };
}

/**
 * Next compresses pages, which hold the token of the session's mutations beside text of their address. A
 * page that another site has opened is sent as it is: its length must not tell anything about the token.
 */
function keepLengthSecret({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site === 'cross-site' || site === 'same-site') delete headers['accept-encoding'];
}

function pathnameOf(request: IncomingMessage): string {
  return (request.url ?? '/').split(/[?#]/u, 1)[0] ?? '/';
}

/** Reports only that the console answers. The controller reports for itself. */
function answerHealth(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end('{"status":"ok"}');
}

function listenError(error: unknown, config: { host: string; port: number }): unknown {
  const problem = listenProblem(error, config, 'LEASEHOLD_CONSOLE_PORT');
  return problem === undefined
    ? error
    : new LeaseError('config.invalid', problem, { cause: error });
}
