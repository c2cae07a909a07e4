import pino, { type DestinationStream, type Logger } from 'pino';
import { boundedError } from './bounded-error.ts';
import { createRepeatHook } from './repeated-lines.ts';
import { hideSecrets } from './secrets.ts';

export type { Logger } from 'pino';

/** The levels, from everything to nothing. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** How a process logs. */
export interface LoggerOptions {
  /** Which process this is: `controller`, `agent`, `warden`. */
  readonly name: string;
  readonly level: LogLevel | (string & {});
  /** Where it goes; by default to the standard output. */
  readonly destination?: DestinationStream | undefined;
}

/** Lines that are kept for later where they cannot be written now, such as on a full disk. */
const UNWRITTEN_BYTES_MAX = 1_024 * 1_024;

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

function standardOutput(): DestinationStream {
  const out = pino.destination({ dest: 1, sync: true, maxLength: UNWRITTEN_BYTES_MAX });
  // Without a listener an error of the stream would end the process.
  out.on('error', () => undefined);
  return out;
}
