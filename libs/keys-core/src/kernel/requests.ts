/** The newest request of a key, and how many there are. */
import { LeaseError } from './errors.ts';
import { type Face, FACES, type Resource } from './resource.ts';

interface Entry<Answer> {
  count: number;
  newest: Promise<Answer> | undefined;
  /** Whether the last one that has ended has failed. */
  hasFailed: boolean;
  /** Those that wait for their turn, the first one first; each is told whether it has come. */
  readonly waiting: ((isTurn: boolean) => void)[];
}

/**
 * The requests in progress in this process, by a key: a resource, a reservation. It answers "is
 * somebody already working on this?", so that only one of many callers works and the others use its result.
 */
export class RequestsInProgress<Answer> {
  readonly #entries = new Map<string, Entry<Answer>>();
  readonly #besideMax: number;

  /** @param besideMax how many of a key run at once by {@link runInTurn}, when one has failed */
  constructor(besideMax = 1) {
    this.#besideMax = besideMax;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** The answer of the newest request of the key; undefined without one, or when it fails. */
  async newest(key: string): Promise<Answer | undefined> {
    return this.#entries.get(key)?.newest?.catch(() => undefined);
  }

  /** Waits for the newest request of the key. @returns whether it has failed; false without one. */
  async hasFailed(key: string): Promise<boolean> {
    try {
      await this.#entries.get(key)?.newest;
      return false;
    } catch {
      return true;
    }
  }

  /** Runs a request, which is in progress until it settles. Other requests of the key do not delay it. */
  run(key: string, request: () => Promise<Answer>): Promise<Answer> {
    const entry = this.#entryOf(key);
    entry.count += 1;
    return this.#carryOut(key, entry, request);
  }

  /**
   * Runs a request alone or, since the failure of one says nothing about the others, beside those that run when one has
   * failed; in the order of the calls. One that waits for its turn is not run when another has an answer.
   * @param isBeside whether it has waited for one that has failed
   * @returns undefined when it was not run
   */
  async runInTurn(
    key: string,
    request: () => Promise<Answer>,
    isBeside: boolean,
  ): Promise<{ readonly answer: Answer } | undefined> {
    const entry = this.#entryOf(key);
    if (entry.count < (isBeside || entry.hasFailed ? this.#besideMax : 1)) {
      entry.count += 1;
    } else {
      const isTurn = await new Promise<boolean>((resolve) => entry.waiting.push(resolve));
      if (!isTurn) return undefined;
    }
    return { answer: await this.#carryOut(key, entry, request) };
  }

  /** Joins the newest request of the key and shares its answer or failure; without one, runs this one. */
  share(key: string, request: () => Promise<Answer>): Promise<Answer> {
    return this.#entries.get(key)?.newest ?? this.run(key, request);
  }

  #entryOf(key: string): Entry<Answer> {
    const entry: Entry<Answer> = this.#entries.get(key) ?? {
      count: 0,
      newest: undefined,
      hasFailed: false,
      waiting: [],
    };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Runs a request that has been counted. */
  async #carryOut(
    key: string,
    entry: Entry<Answer>,
    request: () => Promise<Answer>,
  ): Promise<Answer> {
    let mine: Promise<Answer> | undefined;
    try {
      mine = request();
      entry.newest = mine;
      const answer = await mine;
      entry.hasFailed = false;
      return answer;
    } catch (error) {
      entry.hasFailed = true;
      throw error;
    } finally {
      if (entry.newest === mine) entry.newest = undefined;
      entry.count -= 1;
      this.#tellWaiting(entry);
      if (entry.count === 0) this.#entries.delete(key);
    }
  }

  #tellWaiting(entry: Entry<Answer>): void {
    const { hasFailed, waiting } = entry;
    if (!hasFailed) for (const tell of waiting.splice(0)) tell(false);
    while (waiting.length > 0 && entry.count < this.#besideMax) {
      // Counted here, so that no newcomer takes its turn.
      entry.count += 1;
      waiting.shift()?.(true);
    }
  }
}

/** Puts an entry at the end of a map, whose oldest one goes when there would be more than `max`. */
export function keepNewest<Key, Value>(
  map: Map<Key, Value>,
  max: number,
  [key, value]: readonly [Key, Value],
): void {
  map.delete(key);
  const [oldest] = map.keys();
  if (oldest !== undefined && map.size >= max) map.delete(oldest);
  map.set(key, value);
}

/**
 * What is recorded about an idempotency key: one key stands for one request, on every face, and has one
 * answer. The fingerprint shows whether a later request with the key is the same one.
 */

/** The record of an idempotency key. */
export interface RecordedRequest {
  /** Of its grant or its ticket; null when it was given up before it came, and for a refusal. */
  readonly leaseId: string | null;
  /** Its answer; null for a grant of a lease, and while it waits. */
  readonly answer: unknown;
  /** Null when it was given up before it came. */
  readonly face: Face | null;
  /** Of the whole request; null when it was given up before it came. */
  readonly fingerprint: string | null;
}

/** A request that carries an idempotency key. */
export interface IdempotentRequest extends Resource {
  /** Of everything that the request asks for, and of nothing that a retry may change. */
  readonly fingerprint: string;
}

const SEPARATOR = '\u001f';

/** A resource as one text; no part of it can contain the separator. */
export function resourceText({ face, namespace, name }: Resource): string {
  return [face, namespace, name].join(SEPARATOR);
}

/** The answer of a request that was given up; the face is that of the call that gave it up. */
export function givenUp(face: Face): { readonly outcome: 'cancelled'; readonly face: Face } {
  return { outcome: 'cancelled', face };
}

/** @throws {LeaseError} `request.idempotency_reused` when the key stands for another request. */
export function assertSameRequest(record: RecordedRequest, request: IdempotentRequest): void {
  if (!isSameRequest(record, request)) throw new LeaseError('request.idempotency_reused');
}

/** Whether the key was used on this face, or may have been. */
export function isOfFace(record: RecordedRequest, face: Face): boolean {
  const recorded = faceOf(record);
  return recorded === undefined || recorded === face;
}

function isSameRequest(record: RecordedRequest, request: IdempotentRequest): boolean {
  if (record.fingerprint !== null) return record.fingerprint === request.fingerprint;
  // It was given up before it came.
  return isOfFace(record, request.face);
}

function faceOf({ face, answer }: RecordedRequest): Face | undefined {
  if (face !== null) return face;
  if (typeof answer !== 'object' || answer === null || !('face' in answer)) return undefined;
  return FACES.find((one) => one === answer.face);
}
