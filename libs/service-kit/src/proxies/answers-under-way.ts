import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Bounds how many requests of one socket are under way: clients send one after the other, and one read of a
 * socket can bring thousands.
 *
 * When a socket closes, all of its answers are over. Node ends only the one that is being sent: those behind it would
 * never emit `close`, and whatever waits for that would be kept.
 * @returns begins a request. False: its socket had too many, and is closed.
 */
export function boundAnswers(
  max: number,
): (request: Pick<IncomingMessage, 'socket'>, response: ServerResponse) => boolean {
  const answers = new WeakMap<Socket, Set<ServerResponse>>();
  const answersOf = (socket: Socket): Set<ServerResponse> => {
    const known = answers.get(socket);
    if (known !== undefined) return known;
    const own = new Set<ServerResponse>();
    answers.set(socket, own);
    socket.once('close', () => {
      for (const response of own) if (response.socket === null) end(response);
    });
    return own;
  };
  return ({ socket }, response) => {
    const own = answersOf(socket);
    if (own.size >= max) {
      socket.destroy();
      return false;
    }
    own.add(response);
    response.once('close', () => own.delete(response));
    return true;
  };
}

function end(response: ServerResponse): void {
  response.destroy();
  response.emit('close');
}
