import { createWriteStream, readdirSync, rmSync, statSync, type WriteStream } from 'node:fs';
import path from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { Writable } from 'node:stream';

/** What a backend may write: this many files of this size. */
const LOG_FILE_BYTES_MAX = 1_048_576;
const LOG_FILES_MAX = 3;
/** A longer line is kept as several. */
const LINE_LENGTH_MAX = 8_192;
/** How many lines are written before the deadlines of other backends have their turn. */
const LINES_IN_A_TURN = 1_000;
const OFFSET_DIGITS = 15;

/** Where a drone with this state folder keeps its backends' output, in files as {@link logFileOf} names them. */
export function logFolderOf(stateDir: string): string {
  return path.join(path.resolve(stateDir), 'logs');
}

/**
 * The file with the part of a backend's output that begins at `offset`, in bytes from its beginning. Files are never
 * renamed, so a reader that knows a position finds it; names sort by their offsets.
 */
export function logFileOf(folder: string, backendId: string, offset: number): string {
  return path.join(folder, `${backendId}.${String(offset).padStart(OFFSET_DIGITS, '0')}.log`);
}

/** A file with a part of a backend's output. */
export interface LogFile {
  readonly backendId: string;
  readonly offset: number;
  readonly file: string;
}

/** The files of output that are in a folder, those of one backend by their offsets. */
export function logFilesIn(folder: string): LogFile[] {
  return readdirSync(folder)
    .toSorted()
    .flatMap((name) => {
      const [, backendId = '', offset = ''] = /^(.+)\.(\d{15})\.log$/u.exec(name) ?? [];
      if (backendId === '') return [];
      return [{ backendId, offset: Number(offset), file: path.join(folder, name) }];
    });
}

/**
 * The output of one backend: a line `TIME stdout TEXT` or `TIME stderr TEXT` for each of its lines, in the order in
 * which they came, in files of bounded size of which the newest are kept. The time is this machine's, for people.
 *
 * Writing never delays a deadline: it is asynchronous, a flood of short lines takes turns with everything else, and
 * output that cannot be written (a full disk) is dropped.
 */
export class OutputLog {
  readonly #folder: string;
  readonly #backendId: string;
  readonly #bytesMax: number;
  readonly #now: () => string;
  #files: LogFile[];
  #stream: WriteStream | undefined;
  /** In bytes, from the beginning of the output. */
  #position = 0;
  #openWriters = 0;
  #isWritten = false;

  constructor(
    folder: string,
    backendId: string,
    {
      bytesMax = LOG_FILE_BYTES_MAX,
      now = () => new Date().toISOString(),
    }: { readonly bytesMax?: number; readonly now?: () => string } = {},
  ) {
    this.#folder = folder;
    this.#backendId = backendId;
    this.#bytesMax = bytesMax;
    this.#now = now;
    this.#files = [];
    try {
      this.#files = logFilesIn(folder).filter((found) => found.backendId === backendId);
    } catch {
      // The disk refuses: the backend runs without a log rather than not at all.
    }
    const last = this.#files.at(-1);
    const size = last === undefined ? 0 : sizeOf(last.file);
    this.#position = (last?.offset ?? 0) + size;
    if (last === undefined || size >= this.#bytesMax) this.#begin();
    else this.#open(last.file);
  }

  /** Where one of the backend's two streams goes. The files are closed when all that were made have ended. */
  writer(name: 'stdout' | 'stderr'): Writable {
    this.#openWriters += 1;
    return new LineWriter(
      (lines, done) => this.#append(name, lines, done),
      (done) => this.#closeOne(done),
    );
  }

  #append(name: string, lines: readonly string[], done: () => void): void {
    const prefix = `${this.#now()} ${name} `;
    const text = lines.map((line) => `${prefix}${line}\n`).join('');
    const bytes = Buffer.from(text);
    const written = this.#position - (this.#files.at(-1)?.offset ?? 0);
    if (written > 0 && written + bytes.length > this.#bytesMax) this.#begin();
    if (this.#stream === undefined) {
      done();
      return;
    }
    this.#position += bytes.length;
    this.#stream.write(bytes, () => done());
  }

  /** Whether everything was written that will be. */
  get isWritten(): boolean {
    return this.#isWritten || this.#stream === undefined;
  }

  #closeOne(done: () => void): void {
    this.#openWriters -= 1;
    if (this.#openWriters > 0 || this.#stream === undefined) {
      done();
      return;
    }
    this.#stream.end(() => {
      this.#isWritten = true;
      done();
    });
  }

  /** Goes on in a new file, and drops the oldest. */
  #begin(): void {
    this.#stream?.end();
    this.#stream = undefined;
    const offset = this.#position;
    const file = logFileOf(this.#folder, this.#backendId, offset);
    this.#files.push({ backendId: this.#backendId, offset, file });
    try {
      for (const old of this.#files.splice(0, this.#files.length - LOG_FILES_MAX)) {
        rmSync(old.file, { force: true });
      }
    } catch {
      // The disk refuses: the backend goes on without a log rather than not at all.
      return;
    }
    this.#open(file);
  }

  #open(file: string): void {
    const stream = createWriteStream(file, { flags: 'a', mode: 0o600 });
    stream.on('error', () => {
      if (this.#stream === stream) this.#stream = undefined;
    });
    this.#stream = stream;
  }
}

/** Splits what is written into lines, of which it hands on so many in each turn. */
class LineWriter extends Writable {
  readonly #decoder = new StringDecoder('utf8');
  readonly #append: (lines: readonly string[], done: () => void) => void;
  readonly #close: (done: () => void) => void;
  /** The beginning of a line whose end has not come. */
  #rest = '';

  constructor(
    append: (lines: readonly string[], done: () => void) => void,
    close: (done: () => void) => void,
  ) {
    super();
    this.#append = append;
    this.#close = close;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    const lines = `${this.#rest}${this.#decoder.write(chunk)}`.split('\n');
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length >= LINE_LENGTH_MAX) {
      lines.push(this.#rest);
      this.#rest = '';
    }
    this.#hand(lines, done);
  }

  override _final(done: () => void): void {
    const rest = `${this.#rest}${this.#decoder.end()}`;
    if (rest === '') this.#close(done);
    else this.#append(shortLines(rest), () => this.#close(done));
  }

  #hand(lines: readonly string[], done: () => void): void {
    if (lines.length === 0) {
      done();
      return;
    }
    const turn = lines.slice(0, LINES_IN_A_TURN).flatMap(shortLines);
    const rest = lines.slice(LINES_IN_A_TURN);
    this.#append(turn, () => {
      if (rest.length === 0) done();
      else setImmediate(() => this.#hand(rest, done));
    });
  }
}

/** A line as one or more that are not too long, without the carriage return of other systems. */
function shortLines(line: string): string[] {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  if (text.length <= LINE_LENGTH_MAX) return [text];
  const count = Math.ceil(text.length / LINE_LENGTH_MAX);
  return Array.from({ length: count }, (_, nth) =>
    text.slice(nth * LINE_LENGTH_MAX, (nth + 1) * LINE_LENGTH_MAX),
  );
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
