import { invalidField } from './errors.ts';

const encoder = new TextEncoder();

/** The size of a string in bytes of UTF-8. */
export function utf8Bytes(text: string): number {
  return encoder.encode(text).byteLength;
}

/**
 * Why a string may not be stored, or undefined when it may.
 *
 * A lone surrogate is refused because PostgreSQL would receive U+FFFD for it: two different names
 * would become one. Control characters are refused because NUL fails the whole batch that it
 * travels in, and the others make a name that an operator cannot read or type.
 */
export function textProblem(
  text: string,
  bounds: { bytesMin?: number; bytesMax: number; isControlAllowed?: boolean },
): string | undefined {
  const bytesMin = bounds.bytesMin ?? 0;
  // Services without a compiler give anything.
  if (typeof text !== 'string') return 'must be a string';
  const tooLong = `must be at most ${String(bounds.bytesMax)} bytes of UTF-8`;
  // Before anything that looks at each character.
  if (text.length > bounds.bytesMax) return `${tooLong}, and is ${String(utf8Bytes(text))}`;
  if (!text.isWellFormed()) return 'must be well-formed Unicode, without lone surrogates';
  const control = controlProblem(text, bounds.isControlAllowed === true);
  if (control !== undefined) return control;
  // A code unit has one byte to three: most texts need not be encoded to be counted.
  if (text.length >= bytesMin && text.length * 3 <= bounds.bytesMax) return undefined;
  const bytes = utf8Bytes(text);
  if (bytes < bytesMin) {
    return bytesMin === 1 ? 'must not be empty' : `must be at least ${String(bytesMin)} bytes`;
  }
  if (bytes > bounds.bytesMax) {
    return `${tooLong}, and is ${String(bytes)}`;
  }
  return undefined;
}

function controlProblem(text: string, isAllowed: boolean): string | undefined {
  if (isAllowed) return text.includes('\0') ? 'must not contain NUL' : undefined;
  if (!/\p{Cc}/u.test(text)) return undefined;
  return /[\r\n]/u.test(text)
    ? 'must be one line, without line breaks'
    : 'must not contain control characters';
}

/**
 * Why a JSON value may not be stored, or undefined when it may: every string in it, keys included,
 * is well-formed and free of NUL, and it is not nested more deeply than allowed. It is measured while it
 * is walked, so that a value that is a thousand times too large costs no more than one that fits.
 */
export function jsonProblem(
  value: unknown,
  bounds: { bytesMax: number; depthMax: number },
): string | undefined {
  const tooLarge = `must be at most ${String(bounds.bytesMax)} bytes of JSON`;
  const walk = { charactersLeft: bounds.bytesMax, tooLarge };
  const problem = valueProblem(value, walk, bounds.depthMax);
  if (problem !== undefined) return problem;
  const bytes = utf8Bytes(JSON.stringify(value));
  return bytes > bounds.bytesMax ? `${tooLarge}, and is ${String(bytes)}` : undefined;
}

/** How much of a value may still be looked at: fewer characters than its JSON has. */
interface Walk {
  charactersLeft: number;
  readonly tooLarge: string;
}

function valueProblem(value: unknown, walk: Walk, depthLeft: number): string | undefined {
  walk.charactersLeft -= typeof value === 'string' ? value.length + 2 : 1;
  if (walk.charactersLeft < 0) return walk.tooLarge;
  if (typeof value === 'string') {
    return textProblem(value, { bytesMax: Number.MAX_SAFE_INTEGER, isControlAllowed: true });
  }
  if (value === null || typeof value !== 'object') return undefined;
  if (depthLeft === 0) return 'is nested too deeply';
  return Array.isArray(value)
    ? itemProblem(value, walk, depthLeft)
    : fieldProblem(value as Readonly<Record<string, unknown>>, walk, depthLeft);
}

function itemProblem(items: readonly unknown[], walk: Walk, depthLeft: number): string | undefined {
  for (const item of items) {
    const problem = valueProblem(item, walk, depthLeft - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function fieldProblem(
  fields: Readonly<Record<string, unknown>>,
  walk: Walk,
  depthLeft: number,
): string | undefined {
  for (const name in fields) {
    const value = fields[name];
    if (value === undefined || !Object.hasOwn(fields, name)) continue;
    const problem = valueProblem(name, walk, depthLeft) ?? valueProblem(value, walk, depthLeft - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** @throws {LeaseError} `request.invalid` naming the field. */
export function assertText(
  field: string,
  text: string,
  bounds: { bytesMin?: number; bytesMax: number },
): void {
  const problem = textProblem(text, bounds);
  if (problem !== undefined) {
    throw invalidField(field, problem);
  }
}

// Amounts for people. Pure.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** `512 B`, `1.5 KiB`, `64 MiB`: three digits or fewer, with a tenth below ten. */
export function bytesText(bytes: number): string {
  let value = Math.max(0, bytes);
  let unit = 0;
  // What would be rounded to the next unit is that already.
  while (value >= 1_023.5 && unit < UNITS.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 9.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ''}`;
}

/** `12 %`, `< 1 %`: a share of 1. More than all is possible: `150 %` are one processor and a half. */
export function percentText(share: number): string {
  if (share > 0 && share < 0.005) return '< 1 %';
  return `${(Math.max(0, share) * 100).toFixed(0)} %`;
}
