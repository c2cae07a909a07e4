import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { z } from 'zod';
import { LeaseError } from '@leasehold/keys-core';
import { listenProblem, type Logger } from '@leasehold/service-kit';
import {
  boundAnswers,
  closePipelining,
  createAnswerRate,
} from '@leasehold/service-kit/answers-under-way';
import { guardConnections } from '@leasehold/service-kit/connection-guard';
import { FairQueue } from '@leasehold/service-kit/fair-queue';
import { networkOf } from '@leasehold/service-kit/network';
import { createSources, type Sources } from '@leasehold/service-kit/source-address';
import { routes } from '../lib/routes.ts';
import type { ConsoleConfig } from './config.ts';
import { type Documents, isOfDocuments, setCommonHeaders, setPageHeaders } from './documents.ts';
import { createNoteSource, createPassThrough, cutOff } from './pass-through.ts';
import type { ReadyFiles } from './ready-files.ts';

/** The built pages, ready to be served. */
export interface Pages {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  close(): Promise<void>;
}

/** What a build writes about itself. */
const BUILT = join('.next', 'required-server-files.json');

/**
 * The configuration that the pages in this folder were built with, as JSON.
 * @throws {LeaseError} `config.invalid` when they were not built.
 */
export function builtConfigOf(folder: string): string {
  try {
    const { config } = JSON.parse(readFileSync(join(folder, BUILT), 'utf8')) as { config: unknown };
    return JSON.stringify(config);
  } catch (cause) {
    const problem = `${folder} has no built pages, or not all of them: ${BUILT} cannot be read.`;
    const help = 'Install Leasehold again; in a clone, run `npm run build`.';
    throw new LeaseError('config.invalid', `${problem} ${help}`, { cause });
  }
}

/** Loads the pages that `next build` made in this folder. */
export async function preparePages(folder: string): Promise<Pages> {
  // Loaded only here: Next reads the environment when it is loaded, which takes half a second.
  const { default: next } = await import('next');
  const app = next({ dev: false, dir: folder, quiet: true });
  await app.prepare();
  return { handle: app.getRequestHandler(), close: () => app.close() };
}

// What happens to a request for a page before Next renders it: it is checked, told its path, and waits for
// its turn.

/** Making more at once makes none of them sooner: there is one thread. */
const AT_ONCE_MAX = 8;
/** Requests of one address that wait. A browser asks for one page at a time, and for a few ahead. */
const WAITING_PER_ADDRESS_MAX = 40;
const WAITING_MAX = 400;
/** A page that is not finished by then gives its place to the next. */
const MAKING_MS_MAX = 30_000;

interface Waiting {
  readonly make: () => Promise<void>;
}

/**
 * Bounds how many pages are made at once, and lets addresses take turns: a page takes a hundred times as long to make as
 * to ask for. A request whose caller has gone is not begun.
 */
export class PageQueue {
  readonly #waiting = new FairQueue<Waiting>();
  #makingCount = 0;

  /**
   * Makes a page when its turn comes.
   * @param make never rejects.
   * @returns false if too many wait already: nothing is made.
   */
  add(address: string, response: ServerResponse, make: () => Promise<void>): boolean {
    const { size } = this.#waiting;
    if (size >= WAITING_MAX || this.#waiting.sizeOf(address) >= WAITING_PER_ADDRESS_MAX) {
      return false;
    }
    const waiting = { make };
    this.#waiting.push(address, waiting);
    response.once('close', () => this.#waiting.remove(address, waiting));
    this.#next();
    return true;
  }

  #next(): void {
    while (this.#makingCount < AT_ONCE_MAX) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#make(next);
    }
  }

  #make({ make }: Waiting): void {
    this.#makingCount += 1;
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      this.#makingCount -= 1;
      this.#next();
    };
    const timer = setTimeout(end, MAKING_MS_MAX);
    timer.unref();
    void make().finally(end);
  }
}

/** The header that gives a page its path: a visitor who has to sign in first comes back to it. */
const PATH_HEADER = 'x-leasehold-path';

