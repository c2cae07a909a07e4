/**
 * Passes requests on to the controller, and its answers back as they come: nothing is collected, so
 * that events reach the browser when they happen. Who goes away ends the request at the controller
 * too.
 */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { pipeline } from 'node:stream';
import { urlToHttpOptions } from 'node:url';
import type { Logger } from '@leasehold/service-kit';
import { answerUnreachable, refuseBody } from './controller-failure.ts';
import { cutOff } from './cut-off.ts';
import { hasUselessBody, headersToReturn, headersToSend } from './passed-headers.ts';

export interface PassThroughOptions {
  readonly controllerUrl: URL;
  /** For how long the controller may be silent before its answer begins. */
  readonly answerTimeoutMs: number;
  readonly log: Logger;
}

export interface PassThrough {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Ends every stream of events: whoever reads one asks again, and finds the next console. */
  endStreams(): void;
  /** Closes the connections to the controller that are kept for later. */
  close(): void;
}

export function createPassThrough(options: PassThroughOptions): PassThrough {
  const { controllerUrl, log } = options;
  const { request: send, Agent } = controllerUrl.protocol === 'https:' ? https : http;
  const agent = new Agent({ keepAlive: true });
  const streams = new Set<ServerResponse>();

  function handle(request: IncomingMessage, response: ServerResponse): void {
    if (hasUselessBody(request)) {
      refuseBody(response);
      return;
    }
    const upstream = send({
      ...urlToHttpOptions(controllerUrl),
      path: pathOf(request, controllerUrl),
      agent,
      method: request.method,
      headers: headersToSend(request.headers),
    });
    const limit = setTimeout(() => {
      upstream.destroy(new Error(`no answer within ${String(options.answerTimeoutMs)} ms`));
    }, options.answerTimeoutMs);
    // From when there is a connection on, the controller may have read the request.
    let wasSent = false;
    upstream.once('socket', (socket) => {
      if (!socket.connecting) wasSent = true;
      else {
        socket.once('connect', () => {
          wasSent = true;
        });
      }
    });
    upstream.once('close', () => {
      clearTimeout(limit);
    });
    upstream.once('response', (answer) => {
      clearTimeout(limit);
      passBack(answer, response);
    });
    upstream.once('error', (error) => {
      request.unpipe(upstream);
      request.resume();
      if (!response.destroyed) fail(response, { error, wasSent, log });
    });
    response.once('close', () => {
      if (!response.writableFinished) upstream.destroy();
    });
    request.pipe(upstream);
  }

  function passBack(answer: IncomingMessage, response: ServerResponse): void {
    response.writeHead(answer.statusCode ?? 502, headersToReturn(answer.headers));
    // The beginning of a stream is news too: a browser then knows that it is connected.
    response.flushHeaders();
    if (answer.headers['content-type']?.startsWith('text/event-stream')) {
      streams.add(response);
      response.once('close', () => streams.delete(response));
    }
    // Half an answer is not to look like a whole one: when one end breaks, so does the other. The
    // pipeline would end the connection in good order, so this comes before it.
    answer.once('error', () => {
      cutOff(response);
    });
    pipeline(answer, response, () => undefined);
  }

  return {
    handle,
    endStreams() {
      for (const stream of streams) stream.destroy();
    },
    close() {
      agent.destroy();
    },
  };
}

/**
 * The path below the controller's own address, which may have one. As it came: put together again it
 * could name another host, or what is outside of what was asked for.
 */
function pathOf(request: IncomingMessage, controllerUrl: URL): string {
  return `${controllerUrl.pathname.replace(/\/$/u, '')}${request.url ?? '/'}`;
}

function fail(
  response: ServerResponse,
  { error, wasSent, log }: { error: Error; wasSent: boolean; log: Logger },
): void {
  if (response.headersSent) {
    cutOff(response);
    return;
  }
  const code = wasSent ? 'request.outcome_unknown' : 'request.unreachable';
  const incidentId = answerUnreachable(response, code);
  log.warn({ err: error, incidentId, leaseholdCode: code }, 'the controller does not answer');
}
