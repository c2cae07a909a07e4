import { createWriteStream, renameSync, rmSync, statSync, type WriteStream } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';

/** What a backend may write: this many files of this size, for each of its two streams. */
const LOG_FILE_BYTES_MAX = 1_048_576;
const LOG_FILES_MAX = 3;

/** Where a drone with this state folder keeps its backends' output: `<backend>.stdout.log` and `.stderr.log`. */
export function logFolderOf(stateDir: string): string {
  return path.join(path.resolve(stateDir), 'logs');
}

/**
 * A file that a backend's output goes to, rotated to `.1`, `.2` and dropped after that. Writing
 * never delays a deadline: it is asynchronous, and output that cannot be written (a full disk) is
 * dropped.
 */
export class OutputLog extends Writable {
  readonly #file: string;
  readonly #bytesMax: number;
  #stream: WriteStream | undefined;
  #bytes = 0;

  constructor(file: string, bytesMax: number = LOG_FILE_BYTES_MAX) {
    super();
    this.#file = file;
    this.#bytesMax = bytesMax;
    this.#open();
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    if (this.#bytes > 0 && this.#bytes + chunk.length > this.#bytesMax) this.#rotate();
    this.#bytes += chunk.length;
    if (this.#stream === undefined) {
      done();
      return;
    }
    this.#stream.write(chunk, () => done());
  }

  override _final(done: () => void): void {
    if (this.#stream === undefined) done();
    else this.#stream.end(done);
  }

  #open(): void {
    const stream = createWriteStream(this.#file, { flags: 'a', mode: 0o600 });
    stream.on('error', () => {
      this.#stream = undefined;
    });
    this.#stream = stream;
    this.#bytes = Math.max(sizeOf(this.#file), 0);
  }

  #rotate(): void {
    this.#stream?.end();
    this.#stream = undefined;
    try {
      rmSync(`${this.#file}.${String(LOG_FILES_MAX - 1)}`, { force: true });
      for (let age = LOG_FILES_MAX - 2; age >= 0; age -= 1) {
        const older = `${this.#file}.${String(age + 1)}`;
        renameIfThere(age === 0 ? this.#file : `${this.#file}.${String(age)}`, older);
      }
      this.#open();
    } catch {
      // The disk refuses: the backend goes on without a log rather than not at all.
      this.#stream = undefined;
    }
    this.#bytes = 0;
  }
}

function renameIfThere(from: string, to: string): void {
  if (sizeOf(from) >= 0) renameSync(from, to);
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? -1;
}
