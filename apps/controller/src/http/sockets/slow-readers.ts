import type { ServerResponse } from 'node:http';
import { once } from '../../once.ts';

/** An answer of which nothing was read for this long is given up, with its connection. */
export const STALL_MS_MAX = 15_000;

/**
 * Ends the connection of a caller that does not read its answer.
 * @param whenOver called once, when the answer was handed to the network or the connection is gone.
 */
export function watchAnswer(response: ServerResponse, whenOver: () => void): void {
  // The timeout restarts whenever the network takes a part of the answer.
  response.setTimeout(STALL_MS_MAX, () => {
    response.destroy();
  });
  const finish = once(whenOver);
  response.once('finish', finish).once('close', finish);
}
