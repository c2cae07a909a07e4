/**
 * The output of backends, in files that the warden writes and the agent reads, for people and for reports. A
 * position is a number of bytes from the beginning of a backend's output, and stays valid while output is added.
 */
import {
  createWriteStream,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  type WriteStream,
} from 'node:fs';
import { open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as pause } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import type { LogLine, LogPage, LogRequest } from '@leasehold/api';

/** What a backend may write: this many files of this size. */
const LOG_FILE_BYTES_MAX = 1_048_576;
const LOG_FILES_MAX = 3;
/** A longer line is kept as several. */
const LINE_LENGTH_MAX = 8_192;
/** How many lines are written before the deadlines of other backends have their turn. */
const LINES_IN_A_TURN = 1_000;
const OFFSET_DIGITS = 15;
/** How often it is tried to write again. */
const TRY_MS = 5_000;

/** Where a drone with this state folder keeps its backends' output, in files as {@link logFileOf} names them. */
export function logFolderOf(stateDir: string): string {
  return path.join(path.resolve(stateDir), 'logs');
}

/**
 * The file with the part of a backend's output that begins at `offset`, in bytes from its beginning. Files of a backend
 * are never renamed, so a reader that knows a position finds it; names sort by their offsets.
 */
export function logFileOf(folder: string, backendId: string, offset: number): string {
  return path.join(folder, `${backendId}.${String(offset).padStart(OFFSET_DIGITS, '0')}.log`);
}

