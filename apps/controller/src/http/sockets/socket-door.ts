/**
 * What a WebSocket may do before it is known who has opened it: send one small message with a token,
 * soon. Anything else ends the connection.
 */
import type { IncomingMessage } from 'node:http';
import { LeaseError } from '@leasehold/keys-core';
import { jsonOf } from '@leasehold/service-kit';
import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import type { RawData, WebSocket } from 'ws';
import { tooManyLookUps } from '../../fair-use/rates.ts';
import { callerOfToken, type Caller, type ContextDeps } from '../request-context.ts';
import { watchEarlyFrames } from './early-frames.ts';

/** Time for the connection parameters to arrive. */
const TOKEN_MS_MAX = 5_000;
const TOKEN_MESSAGE_BYTES_MAX = 4 * 1_024;
/**
 * What else may have arrived by then: clients send calls right behind their token. One
 * read of a socket brings 64 KiB.
 */
const EARLY_BYTES_MAX = 192 * 1_024;

/** Who opened a connection, or why it is refused; with what was already sent behind the token. */
export type Opened =
  | { readonly outcome: 'known'; readonly caller: Caller; readonly early: readonly string[] }
  | { readonly outcome: 'refused'; readonly error: unknown; readonly early: readonly string[] };

/** Waits until it is known who has opened a WebSocket. */
export function admit(
  deps: ContextDeps & { readonly guard: ConnectionGuard },
  socket: WebSocket,
  request: IncomingMessage,
): Promise<Opened> {
  return new Promise((resolve) => {
    const endWatch = watchStranger(socket, request, TOKEN_MESSAGE_BYTES_MAX);
    const early: string[] = [];
    let isTokenSent = false;
    const end = (): void => {
      clearTimeout(timer);
      socket.off('message', receive).off('close', closed);
      endWatch();
    };
    // What arrives before the connection ends is kept, within bounds: the first call is answered.
    const refuse = (error: unknown): void => {
      clearTimeout(timer);
      resolve({ outcome: 'refused', error, early });
    };
    const closed = (): void => refuse(new LeaseError('auth.required'));
    const receive = (data: RawData): void => {
      const text = textOf(data);
      if (isTokenSent) {
        early.push(text);
        return;
      }
      isTokenSent = true;
      // What follows the token stays with the sender until the token has been looked up.
      socket.pause();
      const secret = tokenIn(text);
      if (secret === undefined) {
        refuse(new LeaseError('auth.required'));
        return;
      }
      if (!deps.guard.claimed(request)) {
        refuse(tooManyLookUps());
        return;
      }
      callerOfToken(deps, request, secret).then((caller) => {
        end();
        resolve({ outcome: 'known', caller, early });
      }, refuse);
    };
    const timer = setTimeout(() => {
      if (!isTokenSent) refuse(new LeaseError('auth.required', 'No token was sent.'));
    }, TOKEN_MS_MAX);
    timer.unref();
    socket.on('message', receive).once('close', closed);
  });
}

/**
 * Ends a WebSocket that receives what nobody sends before its caller is known. A message that has not ended
 * yet is not delivered: only the bytes of the network show its parts.
 * @param firstBytesMax what the first message may have.
 * @returns a function that ends the watch.
 */
export function watchStranger(
  socket: WebSocket,
  { socket: network }: Pick<IncomingMessage, 'socket'>,
  firstBytesMax = EARLY_BYTES_MAX,
): () => void {
  const frames = watchEarlyFrames({ first: firstBytesMax, all: EARLY_BYTES_MAX });
  const look = (chunk: Buffer): void => {
    if (frames(chunk) === undefined) return;
    network.off('data', look);
    socket.terminate();
    // `ws` is given this piece too, and finds no frame in it.
    chunk.fill(0xff);
  };
  // Before `ws`, which would keep the parts.
  network.prependListener('data', look);
  return () => {
    network.off('data', look);
  };
}

/** The token in the connection parameters; undefined for any other message. */
function tokenIn(text: string): string | undefined {
  if (text.length > TOKEN_MESSAGE_BYTES_MAX) return undefined;
  const message = jsonOf(text) as { method?: unknown; data?: { token?: unknown } | null } | null;
  const token = message?.method === 'connectionParams' ? message.data?.token : undefined;
  return typeof token === 'string' ? token : undefined;
}

/** A message as text. `ws` gives whole messages as one buffer. */
export function textOf(data: RawData): string {
  return Buffer.isBuffer(data) ? data.toString('utf8') : '';
}
