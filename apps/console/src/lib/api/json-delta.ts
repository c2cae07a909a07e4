/**
 * What has changed from one JSON value to another, as JSON: the console's server sends it in place of an answer
 * of which the browser has an earlier one. Lists are compared element by element, so that one that has moved is
 * named by its old place. Pure. What does not change keeps its identity.
 */

/**
 * How to make a value from an earlier one.
 *
 * - `{ v }`: it is `v`.
 * - `{ o }`: the same object, with these of its fields changed.
 * - `{ a }`: a list of pieces: `[first, count]` elements of the earlier list, a new element `{ v }`, or
 *   `{ i, d }`: the element that was at `i`, changed.
 */
type JsonDelta =
  | { readonly v: unknown }
  | { readonly o: Readonly<Record<string, JsonDelta>> }
  | { readonly a: readonly Piece[] };

type Piece =
  | readonly [first: number, count: number]
  | { readonly v: unknown }
  | { readonly i: number; readonly d: JsonDelta };

type Fields = Readonly<Record<string, unknown>>;

/** Below this depth a value is compared and sent as a whole. */
const DEPTH_MAX = 6;
/** A changed element is sent as a change if that is shorter than this part of the whole element. */
const WORTH_IT = 0.7;

/** Undefined if nothing has changed. */
export function deltaBetween(before: unknown, after: unknown, depth = 0): JsonDelta | undefined {
  if (before === after) return undefined;
  if (depth < DEPTH_MAX) {
    if (Array.isArray(before) && Array.isArray(after)) return listDelta(before, after, depth);
    if (isFields(before) && isFields(after) && haveSameFields(before, after)) {
      return fieldsDelta(before, after, depth);
    }
  }
  return JSON.stringify(before) === JSON.stringify(after) ? undefined : { v: after };
}

/** @throws {TypeError} where the value is not the one that the delta begins with. */
export function applyDelta(before: unknown, delta: JsonDelta): unknown {
  if ('v' in delta) return delta.v;
  if ('o' in delta) {
    if (!isFields(before)) throw new TypeError('The delta is of another value.');
    const changed = Object.entries(delta.o).map(([name, each]) => [
      name,
      applyDelta(before[name], each),
    ]);
    return { ...before, ...(Object.fromEntries(changed) as Fields) };
  }
  if (!Array.isArray(before)) throw new TypeError('The delta is of another value.');
  const elements: readonly unknown[] = before;
  return delta.a.flatMap((piece) => {
    if ('v' in piece) return [piece.v];
    if ('i' in piece) return [applyDelta(elements[piece.i], piece.d)];
    return elements.slice(piece[0], piece[0] + piece[1]);
  });
}

/** Only with the same fields in the same order: some answers are shown as they are. */
function haveSameFields(before: Fields, after: Fields): boolean {
  const [names, others] = [Object.keys(before), Object.keys(after)];
  return names.length === others.length && names.every((name, index) => name === others[index]);
}

function fieldsDelta(before: Fields, after: Fields, depth: number): JsonDelta | undefined {
  const changed: [string, JsonDelta][] = [];
  for (const [name, value] of Object.entries(after)) {
    const delta = deltaBetween(before[name], value, depth + 1);
    if (delta !== undefined) changed.push([name, delta]);
  }
  return changed.length === 0 ? undefined : { o: Object.fromEntries(changed) };
}

function listDelta(
  before: readonly unknown[],
  after: readonly unknown[],
  depth: number,
): JsonDelta | undefined {
  const placeOf = new Map(before.map((element, index) => [JSON.stringify(element), index]));
  const texts = after.map((element) => JSON.stringify(element));
  const kept = new Set(texts.map((text) => placeOf.get(text)));
  const pieces: Piece[] = [];
  /** The place after the one that was used last: what has changed in place is there. */
  let next = 0;
  for (const [index, text] of texts.entries()) {
    const place = placeOf.get(text);
    if (place !== undefined) {
      keepElement(pieces, place);
      next = place + 1;
      continue;
    }
    const isFree = next < before.length && !kept.has(next);
    const delta = isFree ? deltaBetween(before[next], after[index], depth + 1) : undefined;
    if (delta !== undefined && JSON.stringify(delta).length < text.length * WORTH_IT) {
      pieces.push({ i: next, d: delta });
      next += 1;
    } else {
      pieces.push({ v: after[index] });
    }
  }
  return isAll(pieces, before.length) ? undefined : { a: pieces };
}

/** Adds an element of the earlier list, to the piece before where it came after that. */
function keepElement(pieces: Piece[], place: number): void {
  const last = pieces.at(-1);
  if (last !== undefined && isKept(last) && last[0] + last[1] === place) {
    pieces[pieces.length - 1] = [last[0], last[1] + 1];
  } else {
    pieces.push([place, 1]);
  }
}

/** Whether the pieces are the earlier list as it was. */
function isAll(pieces: readonly Piece[], length: number): boolean {
  const [first] = pieces;
  if (first === undefined) return length === 0;
  return pieces.length === 1 && isKept(first) && first[0] === 0 && first[1] === length;
}

function isKept(piece: Piece): piece is readonly [number, number] {
  return Array.isArray(piece);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

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

// How the browser asks for what has changed in an answer, and how the console's server answers.

/** Of a request: the tag of the answer that the browser has, or {@link NOTHING}. */
export const HAVE_HEADER = 'x-leasehold-have';
/** A browser without an earlier answer. */
export const NOTHING = 'nothing';
/** Of an answer: what it is called in a later request. */
export const TAG_HEADER = 'x-leasehold-tag';
/** The type of an answer that is a delta to what the browser has; see `json-delta.ts`. */
export const DELTA_TYPE = 'application/vnd.leasehold.delta+json';
