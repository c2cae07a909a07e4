/**
 * Passes requests on to the controller, and its answers back as they come: nothing is buffered, so
 * that events reach the browser when they happen, except for an answer that a page wants to have made
 * small, see `light-answers.ts`. A client that goes away ends its request at the
 * controller too. One of several controllers is kept as long as it answers; a request that was not
 * sent to it goes to the next.
 */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { pipeline } from 'node:stream';
import { urlToHttpOptions } from 'node:url';
import type { Logger } from '@leasehold/service-kit';
import { ControllerChoice } from '@leasehold/service-kit/controllers';
import { answerUnreachable, refuseBody } from './controller-failure.ts';
import { LightAnswers, mayBeLight } from './light-answers.ts';
import { hasUselessBody, headersToReturn, headersToSend } from './passed-headers.ts';

interface PassThroughOptions {
  readonly controllerUrls: readonly string[];
  /** For how long the controller may be silent before its answer begins. */
  readonly answerTimeoutMs: number;
  /** Called when the controller has let the caller of a request in. */
  readonly onKnown?: ((request: IncomingMessage) => void) | undefined;
  readonly log: Logger;
}

interface PassThrough {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Ends every stream of events: a client connects again, and reaches the next console. */
  endStreams(): void;
  /** Closes the connections to the controller that are kept for later. */
  close(): void;
}

export function createPassThrough(options: PassThroughOptions): PassThrough {
  const { log } = options;
  const choice = new ControllerChoice(options.controllerUrls);
  const agents: Agents = {
    plain: new http.Agent({ keepAlive: true }),
    tls: new https.Agent({ keepAlive: true }),
  };
  const streams = new Set<ServerResponse>();
  const light = new LightAnswers();

  function handle(request: IncomingMessage, response: ServerResponse): void {
    if (hasUselessBody(request)) {
      refuseBody(response);
      return;
    }
    void attempt(request, response, 1);
  }

  async function attempt(
    request: IncomingMessage,
    response: ServerResponse,
    tries: number,
  ): Promise<void> {
    let url: string;
    try {
      url = await choice.choose();
    } catch (error) {
      if (!response.destroyed) fail(response, { error, wasSent: false, log });
      return;
    }
    if (!response.destroyed) passOn(url, { request, response, tries });
  }

  function passOn(
    url: string,
    {
      request,
      response,
      tries,
    }: { request: IncomingMessage; response: ServerResponse; tries: number },
  ): void {
    const upstream = open(new URL(url), request, agents);
    const limit = setTimeout(() => {
      upstream.destroy(new Error(`no answer within ${String(options.answerTimeoutMs)} ms`));
    }, options.answerTimeoutMs);
    const stopWatching = choice.watch(url, () => {
      upstream.destroy(new Error('the controller fell silent'));
    });
    // Once there is a connection, the controller may have read the request.
    let wasSent = false;
    const sendBody = (): void => {
      wasSent = true;
      request.pipe(upstream);
    };
    upstream.once('socket', (socket) => {
      if (socket.connecting) socket.once('connect', sendBody);
      else sendBody();
    });
    const giveUp = (): void => {
      if (!response.writableFinished) upstream.destroy();
    };
    upstream.once('close', () => {
      clearTimeout(limit);
      stopWatching();
      response.off('close', giveUp);
    });
    upstream.once('response', (answer) => {
      clearTimeout(limit);
      stopWatching();
      choice.answered(url, answer.statusCode ?? 502);
      if (isLetIn(request, answer)) options.onKnown?.(request);
      passBack(request, answer, { response, streams, light });
    });
    upstream.once('error', (error) => {
      request.unpipe(upstream);
      if (response.destroyed) return;
      choice.passOver(url);
      if (!wasSent && tries < choice.count) {
        void attempt(request, response, tries + 1);
        return;
      }
      request.resume();
      fail(response, { error, wasSent, log });
    });
    response.once('close', giveUp);
  }

  return {
    handle,
    endStreams() {
      for (const stream of streams) stream.destroy();
    },
    close() {
      agents.plain.destroy();
      agents.tls.destroy();
    },
  };
}

/** Whether an answer is one that only a known caller gets. */
function isLetIn({ url = '' }: IncomingMessage, { statusCode = 502 }: IncomingMessage): boolean {
  return statusCode < 400 && /^\/(?:trpc|export)\//u.test(url);
}

/** Passes an answer back to the browser. */
function passBack(
  request: IncomingMessage,
  answer: IncomingMessage,
  { response, streams, light }: PassBackParts,
): void {
  const headers = headersToReturn(answer.headers);
  if (mayBeLight(request, answer)) {
    light.send(request, answer, { response, headers }).catch(() => {
      cutOff(response);
    });
    return;
  }
  response.writeHead(answer.statusCode ?? 502, headers);
  // The headers are sent at once: a browser then knows that its stream is connected.
  response.flushHeaders();
  if (answer.headers['content-type']?.startsWith('text/event-stream')) {
    streams.add(response);
    response.once('close', () => streams.delete(response));
  }
  // Half an answer must not look complete: when one end breaks, so does the other. The pipeline would
  // end the connection normally, so this comes before it.
  answer.once('error', () => {
    cutOff(response);
  });
  pipeline(answer, response, () => undefined);
}

interface PassBackParts {
  readonly response: ServerResponse;
  /** The streams of events that are open. */
  readonly streams: Set<ServerResponse>;
  readonly light: LightAnswers;
}

interface Agents {
  readonly plain: http.Agent;
  readonly tls: https.Agent;
}

function open(controllerUrl: URL, request: IncomingMessage, agents: Agents): http.ClientRequest {
  const isTls = controllerUrl.protocol === 'https:';
  return (isTls ? https : http).request({
    ...urlToHttpOptions(controllerUrl),
    path: pathOf(request, controllerUrl),
    agent: isTls ? agents.tls : agents.plain,
    method: request.method,
    headers: headersToSend(request.headers),
  });
}

/**
 * The path below the controller's own address, which may have one. It is passed on as it came: parsed
 * and built again, it could name another host, or leave what was asked for.
 */
function pathOf(request: IncomingMessage, controllerUrl: URL): string {
  return `${controllerUrl.pathname.replace(/\/$/u, '')}${request.url ?? '/'}`;
}

function fail(
  response: ServerResponse,
  { error, wasSent, log }: { error: unknown; wasSent: boolean; log: Logger },
): void {
  if (response.headersSent) {
    cutOff(response);
    return;
  }
  const code = wasSent ? 'request.outcome_unknown' : 'request.unreachable';
  const incidentId = answerUnreachable(response, code);
  log.warn({ err: error, incidentId, leaseholdCode: code }, 'the controller does not answer');
}

/**
 * Cuts an answer off so that no client takes the part for the whole. Its connection is reset: over
 * HTTP/1.0 an answer is complete when its connection ends, so a normal end would not show the loss.
 */
export function cutOff(response: ServerResponse): void {
  response.socket?.resetAndDestroy();
  response.destroy();
}
