import { constants, fstatSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import pino, { type DestinationStream, type LogFn, type Logger } from 'pino';

export type { Logger } from 'pino';

/** The levels, from everything to nothing. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** How a process logs. */
interface LoggerOptions {
  /** Which process this is: `controller`, `agent`, `warden`. */
  readonly name: string;
  readonly level: LogLevel | (string & {});
  /** Where it goes; by default to the standard output. */
  readonly destination?: DestinationStream | undefined;
}

/** Lines that are kept for later where they cannot be written now: on a full disk, to a reader that has stalled. */
const UNWRITTEN_BYTES_MAX = 1_024 * 1_024;
/** When lines for which a pipe had no room are tried again, and how often at the end of the process. */
const ROOM_MS = 100;
const LAST_TRIES_MAX = 20;

const STANDARD_OUTPUT = 1;

const WARN = pino.levels.values['warn'] ?? 40;

const SECRET_FIELDS = ['token', 'secret', 'password', 'authorization', 'cookie'];

/**
 * The log of a process: one JSON object per line, with the time in UTC. Fields that are named like a
 * secret are left out, and what looks like one is hidden wherever it stands, in messages and causes
 * of errors too. Lines are written at once, so that they survive a crash. A line that cannot be
 * written stops nothing: it is written later, or lost. Warnings and errors that repeat are written
 * once with a count, see `repeated-lines.ts`; errors are cut to a bounded size.
 */
export function createLogger({ name, level, destination }: LoggerOptions): Logger {
  const writeOnce = createRepeatHook();
  return pino(
    {
      name,
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]),
        censor: '***',
      },
      serializers: { err: boundedError },
      hooks: {
        streamWrite: (line) => escapeControls(hideSecrets(line)),
        logMethod(args, method, methodLevel) {
          if (methodLevel < WARN) method.apply(this, args);
          else writeOnce(args, method.bind(this));
        },
      },
    },
    destination ?? standardOutput(),
  );
}

/** What a terminal or a viewer acts on although JSON lets it stand: DEL, the C1 controls, line and text directions. */
const CONTROLS = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** Escapes what JSON does not: a caller's text must not act on the terminal of a reader. */
function escapeControls(line: string): string {
  return line.replace(
    CONTROLS,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** The standard output, not blocking: a reader that has stalled, or Ctrl-S on a terminal, must not stop this process. */
function outputWithoutWaiting(): number {
  if (isatty(STANDARD_OUTPUT)) {
    // Opened a second time: for Node, and for others on the terminal, it must stay as it is.
    const { O_WRONLY, O_NOCTTY, O_NONBLOCK } = constants;
    try {
      return openSync('/dev/fd/1', O_WRONLY | O_NOCTTY | O_NONBLOCK);
    } catch {
      // It may be one of another user, after `su`.
      return STANDARD_OUTPUT;
    }
  }
  const kind = fstatSync(STANDARD_OUTPUT);
  // Node makes a pipe non-blocking when it opens it.
  if (kind.isFIFO() || kind.isSocket()) void process.stdout;
  return STANDARD_OUTPUT;
}

function standardOutput(): DestinationStream {
  const out = pino.destination({
    dest: outputWithoutWaiting(),
    sync: true,
    maxLength: UNWRITTEN_BYTES_MAX,
    // It would wait for the reader.
    retryEAGAIN: () => false,
  });
  let isFull = false;
  const tryAgain = (): void => {
    isFull = false;
    process.off('exit', tryToTheEnd);
    out.write('');
  };
  const tryToTheEnd = (): void => {
    const never = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    for (let tries = 0; isFull && tries < LAST_TRIES_MAX; tries += 1) {
      Atomics.wait(never, 0, 0, ROOM_MS);
      tryAgain();
    }
  };
  // Without a listener an error of the stream would end the process.
  out.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code !== 'EAGAIN' || isFull) return;
    isFull = true;
    setTimeout(tryAgain, ROOM_MS).unref();
    process.once('exit', tryToTheEnd);
  });
  return out;
}

// Keeps warnings and errors that repeat from filling the log: of each kind the first line in a window
// is written in full, the others are counted, and one line at the end of the window says how many
// there were. A caller that makes the same thing fail ten thousand times causes two lines.

/** For how long lines of a kind are counted after one was written. */
export const REPEAT_WINDOW_MS = 10_000;
/** Kinds that are counted separately; lines of further kinds are counted together. */
const KINDS_MAX = 100;
/** How many incidents the line about the repeats names, the newest ones. */
const INCIDENTS_MAX = 20;

/** The fields that tell one kind of line from another, besides its message and its error. */
const KIND_FIELDS = [
  'path',
  'url',
  'job',
  'kind',
  'step',
  'part',
  'datacenter',
  'list',
  'leaseholdCode',
  'code',
];

