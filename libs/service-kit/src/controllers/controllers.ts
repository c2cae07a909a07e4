/**
 * Several controllers of one database: their addresses, as people write them (`https://a,https://b`), and
 * which of them is asked.
 */
import { ControllerChoice, NoControllerAnswers } from './controller-choice.ts';

export { failuresText, firstCauseOf, type ConnectionFailures } from './connection-failures.ts';

/** More would only be more to pass over. */
const CONTROLLER_URLS_MAX = 16;

/** The addresses of a list, in its order, without slashes at their ends. */
export function controllerUrlsOf(given: string | readonly string[]): string[] {
  const entries = typeof given === 'string' ? given.split(',') : given;
  return entries.map((entry) => entry.trim().replace(/\/+$/u, ''));
}

/**
 * What is wrong with a list of addresses, and undefined when nothing is. Entries are named by their
 * place in the list and not repeated: an address may hold a password.
 */
export function controllerUrlsProblem(given: string | readonly string[]): string | undefined {
  // Callers without a compiler pass what the environment lacks, or a `URL`.
  const isText =
    typeof given === 'string' ||
    (Array.isArray(given) && given.every((entry) => typeof entry === 'string'));
  if (!isText) return 'must be a string, or a list of strings';
  const urls = controllerUrlsOf(given);
  if (urls.length === 0 || urls.length > CONTROLLER_URLS_MAX) {
    return `must be 1 to ${String(CONTROLLER_URLS_MAX)} addresses of controllers`;
  }
  const wrong = urls.findIndex((url) => !isControllerUrl(url));
  if (wrong >= 0) {
    const what = urls.length === 1 ? 'must be' : `entry ${String(wrong + 1)} of the list must be`;
    return `${what} an http:// or https:// URL, without a query or a password; several are separated by commas`;
  }
  const again = urls.findIndex((url, index) => urls.indexOf(url) < index);
  if (again >= 0) return `entry ${String(again + 1)} of the list is a duplicate`;
  return undefined;
}

function isControllerUrl(text: string): boolean {
  // A host name may contain a comma, so two addresses in one entry of an array would pass as one.
  if (text.includes(',') || !URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  const extra = `${username}${password}${search}${hash}`;
  // `fetch` takes no address with credentials, and repeats it in its error.
  return ['http:', 'https:'].includes(protocol) && extra === '';
}

/** The controller that was asked fell silent, and another one is asked from now on. */
export class ControllerSilent extends Error {
  override readonly name = 'ControllerSilent';
}

/** `fetch` of a path, from any controller that answers. */
export type ControllerFetch = (path: string, init?: RequestInit) => Promise<Response>;

/** Codes that mean that no connection was made, so that nothing was sent. */
export const NEVER_CONNECTED: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Codes of a certificate that was refused, and of a peer that does not speak TLS: nothing was sent either. */
const NEVER_SECURED =
  /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_CERT|DEPTH_ZERO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH$|INVALID_CA$|INVALID_PURPOSE$|ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|TLSV1_ALERT_PROTOCOL_VERSION)$)/u;

/** Whether the error of `fetch` means that no connection was made: nothing was sent. */
export function wasNeverSent(thrown: unknown): boolean {
  const reason: unknown = thrown instanceof Error ? thrown.cause : undefined;
  if (!(reason instanceof Error)) return false;
  // `fetch` connects to no port that browsers block, such as 1, and gives that no code.
  if (!('code' in reason)) return reason.message === 'bad port';
  const code = String(reason.code);
  return NEVER_CONNECTED.has(code) || NEVER_SECURED.test(code);
}

/** How long a connection may take to be made; `fetch` itself waits for ten seconds. */
const CONNECT_MS_MAX = 2_000;

let prompt: RequestInit | undefined;

/**
 * The option with which `fetch` fails early where nobody answers. It is made of the agent inside of
 * Node's `fetch`; a process that has set another one, such as one for a proxy, keeps that.
 */
function connectingPromptly(): RequestInit {
  // Reading it loads `fetch`, and its agent with it.
  void globalThis.Response;
  const agent = (globalThis as Record<symbol, unknown>)[Symbol.for('undici.globalDispatcher.1')];
  const Agent = agent?.constructor as (new (options: object) => object) | undefined;
  if (Agent?.name !== 'Agent') return {};
  // The types of browsers, with which this is checked too, do not know the option.
  return (prompt ??= {
    dispatcher: new Agent({ connect: { timeout: CONNECT_MS_MAX } }),
  } as RequestInit);
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
    const stop = choice.watch(url, () =>
      silent.abort(new ControllerSilent('the controller stopped answering')),
    );
    try {
      const signals = [init.signal ?? undefined, silent.signal].filter((signal) => signal != null);
      const response = await fetch(`${url}${path}`, {
        ...init,
        ...connectingPromptly(),
        signal: AbortSignal.any(signals),
      });
      choice.answered(url, response.status);
      return response;
    } finally {
      stop();
    }
  }

  return async (path, init = {}) => {
    const mayRepeat = (init.method ?? 'GET') === 'GET';
    const failures = new Map<string, unknown>();
    for (let tries = 1; ; tries += 1) {
      const url = await chosen(choice);
      try {
        return await once(url, path, init);
      } catch (error) {
        if (init.signal?.aborted === true) throw error;
        choice.passOver(url);
        failures.set(url, error);
        const isUnsent = wasNeverSent(error);
        if (tries < choice.count && (mayRepeat || isUnsent)) continue;
        throw isUnsent ? notConnected(new NoControllerAnswers(failures)) : error;
      }
    }
  };
}

/** Throws errors in the form of `fetch`, so that callers handle only one form. */
async function chosen(choice: ControllerChoice): Promise<string> {
  try {
    return await choice.choose();
  } catch (cause) {
    throw notConnected(cause);
  }
}

function notConnected(cause: unknown): TypeError {
  return new TypeError('fetch failed', { cause });
}
