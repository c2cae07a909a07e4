/** A gateway in this process, between a real client and real backends; what the controller says is scripted. */
import { once } from 'node:events';
import http, { type IncomingMessage, type Server } from 'node:http';
import net, { type AddressInfo, type Socket } from 'node:net';
import { createLogger } from '@leasehold/service-kit';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { waitUntil } from '@leasehold/testing';
import { onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { readConfig } from '../config.ts';
import { startGateway, type Gateway } from '../gateway.ts';
import { ScriptedController } from './scripted-controller.ts';

/** A program that echoes what it was sent. */
export interface TestBackend {
  readonly address: string;
  readonly requests: {
    readonly method: string;
    readonly url: string;
    readonly headers: IncomingMessage['headers'];
  }[];
  readonly sockets: Set<Socket>;
  /** In place of the echo. */
  handler: http.RequestListener | undefined;
  close(): void;
}

/** @param name what it calls itself in each answer and message. */
export async function startBackend(name = 'one', port = 0): Promise<TestBackend> {
  const requests: TestBackend['requests'] = [];
  const sockets = new Set<Socket>();
  const server = http.createServer();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  const close = (): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  const backend: TestBackend = { address: '', requests, sockets, handler: undefined, close };
  server.on('request', (request, response) => {
    const { method = '', url = '', headers } = request;
    requests.push({ method, url, headers });
    if (backend.handler !== undefined) {
      backend.handler(request, response);
      return;
    }
    let bytes = 0;
    request.on('data', (piece: Buffer) => (bytes += piece.length));
    request.on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ name, method, url, headers, bytes }));
    });
  });
  const webSockets = new WebSocketServer({ server });
  webSockets.on('connection', (socket, { url = '', headers }) => {
    socket.send(JSON.stringify({ name, url, headers }));
    socket.on('message', (data: Buffer) => socket.send(`${name}:${data.toString()}`));
    socket.on('error', () => undefined);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(close);
  return Object.assign(backend, { address: addressOf(server) });
}

export function addressOf(server: Server | net.Server): string {
  return `127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

export interface GatewayStage {
  readonly gateway: Gateway;
  readonly controller: ScriptedController;
  readonly port: number;
  /** What it has logged. */
  log(): string;
  /** Makes its clock go on at once. */
  passTime(ms: number): void;
  /** A request over a connection of its own. */
  ask(path: string, options?: AskOptions): Promise<Reply>;
  /** Sends bytes, and reads until the other end closes. */
  raw(text: string): Promise<string>;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: http.OutgoingHttpHeaders;
  readonly body?: string | Buffer;
}

export interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  readonly json: EchoedRequest;
}

/** What {@link startBackend} answers, or the gateway's error. */
export interface EchoedRequest {
  readonly name: string;
  readonly method: string;
  readonly url: string;
  readonly bytes: number;
  readonly headers: Record<string, string>;
  readonly error: { readonly code: string; readonly reason?: string; readonly requestId: string };
}

export interface StageClock {
  /** Whether its clock goes on by {@link GatewayStage.passTime} alone. */
  readonly isStill?: boolean;
}

export async function openGatewayStage(
  variables: Readonly<Record<string, string>> = {},
  controller = new ScriptedController(),
  { isStill = false }: StageClock = {},
): Promise<GatewayStage> {
  const openedAtMs = performance.now();
  let passedMs = 0;
  let logged = '';
  const config = readConfig({
    LEASEHOLD_URL: 'http://127.0.0.1:1',
    LEASEHOLD_TOKEN: `lh_${'a'.repeat(43)}`,
    LEASEHOLD_GATEWAY_LISTEN: '127.0.0.1:0',
    LEASEHOLD_GATEWAY_METRICS_LISTEN: '127.0.0.1:0',
    ...variables,
  });
  const gateway = await startGateway(config, {
    clock: createBootClock(() => (isStill ? openedAtMs : performance.now()) + passedMs),
    link: controller,
    log: createLogger({
      name: 'gateway',
      level: 'debug',
      destination: { write: (line: string) => void (logged += line) },
    }),
    version: '0.0.0',
  });
  onTestFinished(() => gateway.close());
  await waitUntil(() => controller.syncs.length > 0);
  const port = gateway.port;
  return {
    gateway,
    controller,
    port,
    log: () => logged,
    passTime: (ms) => void (passedMs += ms),
    ask: (path, options) => ask(port, path, options),
    raw: (text) => raw(port, text),
  };
}

/** A request over a connection of its own. */
export async function ask(port: number, path: string, options: AskOptions = {}): Promise<Reply> {
  const { method = 'GET', headers = {}, body } = options;
  const request = http.request({ port, host: '127.0.0.1', path, method, headers, agent: false });
  // A connection that is cut has more than one error.
  request.on('error', () => undefined);
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  for await (const piece of response.setEncoding('utf8')) text += String(piece);
  const isJson = response.headers['content-type'] === 'application/json' && text !== '';
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: text,
    json: (isJson ? JSON.parse(text) : {}) as EchoedRequest,
  };
}

/** What a client sends to open a WebSocket. */
export function upgradeOf(token: string): string {
  return (
    `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
  );
}

async function raw(port: number, text: string): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let said = '';
  socket.setEncoding('latin1').on('data', (piece: string) => (said += piece));
  socket.on('error', () => undefined);
  socket.write(text, 'latin1');
  await once(socket, 'close');
  return said;
}
