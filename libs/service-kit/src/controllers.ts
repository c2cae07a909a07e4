/**
 * Several controllers of one database: their addresses, as people write them (`https://a,https://b`), and
 * which of them is asked.
 */

/** More would only be more to pass over. */
const CONTROLLER_URLS_MAX = 16;

/**
 * The addresses of a list, in its order, without slashes at their ends, and without the path of the API: who has
 * seen `http://a/trpc` means the controller at `http://a`.
 */
export function controllerUrlsOf(given: string | readonly string[]): string[] {
  const entries = typeof given === 'string' ? given.split(',') : given;
  return entries.map((entry) =>
    entry
      .trim()
      .replace(/\/+$/u, '')
      .replace(/\/+trpc$/u, ''),
  );
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
      const url = await chosen(choice, init.signal ?? undefined);
      try {
        return await once(url, path, init);
      } catch (error) {
        if (init.signal?.aborted === true) throw error;
        choice.passOver(url);
        failures.set(url, error);
        const isUnsent = wasNeverSent(error);
        if (tries < choice.count && (mayRepeat || isUnsent)) continue;
        throw isUnsent ? connectionError(new NoControllerAnswers(failures)) : error;
      }
    }
  };
}

/** Throws errors in the form of `fetch`, so that callers handle only one form. */
async function chosen(choice: ControllerChoice, signal?: AbortSignal): Promise<string> {
  try {
    return await choice.choose(signal);
  } catch (cause) {
    if (signal?.aborted === true) throw cause;
    throw connectionError(cause);
  }
}

function connectionError(cause: unknown): TypeError {
  return new TypeError('fetch failed', { cause });
}

// Which of several controllers is asked over HTTP. One is kept as long as it answers. An address is used
// once it has answered `/healthz`, and must answer again after it was passed over. While a call waits
// for its answer and nothing at all arrives from the address, it is asked for a sign of life: a machine
// that is cut off says nothing, and a call that is in line for two minutes looks the same from outside.
//
// With one address there is no choice: no sign of life is requested, and calls fail with their own errors.

/** After so long without anything from an address, it is asked for a sign of life. */
const SILENCE_MS = 500;
/** How long it may take to give one. With {@link SILENCE_MS}: how long a silent one is trusted. */
const SIGN_OF_LIFE_MS_MAX = 1_000;

/** Statuses of a controller that stops or is without its database, and of a proxy without either. */
export const AWAY_STATUSES: ReadonlySet<number> = new Set([502, 503, 504]);

/** No address of a controller answers: nothing was sent. */
export class NoControllerAnswers extends Error {
  override readonly name = 'NoControllerAnswers';
  /** As the operating system names it, for callers that distinguish failures by their code. */
  readonly code = 'EHOSTUNREACH';
  readonly failures: ConnectionFailures;

  constructor(failures: ConnectionFailures) {
    super(failuresText(failures), { cause: [...failures.values()][0] });
    this.failures = failures;
  }
}

export class ControllerChoice {
  readonly #urls: readonly string[];
  readonly #heardAtMs = new Map<string, number>();
  readonly #asking = new Map<string, Promise<boolean>>();
  readonly #failures = new Map<string, unknown>();
  #index = 0;
  #isKnown: boolean;
  #choosing: Promise<string> | undefined;
  /** How many calls wait for it: without one, no further address is asked. */
  #waitingCount = 0;

  /** `urls`: at least one, tried in this order. */
  constructor(urls: readonly string[]) {
    this.#urls = urls;
    this.#isKnown = urls.length === 1;
  }

  get count(): number {
    return this.#urls.length;
  }

  get #current(): string {
    return this.#urls[this.#index] ?? '';
  }

  /**
   * The address to ask now.
   * @throws {NoControllerAnswers} after {@link SIGN_OF_LIFE_MS_MAX} for each address, at most; the reason of the signal.
   */
  async choose(signal?: AbortSignal): Promise<string> {
    if (this.#isKnown) return this.#current;
    this.#choosing ??= this.#firstThatAnswers().finally(() => {
      this.#choosing = undefined;
    });
    this.#waitingCount += 1;
    try {
      return await unlessAborted(this.#choosing, signal);
    } finally {
      this.#waitingCount -= 1;
    }
  }

  /** Records an answer of an address: any is a sign of life, but after some the next address is used. */
  answered(url: string, status: number): void {
    this.#heardAtMs.set(url, performance.now());
    if (AWAY_STATUSES.has(status)) this.passOver(url);
  }

  /** Moves on from an address, unless that has happened since. */
  passOver(url: string): void {
    if (url !== this.#current || this.count === 1) return;
    this.#index = (this.#index + 1) % this.count;
    this.#isKnown = false;
  }

  /**
   * Watches an address while a call to it has no answer. When it is silent, it is passed over and
   * `onSilent` is called once. Returns a function that stops it.
   */
  watch(url: string, onSilent: () => void): () => void {
    if (this.count === 1) return () => undefined;
    const sentAtMs = performance.now();
    let timer: NodeJS.Timeout | undefined;
    let isOver = false;
    const look = (): void => {
      const heardAtMs = Math.max(sentAtMs, this.#heardAtMs.get(url) ?? 0);
      const leftMs = heardAtMs + SILENCE_MS - performance.now();
      if (leftMs > 0) {
        timer = setTimeout(look, leftMs);
        return;
      }
      void this.#answers(url).then((isAlive) => {
        if (isOver) return;
        if (isAlive) {
          look();
          return;
        }
        this.passOver(url);
        onSilent();
      });
    };
    look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }

  async #firstThatAnswers(): Promise<string> {
    for (let tried = 0; tried < this.count; tried += 1) {
      const url = this.#current;
      if (await this.#answers(url)) {
        // While it was asked, another call may have found it silent.
        if (url === this.#current) this.#isKnown = true;
        return url;
      }
      this.passOver(url);
      if (this.#waitingCount === 0) break;
    }
    throw new NoControllerAnswers(new Map(this.#failures));
  }

  /** Asks for a sign of life, once at a time. */
  #answers(url: string): Promise<boolean> {
    const asking =
      this.#asking.get(url) ??
      failureOf(url)
        .then((failure) => {
          if (failure === undefined) {
            this.#heardAtMs.set(url, performance.now());
            this.#failures.delete(url);
          } else this.#failures.set(url, failure);
          return failure === undefined;
        })
        .finally(() => this.#asking.delete(url));
    this.#asking.set(url, asking);
    return asking;
  }
}

/** The promise, or the reason of a signal that aborts before. */
function unlessAborted<Value>(promise: Promise<Value>, signal?: AbortSignal): Promise<Value> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
    if (signal.aborted) abort();
  });
}

