/**
 * Reads what backends have written, for people and for reports. The files are the warden's, see `OutputLog`; a
 * position is a number of bytes from the beginning of a backend's output, and stays valid while output is added.
 */
import { open, rm, stat } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import type { LogLine, LogPage, LogRequest } from '@leasehold/api';
import { logFilesIn, type LogFile } from '../../warden/launch/output-log.ts';

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
  for (let round = 0; ; round += 1) {
    // Asked first: what it wrote last before its end is read by the look that follows.
    const hasEnded = isEnded();
    const files = filesOf(folder, backendId);
    const found = await readFrom(files, await startOf(files, request, nowMs), backendId);
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
  return text === '' ? undefined : text.slice(-LAST_LENGTH_MAX);
}

/** Removes output of backends that are not in `keptIds` and is too old, or too much; the oldest first. */
export async function removeOldOutput(
  folder: string,
  isKept: (backendId: string) => boolean,
  nowMs: number = Date.now(),
): Promise<void> {
  const ended = filesIn(folder).filter(({ backendId }) => !isKept(backendId));
  const stated = await Promise.all(
    ended.map(async ({ file }) => {
      const { mtimeMs, size } = await stat(file);
      return { file, mtimeMs, size };
    }),
  );
  let bytes = 0;
  for (const { file, mtimeMs, size } of stated.toSorted((a, b) => b.mtimeMs - a.mtimeMs)) {
    bytes += size;
    if (nowMs - mtimeMs > KEPT_MS_MAX || bytes > KEPT_BYTES_MAX) await rm(file, { force: true });
  }
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
