import { DELTA_TYPE, HAVE_HEADER, NOTHING, TAG_HEADER } from './delta-headers.ts';
import { applyDelta, type JsonDelta } from './json-delta.ts';

/** For how many different requests the last answer is kept. */
const ANSWERS_MAX = 40;

interface Known {
  readonly tag: string;
  readonly body: unknown;
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** What tRPC needs of an answer. */
interface Answer {
  readonly ok: boolean;
  readonly status: number;
  json(): Promise<unknown>;
}

/**
 * Queries of which the console's server sends only what has changed since the last answer to the same request.
 * Answers of a server that knows no deltas are taken as they are.
 */
export function createDeltaFetch(send: Fetch): (url: string, init: RequestInit) => Promise<Answer> {
  const answers = new Map<string, Known>();
  return async (url, init) => {
    if (init.method !== 'GET') return send(url, init);
    const known = answers.get(url);
    const headers = new Headers(init.headers);
    headers.set(HAVE_HEADER, known?.tag ?? NOTHING);
    const response = await send(url, { ...init, headers });
    const tag = response.headers.get(TAG_HEADER);
    if (!response.ok || tag === null) return response;
    const said: unknown = await response.json();
    const isDelta = response.headers.get('content-type') === DELTA_TYPE;
    // First of all: after a delta that does not fit, the next request is for everything.
    answers.delete(url);
    const body = isDelta ? bodyOf(known, said) : said;
    answers.set(url, { tag, body });
    const [oldest] = answers.keys();
    if (answers.size > ANSWERS_MAX && oldest !== undefined) answers.delete(oldest);
    return { ok: true, status: response.status, json: () => Promise.resolve(body) };
  };
}

/** Null: nothing has changed. */
function bodyOf(known: Known | undefined, said: unknown): unknown {
  if (known === undefined) throw new TypeError('A delta came to a request for everything.');
  return said === null ? known.body : applyDelta(known.body, said as JsonDelta);
}