/** The path and query of a page, without Next's own mark of a page that is fetched in the background. */
function pathOfPage(request: IncomingMessage): string {
  const [path = '/', query = ''] = (request.url ?? '/').split(/\?(.*)/su, 2);
  const params = new URLSearchParams(query);
  params.delete('_rsc');
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** Tells the page its own path and query, in place of what the browser claims. */
export function notePath(request: IncomingMessage): void {
  request.headers[PATH_HEADER] = pathOfPage(request);
}

/** The header in which the browser sends what it shows: a segment of the path, what is below it, and marks. */
const STATE_HEADER = 'next-router-state-tree';
/** As Next bounds it. */
const STATE_LENGTH_MAX = 40_000;

/** A part of the path: a fixed one, or a parameter with its value, its kind and its fixed siblings. */
const SEGMENT = z.union([
  z.string(),
  z.tuple([z.string(), z.string(), z.enum(['c', 'oc', 'd']), z.array(z.string()).nullable()]),
]);
const ROUTER_STATE = z.tuple([
  SEGMENT,
  z.record(
    z.string(),
    z.lazy((): z.ZodType => ROUTER_STATE),
  ),
  z.tuple([z.string(), z.string()]).nullish(),
  z.enum(['refetch', 'inside-shared-layout', 'metadata-only']).nullish(),
  z.number().nullish(),
  z.string().optional(),
]);

/**
 * Whether the router state that a page sends can be read. Next would answer an unreadable one with a
 * 500, and log our error for a request that was wrong: so it is checked before Next renders anything.
 */
export function isRouterStateSound({ headers }: IncomingMessage): boolean {
  const state = headers[STATE_HEADER];
  if (state === undefined) return true;
  if (typeof state !== 'string' || state.length > STATE_LENGTH_MAX) return false;
  try {
    return ROUTER_STATE.safeParse(JSON.parse(decodeURIComponent(state))).success;
  } catch {
    return false;
  }
}

/** Paths that begin with these go to the controller. */
const OF_THE_CONTROLLER = ['/trpc', '/api/auth', '/export'];

/** Longer than any call of a page may take; a stream of events begins at once. */
const ANSWER_TIMEOUT_MS = 30_000;
/** For receiving a request; its answer may take longer. */
const HEADERS_MS_MAX = 10_000;
const REQUEST_MS_MAX = 30_000;
/** How often it is looked for connections that exceed these times. */
const LOOK_MS = 1_000;
/** Connections that one address may have while its callers are unknown; of more, the oldest is closed. */
const UNKNOWN_CONNECTIONS_MAX = 500;
/** Pages, files and redirections that one address gets in a second: a page has some sixty files, and an office one address. */
const OWN_ANSWERS_PER_SECOND_MAX = 1_000;
/** Requests under way on one connection. Browsers send one after the other. */
const PER_CONNECTION_MAX = 8;
/** Those of one answer: more than these are a leak. */
const LISTENERS_MAX = 40;
/** How long calls under way may still take at the end. */
const FINISH_MS_MAX = 2_000;

/** As the controller names it, over http and https, in this version and the one before. */
const SESSION_COOKIE = /(?:^|;\s*)(?:__Host-|__Secure-)?leasehold\.session_token=[^;\s]/u;

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
  /** Serves what the build has made once; what is left out is made by `pages`. */
  readonly readyFiles?: ReadyFiles | undefined;
  readonly answerTimeoutMs?: number | undefined;
  /** A monotonic reading, in milliseconds. */
  readonly nowMs?: (() => number) | undefined;
}

/**
 * Starts the console: the one origin that a browser speaks to.
 * @throws {LeaseError} `config.invalid` when the address cannot be listened on.
 */