/** Why an address gives no sign of life; undefined if it does. */
async function failureOf(url: string): Promise<unknown> {
  try {
    const response = await fetch(`${url}/healthz`, {
      signal: AbortSignal.timeout(SIGN_OF_LIFE_MS_MAX),
    });
    await response.body?.cancel();
    return AWAY_STATUSES.has(response.status)
      ? new Error(`HTTP status ${String(response.status)}`)
      : undefined;
  } catch (error) {
    return error;
  }
}

// Why no connection was made, by address: for people who look for what to change.

/** What was thrown, or what an address answered, by address. */
export type ConnectionFailures = ReadonlyMap<string, unknown>;

/** A chain of causes is followed this far. */
const CAUSES_MAX = 8;

/** `https://a: certificate has expired (CERT_HAS_EXPIRED); https://b: …`, the first cause of each. */
export function failuresText(failures: ConnectionFailures): string {
  return [...failures].map(([address, thrown]) => failureText(address, thrown)).join('; ');
}

function failureText(address: string, thrown: unknown): string {
  const place = addressText(address);
  const known = wrongAddressText(thrown);
  return known === undefined ? `${place}: ${causeText(thrown)}` : `${place} ${known}`;
}

/** What answers is something else, such as the console, or what has no `/trpc`. */
export class NotAController extends Error {
  override readonly name = 'NotAController';
  readonly status: number;

  constructor(status: number) {
    super(`HTTP status ${String(status)}, and no answer of a controller`);
    this.status = status;
  }
}

/**
 * What a failure of a WebSocket's handshake says: any answer but that of a proxy without its controller comes from
 * something else.
 */
export function handshakeFailureOf(error: Error): Error {
  const status = Number(/^Unexpected server response: (\d+)$/u.exec(error.message)?.[1] ?? NaN);
  if (Number.isNaN(status)) return error;
  return AWAY_STATUSES.has(status)
    ? new Error(`HTTP status ${String(status)}`)
    : new NotAController(status);
}

/** Whether every address is that of something else: no later try succeeds. */
export function areWrongAddresses(failures: ConnectionFailures): boolean {
  return failures.size > 0 && [...failures.values()].every((thrown) => wrongAddressText(thrown));
}

const NO_TLS_CODE = /^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/u;
const NO_TLS_TEXT = /:(?:wrong version number|packet length too long):/u;

/** What to say of an address where something else answers; undefined for other failures. */
function wrongAddressText(thrown: unknown): string | undefined {
  const cause = firstCauseOf(thrown);
  if (!(cause instanceof Error)) return undefined;
  const code = 'code' in cause ? String(cause.code) : '';
  // What OpenSSL says of it begins with the number of a thread.
  if (NO_TLS_CODE.test(code) || NO_TLS_TEXT.test(cause.message)) {
    return 'does not speak TLS: use http://';
  }
  if (code.startsWith('HPE_')) {
    return 'answers, but does not speak HTTP: it is no Leasehold controller';
  }
  if (!(cause instanceof NotAController)) return undefined;
  return `answers, but is no Leasehold controller (HTTP status ${String(cause.status)})`;
}

/** What happened first: the last in the chain of causes. */
export function firstCauseOf(thrown: unknown): unknown {
  let cause = thrown;
  for (let followed = 0; followed < CAUSES_MAX; followed += 1) {
    // One address may stand for several of the network, tried one after the other.
    const next: unknown =
      cause instanceof AggregateError
        ? (cause.errors as unknown[])[0]
        : cause instanceof Error
          ? cause.cause
          : undefined;
    if (!(next instanceof Error)) return cause;
    cause = next;
  }
  return cause;
}

function causeText(thrown: unknown): string {
  const cause = firstCauseOf(thrown);
  if (!(cause instanceof Error)) return String(cause);
  const message = (cause.message === '' ? cause.name : cause.message).split('\n', 1)[0] ?? '';
  // Without the credentials of a URL.
  const plain = message.replaceAll(/\/\/[^/\s@]*@/gu, '//');
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
  return code === '' || plain.includes(code) ? plain : `${plain} (${code})`;
}

/** Without what may be secret in it. */
function addressText(address: string): string {
  if (!URL.canParse(address)) return 'an address';
  const { protocol, host, pathname } = new URL(address);
  const path = pathname.replace(/(\/trpc)?\/*$/u, '');
  return `${protocol.replace(/^ws/u, 'http')}//${host}${path}`;
}
