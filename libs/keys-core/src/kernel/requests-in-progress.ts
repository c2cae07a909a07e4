/** The newest request of a key, and how many there are. */
interface Entry<Answer> {
  count: number;
  newest: Promise<Answer> | undefined;
}

/**
 * The requests in progress in this process, by a key: a resource, a reservation. It answers "is
 * somebody already working on this?", so that only one of many callers works and the others use its result.
 */
export class RequestsInProgress<Answer> {
  readonly #entries = new Map<string, Entry<Answer>>();

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** The answer of the newest request of the key; undefined without one, or when it fails. */
  async newest(key: string): Promise<Answer | undefined> {
    return this.#entries.get(key)?.newest?.catch(() => undefined);
  }

  /** Runs a request, which is in progress until it settles. Other requests of the key do not delay it. */
  async run(key: string, request: () => Promise<Answer>): Promise<Answer> {
    const mine = request();
    const entry = this.#entries.get(key) ?? { count: 0, newest: undefined };
    this.#entries.set(key, entry);
    entry.count += 1;
    entry.newest = mine;
    try {
      return await mine;
    } finally {
      entry.count -= 1;
      if (entry.newest === mine) entry.newest = undefined;
      if (entry.count === 0) this.#entries.delete(key);
    }
  }

  /** Joins the newest request of the key and shares its answer or failure; without one, runs this one. */
  share(key: string, request: () => Promise<Answer>): Promise<Answer> {
    return this.#entries.get(key)?.newest ?? this.run(key, request);
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
