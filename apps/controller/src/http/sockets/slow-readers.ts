import type { ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';
import type { StreamPacer } from '../../fair-use/stream-pacer.ts';
import { once } from '../../once.ts';

/** How often a stream looks whether its caller has read enough, in milliseconds. */
export const UNREAD_POLL_MS = 10;

/** An answer of which nothing was read for this long is given up, with its connection. */
export const STALL_MS_MAX = 15_000;

/**
 * Ends the connection of a caller that does not read its answer.
 * @param whenOver called once, when the answer was handed to the network or the connection is gone.
 */
export function watchAnswer(response: ServerResponse, whenOver: () => void): void {
  if (response.destroyed) {
    whenOver();
    return;
  }
  // The timeout restarts whenever the network takes a part of the answer.
  response.setTimeout(STALL_MS_MAX, () => {
    response.destroy();
  });
  const finish = once(whenOver);
  response.once('finish', finish).once('close', finish);
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