export async function startConsoleServer(options: ConsoleServerOptions): Promise<ConsoleServer> {
  const { config, log } = options;
  const sources = createSources({ trustedProxies: config.trustedProxies });
  const server = createServer({
    headersTimeout: HEADERS_MS_MAX,
    requestTimeout: REQUEST_MS_MAX,
    connectionsCheckingInterval: LOOK_MS,
  });
  const guard = guardConnections(server, { perAddressMax: UNKNOWN_CONNECTIONS_MAX, sources });
  const passThrough = createPassThrough({
    controllerUrls: config.controllerUrls,
    answerTimeoutMs: options.answerTimeoutMs ?? ANSWER_TIMEOUT_MS,
    onKnown: (request) => guard.known(request),
    log,
  });
  const answer = listenerOf({ ...options, sources, pass: passThrough.handle });
  const underWay = new Set<ServerResponse>();
  let isClosing = false;
  const begin = boundAnswers(PER_CONNECTION_MAX);
  closePipelining(server, PER_CONNECTION_MAX);
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (!begin(request, response)) return;
    // Each part that follows an answer, and each controller that is tried, listens once.
    response.setMaxListeners(LISTENERS_MAX);
    guard.begin(request, response);
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
  documents,
  readyFiles,
  sources,
  pass,
  ...rest
}: ConsoleServerOptions & {
  readonly sources: Sources;
  readonly pass: (request: IncomingMessage, response: ServerResponse) => void;
}): RequestListener {
  const makePage = pageMaker(rest, sources);
  const noteSource = createNoteSource(config);
  const isHttps = config.origin.startsWith('https:');
  const countAnswer = createAnswerRate({
    perSecondMax: OWN_ANSWERS_PER_SECOND_MAX,
    nowMs: rest.nowMs ?? (() => performance.now()),
  });
  /** Whether this server may answer by itself. The controller counts what it is asked. */
  const mayAnswer = (request: IncomingMessage, response: ServerResponse): boolean => {
    const verdict = countAnswer(sources.of(request) ?? '', request.socket);
    if (verdict === 'close') request.socket.destroy();
    if (verdict !== 'refuse') return verdict === 'answer';
    response.setHeader('retry-after', '1');
    answerText(response, 429, 'Too many requests of this address.');
    return false;
  };
  return (request, response) => {
    setCommonHeaders(response, { isHttps });
    noteSource(request);
    const path = pathnameOf(request);
    if (OF_THE_CONTROLLER.some((root) => path === root || path.startsWith(`${root}/`))) {
      pass(request, response);
    } else if (!mayAnswer(request, response)) {
      return;
    } else if (path === '/healthz') {
      answerHealth(response);
    } else if (isOfDocuments(path)) {
      documents(request, response);
    } else if (readyFiles?.(request, response, path) !== true) {
      if (path !== routes.signIn() && !hasSessionCookie(request)) sendToSignIn(request, response);
      else makePage(request, response, path);
    }
  };
}

/** Whether a request has what looks like a session; only the controller knows whether it is one. */
function hasSessionCookie({ headers }: IncomingMessage): boolean {
  return SESSION_COOKIE.test(headers.cookie ?? '');
}

/** Strangers get no page of their own: the sign-in page is the same for all. */
function sendToSignIn(request: IncomingMessage, response: ServerResponse): void {
  const location = routes.signIn(pathOfPage(request));
  response.writeHead(307, { location, 'cache-control': 'no-store' }).end();
}

/** Makes the pages that are made for their visitors, a few at once. */
function pageMaker(
  { pages, log }: Pick<ConsoleServerOptions, 'pages' | 'log'>,
  sources: Sources,
): (request: IncomingMessage, response: ServerResponse, path: string) => void {
  const queue = new PageQueue();
  return (request, response, path) => {
    if (!isRouterStateSound(request)) {
      answerText(response, 400, 'The header next-router-state-tree cannot be read.');
      return;
    }
    // Read now: a socket that has closed has no address any more.
    const address = networkOf(sources.of(request) ?? '');
    const isAdded = queue.add(address, response, async () => {
      keepLengthSecret(request);
      setPageHeaders(request, response);
      notePath(request);
      try {
        await pages(request, response);
      } catch (error) {
        log.error({ err: error, path }, 'page failed');
        if (response.headersSent) response.destroy();
        else answerText(response, 500, 'The page could not be made.');
      }
    });
    if (!isAdded) {
      response.setHeader('retry-after', '1');
      answerText(response, 429, 'Too many pages are asked for at once. Try again in a second.');
    }
  };
}

function answerText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain', 'cache-control': 'no-store' });
  response.end(text);
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
