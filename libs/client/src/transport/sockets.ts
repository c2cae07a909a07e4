/** The WebSockets of one client. */
import { WebSocket, type ClientOptions } from 'ws';
import { messageParts } from './message-parts.ts';

const CLOSE_MS_MAX = 500;

const QUICK_CLOSING: ClientOptions & { closeTimeout: number } = {
  closeTimeout: CLOSE_MS_MAX,
  perMessageDeflate: false,
};

/**
 * A socket that does not trust its peer: on a dead link a close handshake is never answered, and
 * would hold up the next connection for half a minute. All calls of one turn of the event loop,
 * which tRPC joins into one message, are sent in parts where a controller would refuse the whole.
 */
class QuickClosingWebSocket extends WebSocket {
  constructor(address: string | URL, handshakeMs: number) {
    super(address, { ...QUICK_CLOSING, handshakeTimeout: handshakeMs });
  }

  override send(data: string): void {
    for (const part of messageParts(data)) super.send(part);
  }
}

export interface SocketsOptions {
  readonly handshakeMs: number;
  readonly onConnection: ((state: 'open' | 'closed') => void) | undefined;
  /** An address could not be connected to. */
  readonly onFailure: (address: string, error: Error) => void;
}

export interface Sockets {
  /** For tRPC: what it makes with `new` is a socket of these. */
  readonly WebSocket: typeof globalThis.WebSocket;
  /** Closes all at once, also those that are not open yet. */
  terminate(): void;
}

/**
 * Sockets that report each opening, and the closing of the last one. When a connection is replaced, the
 * new one opens before the old one has closed: the last report would be a wrong `closed`.
 */
export function createSockets({ handshakeMs, onConnection, onFailure }: SocketsOptions): Sockets {
  const sockets = new Set<WebSocket>();
  let openCount = 0;
  const Socket = class extends QuickClosingWebSocket {
    constructor(address: string | URL) {
      super(address, handshakeMs);
      const fail = (error: Error): void => onFailure(String(address), error);
      sockets.add(this);
      this.once('error', fail);
      this.once('close', () => sockets.delete(this));
      this.once('open', () => {
        this.off('error', fail);
        openCount += 1;
        onConnection?.('open');
        this.once('close', () => {
          openCount -= 1;
          if (openCount === 0) onConnection?.('closed');
        });
      });
    }
  };
  return {
    WebSocket: Socket as unknown as typeof globalThis.WebSocket,
    terminate() {
      for (const socket of sockets) socket.terminate();
    },
  };
}
