/**
 * The memory of a drone: every backend that it was ever told of, so that each is started at most
 * once, however often the start is requested and however often the agent dies in between. A line is on the
 * disk before the warden is asked to start anything.
 *
 * The file is append-only, one JSON object per line. A line that was cut short by a crash is the
 * last one, and says nothing: its backend had not been started. Old lines are dropped when the file
 * has grown to twice its bound; a duplicate of a request that is so many requests old is refused by
 * its deadlines.
 */
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';

/** `started`: it may have been started on this clock. `never`: it must not be. `done`: it is over. */
export type BackendMark = 'started' | 'never' | 'done';

export interface SeenBackend {
  readonly backendId: string;
  readonly mark: BackendMark;
  readonly clockId: string;
}

/** How many backends are kept when the file is rewritten, which is at twice as many lines. */
const SEEN_BACKENDS_MAX = 20_000;
const FILE = 'backends.jsonl';

export class SeenBackends {
  readonly #file: string;
  readonly #max: number;
  readonly #byId: Map<string, SeenBackend>;
  #lineCount: number;
  #descriptor: number;

  private constructor(file: string, max: number) {
    this.#file = file;
    this.#max = max;
    const lines = readLines(file);
    this.#byId = new Map(lines.map((line) => [line.backendId, line]));
    this.#lineCount = lines.length;
    // A line that was cut short would swallow the next one: begin with what can be read.
    this.#descriptor = this.#rewrite();
  }

  static open(stateDir: string, max: number = SEEN_BACKENDS_MAX): SeenBackends {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    return new SeenBackends(path.join(stateDir, FILE), max);
  }

  get(backendId: string): SeenBackend | undefined {
    return this.#byId.get(backendId);
  }

  /** Those that may have been started on a clock and are not known to be over. */
  unfinished(clockId: string): string[] {
    return [...this.#byId.values()]
      .filter((seen) => seen.mark === 'started' && seen.clockId === clockId)
      .map((seen) => seen.backendId);
  }

  /** Writes a mark down. It is on the disk when this returns, except for `done`, which may be lost. */
  mark(seen: SeenBackend): void {
    this.#byId.delete(seen.backendId);
    this.#byId.set(seen.backendId, seen);
    writeSync(this.#descriptor, `${JSON.stringify(seen)}\n`);
    if (seen.mark !== 'done') fsyncSync(this.#descriptor);
    this.#lineCount += 1;
    if (this.#lineCount >= 2 * this.#max) {
      closeSync(this.#descriptor);
      this.#descriptor = this.#rewrite();
    }
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  /** Replaces the file by its newest marks, whole or not at all. Returns it open for appending. */
  #rewrite(): number {
    const kept = [...this.#byId.values()].slice(-this.#max);
    this.#byId.clear();
    for (const seen of kept) this.#byId.set(seen.backendId, seen);
    const draft = `${this.#file}.new`;
    const descriptor = openSync(draft, 'w', 0o600);
    writeSync(descriptor, kept.map((seen) => `${JSON.stringify(seen)}\n`).join(''));
    fsyncSync(descriptor);
    closeSync(descriptor);
    renameSync(draft, this.#file);
    syncFolder(path.dirname(this.#file));
    this.#lineCount = kept.length;
    return openSync(this.#file, 'a', 0o600);
  }
}

/** A renamed file is there after a crash only once its folder has been written. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}

function readLines(file: string): SeenBackend[] {
  let content: string;
  try {
    content = readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
  return content.split('\n').flatMap((line) => {
    const seen = decode(line);
    return seen === undefined ? [] : [seen];
  });
}

function decode(line: string): SeenBackend | undefined {
  try {
    const { backendId, mark, clockId } = JSON.parse(line) as Partial<SeenBackend>;
    if (typeof backendId !== 'string' || typeof clockId !== 'string') return undefined;
    if (mark !== 'started' && mark !== 'never' && mark !== 'done') return undefined;
    return { backendId, mark, clockId };
  } catch {
    return undefined;
  }
}
