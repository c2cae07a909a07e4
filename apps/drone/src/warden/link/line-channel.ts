import type net from 'node:net';

/** Reads and writes one JSON object per line on a socket. */
export interface LineChannel {
  /** Whether the message was handed to the system; false once the connection has ended. */
  send(message: unknown): boolean;
  close(): void;
  /** Ends the connection without waiting for what is under way. */
  destroy(): void;
}

/**
 * Calls `onLine` for every whole line. A line of more than `lengthMax` UTF-16 units ends the
 * connection: the other side does not speak this protocol.
 */
export function lineChannel(
  socket: net.Socket,
  { lengthMax, onLine }: { lengthMax: number; onLine: (line: string) => void },
): LineChannel {
  let parts: string[] = [];
  let partsLength = 0;
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    const lines = chunk.split('\n');
    for (const [index, piece] of lines.entries()) {
      parts.push(piece);
      partsLength += piece.length;
      if (partsLength > lengthMax) {
        socket.destroy();
        return;
      }
      if (index === lines.length - 1) break;
      const line = parts.join('');
      parts = [];
      partsLength = 0;
      onLine(line);
    }
  });

  return {
    send: (message) => {
      if (!socket.writable) return false;
      socket.write(`${JSON.stringify(message)}\n`);
      return true;
    },
    close: () => socket.end(),
    destroy: () => socket.destroy(),
  };
}