interface Repeats {
  count: number;
  readonly incidentIds: string[];
}

/** The hook of a logger that writes lines of a kind once in a window. */
function createRepeatHook(): (args: Parameters<LogFn>, write: LogFn) => void {
  const windows = new Map<string, Repeats>();
  return (args, write) => {
    const [fields, message] = partsOf(args);
    const kind = kindOf(fields, message);
    const key = windows.has(kind) || windows.size < KINDS_MAX ? kind : 'other';
    const window = windows.get(key);
    if (window !== undefined) {
      count(window, fields);
      return;
    }
    const opened: Repeats = { count: 0, incidentIds: [] };
    windows.set(key, opened);
    const timer = setTimeout(() => {
      windows.delete(key);
      if (opened.count === 0) return;
      const { count: repeated, incidentIds } = opened;
      const about = incidentIds.length === 0 ? {} : { incidentIds };
      write(
        {
          ...kindFieldsOf(key === kind ? fields : {}),
          repeated,
          withinMs: REPEAT_WINDOW_MS,
          ...about,
        },
        key === kind ? `repeated: ${message}` : 'repeated: lines of many other kinds',
      );
    }, REPEAT_WINDOW_MS);
    timer.unref();
    write(...args);
  };
}

function count(window: Repeats, fields: Readonly<Record<string, unknown>>): void {
  window.count += 1;
  const { incidentId } = fields;
  if (typeof incidentId !== 'string') return;
  window.incidentIds.push(incidentId);
  if (window.incidentIds.length > INCIDENTS_MAX) window.incidentIds.shift();
}

function partsOf(args: Parameters<LogFn>): [Readonly<Record<string, unknown>>, string] {
  const [first, second] = args as [unknown, unknown];
  if (typeof first === 'string') return [{}, first];
  const fields = typeof first === 'object' && first !== null ? first : {};
  const said = typeof second === 'string' ? second : '';
  return [fields as Readonly<Record<string, unknown>>, said];
}

function kindOf(fields: Readonly<Record<string, unknown>>, message: string): string {
  const { err } = fields;
  const error =
    err instanceof Error ? [err.name, 'code' in err ? JSON.stringify(err.code) : ''] : [];
  return [message, ...Object.values(kindFieldsOf(fields)).map(String), ...error].join('\0');
}

function kindFieldsOf(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    KIND_FIELDS.filter((name) => fields[name] != null).map((name) => [name, fields[name]]),
  );
}

/** How much of an error is logged: messages and stacks may hold what a caller sent, at any length. */
const MESSAGE_LENGTH_MAX = 2_000;
const STACK_LENGTH_MAX = 4_000;
const CAUSES_MAX = 4;

interface LoggedError {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: LoggedError;
}

/**
 * An error as it is logged: its type, code, message, stack and causes, and none of its other fields.
 * Errors of pg would bring their whole connection along, with the secret that cancels its statements.
 */
function boundedError(error: unknown, causesLeft = CAUSES_MAX): LoggedError {
  if (!(error instanceof Error)) {
    return { type: typeof error, message: cut(String(error), MESSAGE_LENGTH_MAX) };
  }
  const { code } = error as { code?: unknown };
  return {
    type: error.name,
    message: cut(error.message, MESSAGE_LENGTH_MAX),
    ...(typeof code === 'string' ? { code } : {}),
    ...(error.stack === undefined ? {} : { stack: cut(error.stack, STACK_LENGTH_MAX) }),
    ...(error.cause instanceof Error && causesLeft > 0
      ? { cause: boundedError(error.cause, causesLeft - 1) }
      : {}),
  };
}

function cut(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}

const TOKEN = /\blh_[A-Za-z0-9_-]{16,}/g;
const URL_PASSWORD = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s/:@"']*):[^\s/@"']+@/gi;
const BEARER = /\b(bearer\s+)[^\s"']+/gi;

/** The text without API tokens, bearer credentials and the passwords of URLs. */
function hideSecrets(text: string): string {
  return text.replace(URL_PASSWORD, '$1:***@').replace(BEARER, '$1***').replace(TOKEN, 'lh_***');
}

/** The value of a text in JSON; undefined for any other text. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * A URL as it may be printed: without its password. A parameter or a fragment may hold one too, so these are left
 * out. A text that is no URL is not repeated.
 */
export function shownUrl(text: string): string {
  if (!URL.canParse(text)) return '(not a URL)';
  const url = new URL(text);
  if (url.password !== '') url.password = '***';
  if (url.search !== '') url.search = '?…';
  url.hash = '';
  const shown = url.href.replace('?%E2%80%A6', '?…');
  return text.endsWith('/') ? shown : shown.replace(/\/$/u, '');
}
