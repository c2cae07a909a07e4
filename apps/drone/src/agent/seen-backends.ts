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
  rmSync,
  writeFileSync,
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
  /** Undefined only until the file was read. */
  #descriptor: number | undefined;
  /** Whether the last line may have been cut short, by a disk that was full. */
  #isTorn = false;

  private constructor(file: string, max: number) {
    this.#file = file;
    this.#max = max;
    const lines = readLines(file);
    this.#byId = new Map(lines.map((line) => [line.backendId, line]));
    this.#lineCount = lines.length;
    this.#begin();
  }

  static open(stateDir: string, max: number = SEEN_BACKENDS_MAX): SeenBackends {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    return new SeenBackends(path.join(stateDir, FILE), max);
  }

  /** A line that was cut short would swallow the next one: begins with what can be read. On a full disk the file stays. */
  #begin(): void {
    try {
      this.#rewrite();
    } catch {
      this.#descriptor = openSync(this.#file, 'a', 0o600);
      this.#isTorn = true;
    }
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

  /**
   * Writes a mark down. Only `started` is sure to be on the disk when this returns. `never` may be lost: what is
   * refused has no key any more, and nothing is started before its key is renewed.
   * @throws {Error} when `started` cannot be written as a whole; then it is not known here either.
   */
  mark(seen: SeenBackend): void {
    try {
      this.#append(seen);
    } catch (error) {
      this.#isTorn = true;
      if (seen.mark === 'started') throw error;
    }
    this.#byId.delete(seen.backendId);
    this.#byId.set(seen.backendId, seen);
    if (this.#lineCount >= 2 * this.#max) this.#shorten();
  }

  close(): void {
    closeSync(this.#open);
  }

  get #open(): number {
    if (this.#descriptor === undefined) throw new Error('the file is not open');
    return this.#descriptor;
  }

  #append(seen: SeenBackend): void {
    // A line that was cut short must not swallow this one.
    const line = `${this.#isTorn ? '\n' : ''}${JSON.stringify(seen)}\n`;
    // Unlike `writeSync`, this writes all of it or throws.
    writeFileSync(this.#open, line);
    this.#isTorn = false;
    if (seen.mark !== 'done') fsyncSync(this.#open);
    this.#lineCount += 1;
  }

  /** On a full disk the file stays as it is, and the next mark tries again. */
  #shorten(): void {
    try {
      this.#rewrite();
    } catch {
      // It only grows a little longer.
    }
  }

  /** Replaces the file by its newest marks, whole or not at all, and appends to the new one from then on. */
  #rewrite(): void {
    const kept = [...this.#byId.values()].slice(-this.#max);
    const draft = `${this.#file}.new`;
    const descriptor = openSync(draft, 'w', 0o600);
    try {
      writeFileSync(descriptor, kept.map((seen) => `${JSON.stringify(seen)}\n`).join(''));
      fsyncSync(descriptor);
      renameSync(draft, this.#file);
    } catch (error) {
      closeSync(descriptor);
      rmSync(draft, { force: true });
      throw error;
    }
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = descriptor;
    this.#byId.clear();
    for (const seen of kept) this.#byId.set(seen.backendId, seen);
    this.#lineCount = kept.length;
    this.#isTorn = false;
    syncFolder(path.dirname(this.#file));
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
