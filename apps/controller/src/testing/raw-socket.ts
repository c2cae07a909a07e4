import { once } from 'node:events';
import { waitUntil } from '@leasehold/testing';
import { onTestFinished } from 'vitest';
import { WebSocket, type ClientOptions } from 'ws';
import type { TestController } from './test-controller.ts';

/** A message of the controller. */
export interface Reply {
  readonly id: number | null;
  readonly result?: { data: unknown };
  readonly error?: { message: string; data: { leaseholdCode: string; retryable: boolean } };
}

type Method = 'query' | 'mutation' | 'subscription';

/** A WebSocket without a client library. */
export interface RawSocket {
  readonly socket: WebSocket;
  readonly replies: Reply[];
  /** The code that the socket was closed with, once it was. */
  readonly closedWith: () => number | undefined;
  /** Sends a call without waiting for a reply. */
  send(id: number, method: Method, path: string, input?: unknown): void;
  ask(id: number, method: Method, path: string, input?: unknown): Promise<Reply>;
  /** The replies to a call, oldest first. */
  repliesTo(id: number): Reply[];
}

/** Speaks the protocol by hand, as a client in another language would. */
export async function openSocket(
  on: TestController,
  secret: string | undefined,
  options: ClientOptions = {},
): Promise<RawSocket> {
  const address = `${on.url.replace('http', 'ws')}/trpc?connectionParams=1`;
  const socket = new WebSocket(address, options);
  onTestFinished(() => {
    socket.terminate();
  });
  const replies: Reply[] = [];
  let closeCode: number | undefined;
  socket.on('message', (data: Buffer) => replies.push(JSON.parse(data.toString()) as Reply));
  socket.on('close', (code) => {
    closeCode = code;
  });
  socket.on('error', () => {
    // The close that follows shows what happened.
  });
  await once(socket, 'open');
  const data = secret === undefined ? {} : { token: secret };
  socket.send(JSON.stringify({ method: 'connectionParams', data }));
  const send: RawSocket['send'] = (id, method, path, input) => {
    socket.send(JSON.stringify({ id, method, params: { path, input } }));
  };
  return {
    socket,
    replies,
    closedWith: () => closeCode,
    send,
    async ask(id, method, path, input) {
      send(id, method, path, input);
      return waitUntil(() => replies.find((reply) => reply.id === id));
    },
    repliesTo: (id) => replies.filter((reply) => reply.id === id),
  };
}
