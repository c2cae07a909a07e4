import { printableText } from '@leasehold/keys-core';

/** The levels that somebody should see; Leasehold's own logs name them. */
const ALARM_LEVELS: Readonly<Record<string, Alarm['level']>> = {
  warn: 'warn',
  error: 'error',
  fatal: 'error',
};

/** A line longer than this is cut: nobody reads it in a terminal, and memory is bounded. */
const LINE_CHARS_MAX = 16_384;

/** A line of a child's log that somebody should see. */
export interface Alarm {
  readonly level: 'warn' | 'error';
  readonly message: string;
}

/**
 * Cuts a stream into lines.
 * @returns a function that takes the next chunk.
 */
export function lineReader(onLine: (line: string) => void): (chunk: Buffer) => void {
  const decoder = new TextDecoder();
  let rest = '';
  return (chunk) => {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = (lines.pop() ?? '').slice(0, LINE_CHARS_MAX);
    for (const line of lines) if (line !== '') onLine(line.slice(0, LINE_CHARS_MAX));
  };
}

/**
 * What a line of a log says, if it is a warning or worse. A line that is not JSON, such as the
 * trace of a crash, is an alarm when it came from the standard error.
 */
export function alarmOf(line: string, source: 'stdout' | 'stderr'): Alarm | undefined {
  const entry = parsed(line);
  if (entry === undefined) {
    return source === 'stderr' ? { level: 'error', message: printableText(line) } : undefined;
  }
  const level = ALARM_LEVELS[String(entry['level'])];
  if (level === undefined) return undefined;
  const message = typeof entry['msg'] === 'string' ? entry['msg'] : 'see the log';
  const cause = errorText(entry['err']);
  return {
    level,
    // It goes to a terminal, and may quote what a caller sent.
    message: printableText(cause === undefined ? message : `${message}: ${cause}`),
  };
}

function parsed(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function errorText(err: unknown): string | undefined {
  if (typeof err !== 'object' || err === null || !('message' in err)) return undefined;
  // Some messages have several lines.
  return typeof err.message === 'string' ? err.message.trim().replaceAll(/\s+/gu, ' ') : undefined;
}