/** A file with a part of a backend's output. */
interface LogFile {
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
 * output that cannot be written (a full disk) is dropped, until a later try to write succeeds.
 */
export class OutputLog {
  readonly #folder: string;
  #backendId: string;
  readonly #bytesMax: number;
  readonly #now: () => string;
  readonly #nowMs: () => number;
  /** When a file was opened last. */
  #triedAtMs = Number.NEGATIVE_INFINITY;
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
      nowMs = () => performance.now(),
    }: {
      readonly bytesMax?: number;
      readonly now?: () => string;
      readonly nowMs?: () => number;
    } = {},
  ) {
    this.#folder = folder;
    this.#backendId = backendId;
    this.#bytesMax = bytesMax;
    this.#now = now;
    this.#nowMs = nowMs;
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

  /** What was written becomes the output of this backend, and what follows too: the process was nobody's before. */
  giveTo(backendId: string): void {
    this.#backendId = backendId;
    this.#files = this.#files.map(({ offset, file }) => {
      const renamed = { backendId, offset, file: logFileOf(this.#folder, backendId, offset) };
      const rename = (): void => {
        try {
          renameSync(file, renamed.file);
        } catch {
          // The disk refuses: the backend goes on with its output under another name rather than not at all.
        }
      };
      rename();
      // The newest may only be on its way to the disk.
      if (this.#stream?.pending === true && this.#stream.path === file) {
        this.#stream.once('open', rename);
      }
      return renamed;
    });
  }

  #append(name: string, lines: readonly string[], done: () => void): void {
    const prefix = `${this.#now()} ${name} `;
    const text = lines.map((line) => `${prefix}${line}\n`).join('');
    const bytes = Buffer.from(text);
    const written = this.#position - (this.#files.at(-1)?.offset ?? 0);
    if (this.#stream === undefined) this.#tryAgain();
    else if (written > 0 && written + bytes.length > this.#bytesMax) this.#begin();
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

  /** After something in a file, in a new one: the last line of that may have been cut short. */
  #tryAgain(): void {
    const last = this.#files.at(-1);
    if (last === undefined || this.#nowMs() - this.#triedAtMs < TRY_MS) return;
    try {
      if (sizeOf(last.file) > 0) this.#begin();
      else {
        this.#position = last.offset;
        this.#open(last.file);
      }
    } catch {
      // The disk refuses.
    }
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
    this.#triedAtMs = this.#nowMs();
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

/** One page has at most so many lines, and so many characters. */
const PAGE_LINES_MAX = 1_000;
const PAGE_LENGTH_MAX = 24_576;
/** One read: a page of the longest lines, with their times. */
const READ_BYTES_MAX = 65_536;
/** How often a reader that waits for output looks whether there is any. */
const LOOK_MS = 200;
/** What a report of an end has of it: so many lines, and so many characters. */
const LAST_LINES_MAX = 20;
const LAST_LENGTH_MAX = 2_000;
/** Each line begins with a time of this length. */
const TIME_LENGTH = '2026-01-01T00:00:00.000Z'.length;
/** Output of backends that have ended is kept for this time, and at most so much of it. */
const KEPT_MS_MAX = 7 * 86_400_000;
const KEPT_BYTES_MAX = 512 * 1_048_576;

/** What is found about an output, without its end or beginning. */
type Found = Omit<LogPage, 'hasEnded'>;

/** Reads a part of a backend's output. Resolves after `waitMs` at the latest, and sooner when there is output. */
export async function readOutput(
  folder: string,
  request: LogRequest,
  { isEnded, nowMs = Date.now }: { isEnded: () => boolean; nowMs?: () => number },
): Promise<LogPage> {
  const { backendId, waitMs = 0 } = request;
  const rounds = Math.ceil(waitMs / LOOK_MS);
  let from: number | undefined;
  for (let round = 0; ; round += 1) {
    // Asked first: what it wrote last before its end is read by the look that follows.
    const hasEnded = isEnded();
    const files = filesOf(folder, backendId);
    // Where it begins is a matter of the first look: `tail` means what was there when it was asked for.
    from = await startOf(files, from === undefined ? request : { backendId, from }, nowMs);
    const found = await readFrom(files, from, backendId);
    if (found.lines.length > 0 || hasEnded || round >= rounds) {
      return { ...found, hasEnded: hasEnded && !found.hasMore };
    }
    await pause(LOOK_MS);
  }
}

/** The last lines of a backend's output, for a report of its end; undefined without any. */
export async function lastOutput(folder: string, backendId: string): Promise<string | undefined> {
  const { lines } = await readOutput(
    folder,
    { backendId, tail: LAST_LINES_MAX },
    { isEnded: () => true },
  ).catch(() => ({ lines: [] as LogLine[] }));
  const text = lines.map((line) => line.text).join('\n');
  // A cut may leave half a character, and controllers take none.
  return text === '' ? undefined : text.slice(-LAST_LENGTH_MAX).toWellFormed();
}

/**
 * Removes output of backends that `isKept` does not know and that is too old, or too much; the oldest first. A file that
 * refuses keeps no other in its place.
 * @throws {Error} when one could not be removed.
 */
export async function removeOldOutput(
  folder: string,
  isKept: (backendId: string) => boolean,
  nowMs: number = Date.now(),
): Promise<void> {
  const ended = filesIn(folder).filter(({ backendId }) => !isKept(backendId));
  const stats = await Promise.allSettled(
    ended.map(async ({ file }) => {
      const { mtimeMs, size } = await stat(file);
      return { file, mtimeMs, size };
    }),
  );
  const stated = stats.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  let bytes = 0;
  let refusal: Error | undefined;
  for (const { file, mtimeMs, size } of stated.toSorted((a, b) => b.mtimeMs - a.mtimeMs)) {
    bytes += size;
    if (nowMs - mtimeMs <= KEPT_MS_MAX && bytes <= KEPT_BYTES_MAX) continue;
    try {
      await rm(file, { force: true });
    } catch (cause) {
      refusal ??= new Error(`${file} could not be removed`, { cause });
    }
  }
  if (refusal !== undefined) throw refusal;
}

function filesIn(folder: string): LogFile[] {
  try {
    return logFilesIn(folder);
  } catch {
    return [];
  }
}

function filesOf(folder: string, backendId: string): LogFile[] {
  return filesIn(folder).filter((file) => file.backendId === backendId);
}

async function startOf(
  files: readonly LogFile[],
  { from, tail, sinceMs }: LogRequest,
  nowMs: () => number,
): Promise<number> {
  const first = files[0]?.offset ?? 0;
  if (from !== undefined) return Math.max(from, first);
  if (tail === undefined && sinceMs === undefined) return first;
  const oldest = sinceMs === undefined ? '' : new Date(nowMs() - sinceMs).toISOString();
  const starts = await startsSince(files, oldest);
  const wanted = starts.length - (tail ?? starts.length);
  return starts[Math.max(0, wanted)] ?? endOf(files);
}

/** Where each line begins that is not older. */
async function startsSince(files: readonly LogFile[], oldest: string): Promise<number[]> {
  const starts: number[] = [];
  for (const { file, offset } of files) {
    let position = offset;
    const text = await readPart(file, 0, Number.POSITIVE_INFINITY);
    for (const line of linesOf(text)) {
      if (line.toString('latin1', 0, TIME_LENGTH) >= oldest) starts.push(position);
      position += line.length + 1;
    }
  }
  return starts;
}

async function endOf(files: readonly LogFile[]): Promise<number> {
  const last = files.at(-1);
  return last === undefined ? 0 : last.offset + (await stat(last.file)).size;
}

async function readFrom(
  files: readonly LogFile[],
  from: number,
  backendId: string,
): Promise<Found> {
  const nth = files.findLastIndex(({ offset }) => offset <= from);
  const file = files[nth];
  const isThere = file !== undefined;
  if (!isThere) return { backendId, lines: [], from, position: from, hasMore: false, isThere };
  const text = await readPart(file.file, from - file.offset, READ_BYTES_MAX);
  const lines: LogLine[] = [];
  let [position, length] = [from, 0];
  for (const raw of linesOf(text)) {
    const line = lineOf(raw.toString('utf8'));
    length += line?.text.length ?? 0;
    if (lines.length === PAGE_LINES_MAX || (length > PAGE_LENGTH_MAX && lines.length > 0)) {
      return { backendId, lines, from, position, hasMore: true, isThere };
    }
    if (line !== undefined) lines.push(line);
    position += raw.length + 1;
  }
  const next = files[nth + 1];
  // The rest of a file that is not written any more is a line that a full disk has cut short.
  const isRead = text.length < READ_BYTES_MAX;
  if (next !== undefined && isRead) position = next.offset;
  return { backendId, lines, from, position, hasMore: next !== undefined || !isRead, isThere };
}

/** Whole lines only: the last one may be under way. */
function linesOf(text: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let start = 0; ;) {
    const end = text.indexOf(10, start);
    if (end < 0) return lines;
    lines.push(text.subarray(start, end));
    start = end + 1;
  }
}

function lineOf(text: string): LogLine | undefined {
  const [, at, stream, said] = /^(\S{24}) (stdout|stderr) (.*)$/su.exec(text) ?? [];
  if (at === undefined || said === undefined) return undefined;
  return { at, stream: stream === 'stderr' ? 'stderr' : 'stdout', text: harmless(said) };
}

/** Without colours; what else would move a cursor is shown as an escape. */
function harmless(text: string): string {
  return stripVTControlCharacters(text).replaceAll(
    /[^\P{Cc}\t]/gu,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

async function readPart(file: string, from: number, bytesMax: number): Promise<Buffer> {
  const handle = await open(file, 'r').catch(() => undefined);
  if (handle === undefined) return Buffer.alloc(0);
  try {
    const { size } = await handle.stat();
    const length = Math.max(0, Math.min(size - from, bytesMax));
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, from);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
