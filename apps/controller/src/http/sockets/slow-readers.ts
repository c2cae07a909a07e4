import type { ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';
import { once, type StreamPacer } from '../../fair-use/pacing.ts';

/** How often a stream looks whether its caller has read enough, in milliseconds. */
export const UNREAD_POLL_MS = 10;

/** An answer of which nothing was read for this long is given up, with its connection: a call's, a stream or an export. */
export const STALL_MS_MAX = 15_000;

/**
 * Resets the connection of a caller that does not read its answer: nobody takes a part for a whole.
 * @param whenOver called once, when the answer was handed to the network or the connection is gone.
 */
export function watchAnswer(
  response: ServerResponse,
  whenOver: () => void = () => undefined,
  stallMsMax = STALL_MS_MAX,
): void {
  if (response.destroyed) {
    whenOver();
    return;
  }
  const look = (): void => {
    if (response.socket !== null && response.socket.writableLength > 0) {
      response.socket.resetAndDestroy();
    } else response.setTimeout(stallMsMax);
  };
  // It restarts whenever the network takes a part of the answer. Nothing to take is no matter of the caller.
  response.setTimeout(stallMsMax, look);
  const finish = once(whenOver);
  response.once('finish', finish).once('close', finish);
}

/**
 * Counts an answer of tRPC for its caller: a whole one until the network has taken it, a stream as it is read.
 * @returns what is sent in its place; a whole one is a text, which has a length.
 */
export async function countedAnswer(
  reply: FastifyReply,
  answer: Response,
  use: Pick<PrincipalUse, 'sent'>,
): Promise<string | Response> {
  if (answer.body !== null && isStream(answer)) {
    watchAnswer(reply.raw);
    const { status, headers } = answer;
    return new Response(answer.body.pipeThrough(counting(use)), { status, headers });
  }
  const text = await answer.text();
  void reply.code(answer.status).headers(Object.fromEntries(answer.headers));
  watchAnswer(reply.raw, use.sent(text.length));
  return text;
}

function isStream({ headers }: Response): boolean {
  return (
    headers.has('transfer-encoding') ||
    headers.get('content-type')?.startsWith('text/event-stream') === true
  );
}

/** A stream is not read ahead: what it has sent is taken when more is asked of it. */
function counting(use: Pick<PrincipalUse, 'sent'>): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      use.sent(chunk.length)();
      controller.enqueue(chunk);
    },
  });
}

/**
 * Resolves when a stream over HTTP may send more: in its turn, once the network has taken what was sent, and while its
 * caller is within its limits. Without it, streams that nobody reads fill their buffers as fast as the
 * controller can, and others wait.
 */
export function whenTaken(
  pacer: StreamPacer,
  use: Pick<PrincipalUse, 'principal' | 'isBehind'>,
  response: ServerResponse,
): () => Promise<void> {
  const turn = pacer.open(use.principal);
  return async () => {
    await turn();
    while (!response.destroyed) {
      if (response.writableNeedDrain) await drained(response);
      else if (use.isBehind()) await pause(UNREAD_POLL_MS);
      else return;
    }
  };
}

/** Resolves when the network has taken what was written, or the connection is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      response.off('drain', over).off('close', over);
      resolve();
    };
    response.once('drain', over).once('close', over);
  });
}
