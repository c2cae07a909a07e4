/**
 * What a worker writes down while it works, as lines of a file: written at once, so that nothing is lost
 * when it is stopped or killed next.
 */
import { openSync, readSync, writeSync } from 'node:fs';
import { machineMs } from '../../stage/machine-time.ts';
import type { Hold, Operation, SinkWrite } from '../history.ts';

type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/** A request as it is sent: its reply may never come. */
export type Request = Without<Operation, 'answer' | 'repliedAtMs' | 'calledAtMs' | 'process'>;

export type Line =
  | { readonly line: 'call'; readonly request: Request; readonly atMs: number }
  | {
      readonly line: 'reply';
      readonly id: string;
      readonly answer: Operation['answer'];
      readonly atMs: number;
    }
  | { readonly line: 'held'; readonly grant: HeldGrant; readonly atMs: number }
  | {
      readonly line: 'over';
      readonly leaseId: string;
      readonly end: Hold['end'];
      readonly lateMs: number;
      readonly stallMs: number;
      readonly atMs: number;
    }
  | { readonly line: 'write'; readonly write: SinkWrite; readonly atMs: number };

export type HeldGrant = Pick<Hold, 'resource' | 'leaseId' | 'token' | 'mode'>;

export class Diary {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  /** @returns when the request was made. */
  call(request: Request): number {
    const atMs = machineMs();
    this.write({ line: 'call', request, atMs });
    return atMs;
  }

  reply(id: string, answer: Operation['answer']): void {
    this.write({ line: 'reply', id, answer, atMs: machineMs() });
  }

  write(line: Line): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
  }
}

const PIECE_BYTES = 64 * 1_024;

/** Reads a diary while it is written. */
export class DiaryReader {
  readonly process: string;
  readonly lines: Line[] = [];
  readonly #file: number;
  #rest = '';

  constructor(process: string, path: string) {
    this.process = process;
    this.#file = openSync(path, 'a+');
  }

  /** Reads what was written since the last call. */
  read(): void {
    const piece = Buffer.alloc(PIECE_BYTES);
    for (;;) {
      const length = readSync(this.#file, piece, 0, PIECE_BYTES, null);
      if (length === 0) return;
      const parts = (this.#rest + piece.toString('latin1', 0, length)).split('\n');
      this.#rest = parts.pop() ?? '';
      for (const part of parts) this.lines.push(JSON.parse(part) as Line);
    }
  }

  /** When the last request was answered with something other than a failure. */
  get lastDoneAtMs(): number {
    const last = this.lines.findLast(isDone);
    return last?.atMs ?? -Infinity;
  }
}

function isDone(line: Line): boolean {
  if (line.line === 'held') return true;
  if (line.line === 'write') return line.write.outcome !== 'unknown';
  if (line.line !== 'reply') return false;
  return line.answer.outcome !== 'failed' && line.answer.outcome !== 'unknown';
}

/** The requests of a process with their replies. */
export function operationsOf({ process, lines }: DiaryReader): Operation[] {
  const replies = new Map(
    lines.flatMap((line) => (line.line === 'reply' ? [[line.id, line] as const] : [])),
  );
  return lines.flatMap((line): Operation[] => {
    if (line.line !== 'call') return [];
    const reply = replies.get(line.request.id);
    const isKnown = reply !== undefined && reply.answer.outcome !== 'unknown';
    const answer = reply?.answer ?? { outcome: 'unknown' };
    const repliedAtMs = isKnown ? reply.atMs : Infinity;
    const called = { calledAtMs: line.atMs, repliedAtMs, process };
    return [{ ...line.request, ...called, answer } as Operation];
  });
}

/** The holds of a process; those that it did not end died with it. */
export function holdsOf({ process, lines }: DiaryReader): Hold[] {
  const overs = new Map(
    lines.flatMap((line) => (line.line === 'over' ? [[line.leaseId, line] as const] : [])),
  );
  return lines.flatMap((line): Hold[] => {
    if (line.line !== 'held') return [];
    const over = overs.get(line.grant.leaseId);
    const { end = 'died', lateMs = 0, stallMs = 0 } = over ?? {};
    const untilMs = over?.atMs ?? Infinity;
    return [{ ...line.grant, process, fromMs: line.atMs, untilMs, end, lateMs, stallMs }];
  });
}

export function writesOf({ lines }: DiaryReader): SinkWrite[] {
  return lines.flatMap((line) => (line.line === 'write' ? [line.write] : []));
}
