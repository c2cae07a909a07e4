import { ControllerChoice } from './controller-choice.ts';

/** The controller that was asked fell silent, and another one is asked from now on. */
export class ControllerSilent extends Error {
  override readonly name = 'ControllerSilent';
}

/** `fetch` of a path, from any controller that answers. */
export type ControllerFetch = (path: string, init?: RequestInit) => Promise<Response>;

/** Codes that mean that no connection was made, so that nothing was sent. */
const NEVER_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether the error of `fetch` means that no connection was made: nothing was sent. */
export function wasNeverSent(thrown: unknown): boolean {
  const reason: unknown = thrown instanceof Error ? thrown.cause : undefined;
  return reason instanceof Error && 'code' in reason && NEVER_CONNECTED.has(String(reason.code));
}

/**
 * `fetch` over several controllers, see {@link ControllerChoice}. A request that was not sent, or
 * is a GET, is sent to the next one; any other fails, because it may have been carried out.
 * @throws what `fetch` throws; `ControllerSilent` when the answer was lost with its controller; a
 * `TypeError` with the cause `NoControllerAnswers` when none answers.
 */
export function createControllerFetch(urls: readonly string[]): ControllerFetch {
  const choice = new ControllerChoice(urls);

  async function once(url: string, path: string, init: RequestInit): Promise<Response> {
    const silent = new AbortController();
    const stop = choice.watch(url, () => {
      silent.abort(new ControllerSilent('the controller stopped answering'));
    });
    try {
      const signals = [init.signal ?? undefined, silent.signal].filter((signal) => signal != null);
      const response = await fetch(`${url}${path}`, { ...init, signal: AbortSignal.any(signals) });
      choice.answered(url, response.status);
      return response;
    } finally {
      stop();
    }
  }

  return async (path, init = {}) => {
    const mayRepeat = (init.method ?? 'GET') === 'GET';
    for (let tries = 1; ; tries += 1) {
      const url = await chosen(choice);
      try {
        return await once(url, path, init);
      } catch (error) {
        if (init.signal?.aborted === true) throw error;
        choice.passOver(url);
        if (tries >= choice.count || !(mayRepeat || wasNeverSent(error))) throw error;
      }
    }
  };
}

/** Throws errors in the form of `fetch`, so that callers handle only one form. */
async function chosen(choice: ControllerChoice): Promise<string> {
  try {
    return await choice.choose();
  } catch (cause) {
    throw new TypeError('fetch failed', { cause });
  }
}
