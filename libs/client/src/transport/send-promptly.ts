import { TRPCClientError, type TRPCWebSocketClient } from '@trpc/client';

/** What `@trpc/client` has inside of its client of WebSockets, in the version that this library names. */
interface Internals {
  /** Sends what was registered, after a timer. */
  flushOutgoing(message: unknown, callbacks: Callbacks): void;
  readonly activeConnection: { isOpen(): boolean; readonly ws: unknown };
  readonly requestManager: {
    hasOutgoingRequests(): boolean;
    flush(ws: unknown): readonly OutgoingRequest[];
    delete(message: unknown): unknown;
  };
  send(messages: readonly unknown[]): void;
}

interface Callbacks {
  error(error: TRPCClientError<never>): void;
}

interface OutgoingRequest {
  readonly message: unknown;
  readonly callbacks: Callbacks;
}

/**
 * Sends calls as soon as the code that makes them returns, if there is a connection.
 *
 * tRPC waits for a timer before it sends, to join calls. The shortest timer takes a millisecond, which is as
 * long as all the rest of a call, and what should travel together is one call already: see `batches.ts`.
 * tRPC has no option for it. A client of another version, which has none of this inside, is left as it is.
 */
export function sendPromptly(client: TRPCWebSocketClient): void {
  const inside = client as unknown as Internals;
  // oxlint-disable-next-line typescript/unbound-method -- called with its object below
  const { flushOutgoing } = inside;
  if (typeof flushOutgoing !== 'function') return;
  inside.flushOutgoing = (message, callbacks) => {
    if (!inside.activeConnection.isOpen()) {
      flushOutgoing.call(client, message, callbacks);
      return;
    }
    // The call is registered after this returns, and so are those that the same code makes after it.
    queueMicrotask(() => {
      if (!inside.requestManager.hasOutgoingRequests()) return;
      if (inside.activeConnection.isOpen()) sendOutgoing(inside);
      else flushOutgoing.call(client, message, callbacks);
    });
  };
}

function sendOutgoing(inside: Internals): void {
  const requests = inside.requestManager.flush(inside.activeConnection.ws);
  try {
    inside.send(requests.map(({ message }) => message));
  } catch (error) {
    for (const { message, callbacks } of requests) {
      inside.requestManager.delete(message);
      callbacks.error(TRPCClientError.from(error as Error));
    }
  }
}
