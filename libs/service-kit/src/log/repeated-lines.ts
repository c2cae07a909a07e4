/**
 * Keeps warnings and errors that repeat from filling the log: of each kind the first line in a window
 * is written in full, the others are counted, and one line at the end of the window says how many
 * there were. A caller that makes the same thing fail ten thousand times causes two lines.
 */
import type { LogFn } from 'pino';

/** For how long lines of a kind are counted after one was written. */
export const REPEAT_WINDOW_MS = 10_000;
/** Kinds that are counted separately; lines of further kinds are counted together. */
const KINDS_MAX = 100;
/** How many incidents the line about the repeats names, the newest ones. */
const INCIDENTS_MAX = 20;

/** The fields that tell one kind of line from another, besides its message and its error. */
const KIND_FIELDS = [
  ...['path', 'url', 'job', 'kind', 'step', 'part', 'datacenter', 'list'],
  ...['leaseholdCode', 'code'],
];

interface Repeats {
  count: number;
  readonly incidentIds: string[];
}

/** The hook of a logger that writes lines of a kind once in a window. */
export function createRepeatHook(): (args: Parameters<LogFn>, write: LogFn) => void {
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
