/** The gateway's server: lets requests in, finds their route, and passes them on. */
import { once } from 'node:events';
import http, {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import https from 'node:https';
import net, { type AddressInfo, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from '@leasehold/service-kit';
import { boundAnswers } from '@leasehold/service-kit/answers-under-way';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { guardConnections, type ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import { createSources, type Sources } from '@leasehold/service-kit/source-address';
import {
  activeTracer,
  carrierIn,
  carrierOf,
  contextFrom,
  SpanKind,
  traced,
  type SpanPlan,
} from '@leasehold/service-kit/tracing';
import { onAbort } from '@leasehold/service-kit/signals';
import {
  type AdmissionDeps,
  admit,
  type Admitted,
  type KeyTarget,
  mayRedirect,
  redirect,
  redirectFor,
  withSlash,
} from './admission.ts';
import type { GatewayConfig, Listen } from './config.ts';
import { heldBytesOf, readWhileHeld, StrangerBounds, UserShares } from './connection-bounds.ts';
import { Elsewhere, type ControllerLink } from './controller-link.ts';
import { forwardedFrom, headersForBackend, requestIdOf, type ForwardedFrom } from './headers.ts';
import { createMetrics, createMetricsServer, type GatewayMetrics } from './metrics.ts';
import {
  BackendFailed,
  createPasser,
  LOOK_MS,
  Passing,
  refusalOf,
  type Passer,
} from './passing.ts';
import { answerClientError, Refusal, refuse, refuseUpgrade, serveAfterAnswer } from './refusal.ts';
import { Routes, type ActiveRoute, type Wanted } from './routes.ts';
import { assertPlainHead, assertUpgrade, readTarget, rootOf, type ServedHosts } from './target.ts';
import { Tokens, type VerifiedToken } from './tokens.ts';

/** For receiving the head of a request, in milliseconds; its body may take as long as it needs. */
const SERVER_TIMES = {
  headersTimeout: 10_000,
  requestTimeout: 0,
  /** Between requests: longer than the proxies in front keep a connection. */
  keepAliveTimeout: 72_000,
  connectionsCheckingInterval: 1_000,
  keepAlive: true,
  keepAliveInitialDelay: 30_000,
};
/** Requests of one socket that are under way: clients send one after the other. */
const REQUESTS_PER_SOCKET_MAX = 16;
/** Connections of one address whose callers have shown no good token. */
const STRANGERS_PER_ADDRESS_MAX = 256;
/** For so long a gateway is ready without an answer, or while it holds requests: a failover cuts off all at once. */
const SYNC_AGE_MS_MAX = 5_000;
/** Between two tries to connect to a backend that its controller takes for alive. */
const REPEAT_MS = 200;
/** How long requests in progress may take to end when the gateway stops. */
const STOP_MS_MAX = 8_000;
/** It is replaced, never written into. */
const NO_HEAD = Buffer.alloc(0);

export interface Gateway {
  /** Under which browsers reach it. */
  readonly url: string;
  readonly port: number;
  readonly metricsUrl: string;
  /** Answers what is in progress, and ends all connections. */
  close(): Promise<void>;
}

interface GatewayDeps {
  readonly clock: TickingClock;
  readonly link: ControllerLink;
  readonly log: Logger;
  readonly version: string;
}

/** Starts to serve. Until the controller has answered once, requests wait. */
export async function startGateway(config: GatewayConfig, deps: GatewayDeps): Promise<Gateway> {
  const service = new GatewayService(config, deps);
  await service.listen();
  return service;
}

/** A request that has come, whether it is to be a WebSocket or not. */
interface Arrived {
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly to: ServerResponse | Socket;
  /** What a WebSocket's client has sent up to now. */
  head: Buffer;
  readonly beganAtMs: number;
  readonly from: ForwardedFrom;
  /** As they came: what is passed on is made of them, with each try again. */
  readonly headers: IncomingHttpHeaders;
  /** Undefined where no traces are made. */
  readonly tracer: ReturnType<typeof activeTracer>;
}

class GatewayService implements Gateway {
  readonly #config: GatewayConfig;
  readonly #deps: GatewayDeps;
  readonly #hosts: ServedHosts;
  readonly #tokens: Tokens;
  readonly #admission: AdmissionDeps;
  readonly #routes: Routes;
  readonly #metrics: GatewayMetrics;
  readonly #passer: Passer;
  readonly #sources: Sources;
  readonly #server: Server;
  readonly #metricsServer: Server;
  readonly #guard: ConnectionGuard;
  readonly #strangers: StrangerBounds;
  readonly #shares: UserShares;
  readonly #stopping = new AbortController();
  readonly #isSecure: boolean;
  /** When the tokens of what is open were last looked at, and when the first of them is over, by the database's clock. */
  #lookedAt = { changes: -1, nextEndMs: Infinity };
  #cancelLook: () => void = () => undefined;

  constructor(config: GatewayConfig, deps: GatewayDeps) {
    this.#config = config;
    this.#deps = deps;
    const { publicUrl, keyHosts, tls } = config;
    this.#isSecure = tls !== null || publicUrl?.startsWith('https:') === true;
    this.#hosts = { own: publicUrl === null ? null : new URL(publicUrl).host, keys: keyHosts };
    const { clock, link, version, log } = deps;
    this.#tokens = new Tokens(clock, (reason) => this.#metrics.tokenRefused(reason));
    this.#admission = { tokens: this.#tokens, ask: () => this.#routes.syncAfresh() };
    let isCutOff = false;
    this.#routes = new Routes({
      clock,
      link,
      version,
      gatewayId: config.gatewayId,
      bounds: config.bounds,
      tokens: this.#tokens,
      onSync: (problem) => {
        if (problem !== undefined && !isCutOff) log.warn({ err: problem }, 'no controller answers');
        if (problem === undefined && isCutOff) log.info('a controller answers again');
        isCutOff = problem !== undefined;
        this.#endRefused();
      },
    });
    this.#metrics = createMetrics(() => clock.nowMs(), this.#routes);
    this.#passer = createPasser(this.#metrics.observer);
    this.#sources = createSources({ trustedProxies: config.trustedProxies });
    this.#strangers = new StrangerBounds(clock, (socket) => this.#guard.isStrange(socket));
    this.#shares = new UserShares(config.bounds.connectionsMax);
    this.#server = this.#createServer();
    this.#guard = guardConnections(this.#server, {
      perAddressMax: STRANGERS_PER_ADDRESS_MAX,
      sources: this.#sources,
      connectionsMax: config.bounds.connectionsMax,
      unknownMax: Math.ceil(config.bounds.connectionsMax / 2),
    });
    const whyNotReady = (): string | undefined => this.#whyNotReady();
    this.#metricsServer = createMetricsServer(this.#metrics.registry, whyNotReady, clock);
  }

  get url(): string {
    const { publicUrl, tls, listen } = this.#config;
    return publicUrl ?? urlOf(this.#server, listen, tls === null ? 'http' : 'https');
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get metricsUrl(): string {
    return urlOf(this.#metricsServer, this.#config.metricsListen, 'http');
  }

  async listen(): Promise<void> {
    await listenOn(this.#metricsServer, this.#config.metricsListen);
    await listenOn(this.#server, this.#config.listen);
    this.#routes.start();
    this.#look();
  }

  #look(): void {
    if (this.#stopping.signal.aborted) return;
    for (const passing of this.#open()) passing.look();
    const { clock } = this.#deps;
    this.#cancelLook = clock.at(clock.nowMs() + LOOK_MS, () => this.#look());
  }

  async close(): Promise<void> {
    this.#stopping.abort(new Refusal('gateway.stopping'));
    this.#cancelLook();
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeIdleConnections();
    for (const passing of this.#open()) {
      if (passing.parts.to instanceof net.Socket) passing.end('gateway.stopping');
      // Over a connection that is kept, its client would go on to ask a gateway that refuses all.
      else passing.closeAfterAnswer();
    }
    const timer = setTimeout(() => {
      this.#routes.close('gateway.stopping');
      // What is held is answered in this turn.
      setImmediate(() => this.#server.closeAllConnections());
    }, STOP_MS_MAX);
    await closed;
    clearTimeout(timer);
    this.#routes.close('gateway.stopping');
    this.#metricsServer.close();
    this.#metricsServer.closeAllConnections();
  }

  #whyNotReady(): string | undefined {
    if (this.#stopping.signal.aborted) return 'it stops';
    const ageMsMax = Math.max(SYNC_AGE_MS_MAX, this.#config.bounds.holdMs);
    return (this.#routes.syncAgeMs() ?? Infinity) > ageMsMax ? 'no controller answers' : undefined;
  }

  #createServer(): Server {
    const { tls, bounds } = this.#config;
    const options = { ...SERVER_TIMES, maxHeaderSize: bounds.headerBytesMax };
    const server =
      tls === null
        ? http.createServer(options)
        : https.createServer({ ...options, ...tls, ALPNProtocols: ['http/1.1'] });
    // Past a number, Node would drop headers silently, those that say where a body ends too.
    server.maxHeadersCount = 0;
    server.on(tls === null ? 'connection' : 'secureConnection', (socket: Socket) => {
      this.#strangers.accepted(socket);
    });
    const begin = boundAnswers(REQUESTS_PER_SOCKET_MAX);
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      if (!begin(request, response)) {
        this.#strangers.hadTooMany(request.socket);
        return;
      }
      this.#guard.begin(request, response);
      response.on('error', ignore);
      this.#serve(this.#arrived(request, response));
    };
    server.on('request', onRequest);
    // Told to go on when its route is known.
    server.on('checkContinue', onRequest);
    // Node would answer what is expected beyond that by itself, as often as it is asked.
    server.on('checkExpectation', onRequest);
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      if (!(socket instanceof net.Socket)) return;
      socket.on('error', () => socket.destroy());
      const serve = (): void => {
        this.#guard.begin(request, response(socket));
        this.#serve(this.#arrived(request, socket, head));
      };
      const onEarly = (): void => this.#metrics.refused('gateway.bad_request');
      serveAfterAnswer(socket, { serve, onEarly });
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      if (this.#strangers.isSilenced(socket)) return;
      const code = answerClientError(error, socket);
      if (code !== undefined) this.#metrics.refused(code);
    });
    return server;
  }

  #arrived(request: IncomingMessage, to: ServerResponse | Socket, head: Buffer = NO_HEAD): Arrived {
    const beganAtMs = this.#deps.clock.nowMs();
    const { headers } = request;
    const from = forwardedFrom(request, { sources: this.#sources, isSecure: this.#isSecure });
    const tracer = activeTracer();
    const requestId = requestIdOf(request);
    return { request, to, head, beganAtMs, from, headers, requestId, tracer };
  }

  /** Answers every request in some way. */
  #serve(arrived: Arrived): void {
    const { tracer } = arrived;
    const passed =
      tracer === undefined
        ? this.#pass(arrived)
        : traced(tracer, this.#spanOf(arrived), () => this.#pass(arrived));
    passed.catch((error: unknown) => {
      if (!(error instanceof ClientGone)) this.#answerFailure(arrived, error);
    });
  }

  /** What a client says about a trace counts if a trusted proxy has passed it on. */
  #spanOf({ request }: Arrived): SpanPlan {
    const isTrusted = this.#sources.isFromProxy(request);
    return {
      name: 'gateway.request',
      kind: SpanKind.SERVER,
      attributes: { 'http.request.method': request.method ?? '' },
      parent: contextFrom(isTrusted ? carrierIn(request.headers) : {}),
    };
  }

  #answerFailure({ request, requestId, to }: Arrived, error: unknown): void {
    const refusal = refusalOf(error);
    this.#metrics.refused(refusal.code);
    this.#strangers.answered(request.socket);
    const { code, reason, status } = refusal;
    const fields = { requestId, code, reason };
    if (!(error instanceof Refusal)) {
      this.#deps.log.error({ ...fields, err: error }, 'a request failed');
    } else if (status >= 500) {
      this.#deps.log.warn({ ...fields, err: error.cause }, 'a request was not passed');
    } else this.#deps.log.debug(fields, 'a request was refused');
    if (to instanceof net.Socket) refuseUpgrade(refusal, { request, socket: to, requestId });
    else if (to.headersSent) to.destroy();
    else {
      if (this.#stopping.signal.aborted) to.shouldKeepAlive = false;
      refuse(refusal, { request, response: to, requestId });
    }
  }

  async #pass(arrived: Arrived): Promise<void> {
    const { request, to } = arrived;
    if (this.#stopping.signal.aborted) throw new Refusal('gateway.stopping');
    assertPlainHead(request);
    assertUpgrade(request, to instanceof net.Socket);
    const isSecure = arrived.from.protocol === 'https';
    const target = readTarget(request, this.#hosts, isSecure);
    if (target.form === 'own') {
      this.#answerOwn(arrived, target.path);
      return;
    }
    if (target.rest === '' && !(to instanceof net.Socket)) {
      // Browsers send the cookie of a key only to where the slash is. That it is missing tells nothing of the key.
      redirect(withSlash(request, target), { request, response: to, requestId: arrived.requestId });
      this.#strangers.answered(request.socket);
      return;
    }
    const found = admit(this.#admission, target, { request, isSecure });
    const admitted = found instanceof Promise ? await found : found;
    // Before it counts as known: a connection beyond the share stays a stranger's.
    this.#shares.take(arrived.from.isProxied ? to : request.socket, admitted.token.user);
    this.#guard.known(request);
    if (!(to instanceof net.Socket) && this.#redirect(arrived, target, admitted)) return;
    try {
      await this.#passTo(arrived, target, admitted);
    } catch (error) {
      // A browser opens no WebSocket where it is sent: that of a page that was sent there is for that gateway.
      if (!(error instanceof Elsewhere) || to instanceof net.Socket) throw error;
      await this.#sendElsewhere(error, { arrived, to, target, admitted });
    }
  }

  /** @throws {Refusal} for all but one of the gateway's own paths. */
  #answerOwn({ request, to }: Arrived, path: string): void {
    if (path !== '/healthz' || to instanceof net.Socket) throw new Refusal('gateway.not_found');
    to.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}');
    this.#strangers.answered(request.socket);
  }

  /** Sends a client to the gateway of the datacenter in which its key lives, with a token of that datacenter. */
  async #sendElsewhere(
    { datacenter }: Elsewhere,
    {
      arrived: { request, requestId },
      to,
      target,
      admitted,
    }: {
      readonly arrived: Arrived;
      readonly to: ServerResponse;
      readonly target: KeyTarget;
      readonly admitted: Admitted;
    },
  ): Promise<void> {
    const { url } = await this.#deps.link.handOver({ token: admitted.token.text, datacenter });
    if (to.destroyed) throw new ClientGone();
    const location = `${url.replace(/\/$/u, '')}${target.rest}`;
    redirect({ status: 307, location }, { request, response: to, requestId });
  }

  /** Sends a browser to where its address has no token. @returns whether it was. */
  #redirect(arrived: Arrived, target: KeyTarget, { token }: Admitted): boolean {
    const { request, to, requestId, from } = arrived;
    if (to instanceof net.Socket || !mayRedirect(request, target)) return false;
    const found = redirectFor(request, target, {
      token,
      secondsLeft: this.#tokens.secondsLeft(token),
      isSecure: from.protocol === 'https',
    });
    if (found !== undefined) redirect(found, { request, response: to, requestId });
    return found !== undefined;
  }

  async #passTo(arrived: Arrived, target: KeyTarget, admitted: Admitted): Promise<void> {
    const { wanted } = admitted.token;
    for (let tries = 1; ; tries += 1) {
      const current = this.#routes.current(wanted);
      const active = current ?? (await this.#heldRoute(arrived, wanted));
      try {
        // Each try to pass a request leaves listeners on it.
        if (tries > 1) await this.#passer.reach(active);
        // It may have been revoked while the request was held.
        if (tries > 1 || current === undefined) this.#assertInForce(admitted.token);
        await this.#passOver(active, arrived, target, admitted);
        return;
      } catch (error) {
        if (!(error instanceof BackendFailed)) throw error;
        active.isSuspect = true;
        if (!this.#mayRepeat(error, { tries, beganAtMs: arrived.beganAtMs })) throw error;
        this.#metrics.repeated();
        // Of what is asked for again at once, the next backend may be there already.
        if (tries > 1) await this.#pause();
      }
    }
  }

  #mayRepeat(
    { repeat }: BackendFailed,
    { tries, beganAtMs }: { readonly tries: number; readonly beganAtMs: number },
  ): boolean {
    if (repeat !== 'always') return repeat === 'once' && tries === 1;
    const { clock } = this.#deps;
    return tries === 1 || clock.nowMs() + REPEAT_MS < beganAtMs + this.#config.bounds.holdMs;
  }

  #pause(): Promise<void> {
    const { clock } = this.#deps;
    return new Promise((resolve) => {
      clock.at(clock.nowMs() + REPEAT_MS, resolve);
    });
  }

  /** The route of a key, when it is known. Until then the request is held. */
  async #heldRoute(arrived: Arrived, wanted: Wanted): Promise<ActiveRoute> {
    const { request, to, beganAtMs } = arrived;
    const gone = new AbortController();
    const onClose = (): void => gone.abort(new ClientGone());
    to.once('close', onClose);
    if (to.destroyed) onClose();
    const unread = to instanceof net.Socket ? readWhileHeld(arrived, to) : undefined;
    // A WebSocket that is held would not be open for long: it is refused when the gateway stops.
    const onStop = (reason: unknown): void => gone.abort(reason);
    const unfollow = unread === undefined ? unread : onAbort(this.#stopping.signal, onStop);
    try {
      const held = { bytes: heldBytesOf(request), signal: gone.signal };
      const active = await this.#routes.take(wanted, held);
      this.#metrics.heldFor(this.#deps.clock.nowMs() - beganAtMs);
      return active;
    } finally {
      unread?.();
      unfollow?.();
      to.off('close', onClose);
    }
  }

  async #passOver(
    active: ActiveRoute,
    arrived: Arrived,
    target: KeyTarget,
    admitted: Admitted,
  ): Promise<void> {
    const { request, to, head } = arrived;
    const { token } = admitted;
    if (to.destroyed) throw new ClientGone();
    // Those that are open have been ended.
    if (to instanceof net.Socket) this.#stopping.signal.throwIfAborted();
    const passing = this.#passing(active, arrived, target, token);
    if (this.#stopping.signal.aborted) passing.closeAfterAnswer();
    const isWebSocket = to instanceof net.Socket;
    // A WebSocket has a connection of its own.
    if (!isWebSocket && !active.hasPlaceFor(passing.user)) throw new Refusal('gateway.busy');
    // Its client waits with the body until somebody takes it. One of HTTP/1.0 would take that for the answer.
    const isAwaited = request.headers.expect !== undefined && request.httpVersion !== '1.0';
    if (isAwaited && !isWebSocket) to.writeContinue();
    this.#changeHead(active, arrived, target, admitted);
    this.#expectEnd(token);
    const release = active.use(passing, this.#deps.clock);
    const kind = isWebSocket ? 'websocket' : 'request';
    try {
      const outcome = isWebSocket
        ? await this.#passer.webSocket(passing, head)
        : await this.#passer.request(passing);
      this.#metrics.passed(kind, outcome);
    } catch (error) {
      this.#metrics.passed(kind, 'failed');
      throw error;
    } finally {
      release();
    }
  }

  #assertInForce(token: VerifiedToken): void {
    const problem = this.#tokens.problemOf(token);
    if (problem !== undefined) throw new Refusal(problem);
  }

  #passing(
    active: ActiveRoute,
    { request, requestId, to, beganAtMs, from }: Arrived,
    target: KeyTarget,
    token: VerifiedToken,
  ): Passing {
    const { address } = active.route;
    const { form, prefix } = target;
    const told = forwardedPrefix(target, token);
    const origin = `${from.protocol}://${from.host}`;
    const place = { prefix, told, origin, address, isToken: form === 'token', requestId };
    const parts = { active, token, requestId, place, request, to, beganAtMs };
    return new Passing(parts, this.#deps.clock);
  }

  /** Makes the head of a request that of what the backend is sent. */
  #changeHead(
    route: ActiveRoute,
    { request, requestId, headers, from, tracer }: Arrived,
    target: KeyTarget,
    { token, isBearer }: Admitted,
  ): void {
    request.headers = headers;
    request.headers = headersForBackend({
      request,
      requestId,
      token,
      isBearer,
      route,
      forwardedPrefix: forwardedPrefix(target, token),
      from,
      trace: tracer === undefined ? undefined : carrierOf(),
    });
    // A WebSocket is not sent to where the slash is.
    request.url = target.rest === '' ? rootOf(request) : target.rest;
  }

  /** What is on its way. */
  #open(): Passing[] {
    return [...this.#routes.active].flatMap(({ users }) =>
      users.filter((user) => user instanceof Passing),
    );
  }

  /** Ends what is open by tokens that are not in force any more: looks at all only when some may have become so. */
  #endRefused(): void {
    const databaseMs = this.#tokens.databaseMs();
    const { changes } = this.#tokens;
    if (changes === this.#lookedAt.changes && databaseMs < this.#lookedAt.nextEndMs) return;
    this.#lookedAt = { changes, nextEndMs: Infinity };
    for (const passing of this.#open()) {
      const { token } = passing.parts;
      const problem = this.#tokens.problemOf(token, databaseMs);
      if (problem === undefined) this.#expectEnd(token);
      else passing.end(problem);
    }
  }

  #expectEnd({ endsAtMs }: VerifiedToken): void {
    if (endsAtMs < this.#lookedAt.nextEndMs) this.#lookedAt.nextEndMs = endsAtMs;
  }
}

/** The path before what a backend is asked for, without a token. */
function forwardedPrefix(target: KeyTarget, { keyPrefix }: VerifiedToken): string {
  const isOfHost =
    target.form === 'host' || (target.form === 'token' && target.keyId !== undefined);
  return isOfHost ? '' : keyPrefix;
}

/** A client that is gone is seen when its answer ends. */
const ignore = (): void => undefined;

/** Nobody waits for an answer. */
class ClientGone extends Error {
  override readonly name = 'ClientGone';

  constructor() {
    super('the client is gone');
  }
}

/** The end of an upgrade that is no WebSocket yet is that of its socket. */
function response(socket: Socket): Pick<ServerResponse, 'once'> {
  return socket as unknown as Pick<ServerResponse, 'once'>;
}

async function listenOn(server: Server, { host, port }: Listen): Promise<void> {
  server.listen({ host, port });
  await once(server, 'listening');
}

function urlOf(server: Server, { host }: Listen, protocol: string): string {
  const { port } = server.address() as AddressInfo;
  return `${protocol}://${host.includes(':') ? `[${host}]` : host}:${String(port)}`;
}
