import type { ServerResponse } from 'node:http';

/**
 * Ends an answer so that nobody takes what there is of it for the whole. Its connection is reset:
 * over HTTP/1.0 an answer is over when its connection is, so that one that merely ended would do.
 */
export function cutOff(response: ServerResponse): void {
  response.socket?.resetAndDestroy();
  response.destroy();
}
