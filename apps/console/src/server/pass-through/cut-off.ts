import type { ServerResponse } from 'node:http';

/**
 * Cuts an answer off so that no client takes the part for the whole. Its connection is reset: over
 * HTTP/1.0 an answer is complete when its connection ends, so a normal end would not show the loss.
 */
export function cutOff(response: ServerResponse): void {
  response.socket?.resetAndDestroy();
  response.destroy();
}
