/** Compares what a page says that a command prints with what it prints. */

/** Words with a digit in them: ids, ports, tokens, durations. They differ from run to run. */
const VOLATILE = /[\w.:-]*\d[\w.:-]*/u;
/** A shorter word may stand for something else when it occurs again. */
const REMEMBERED_LENGTH_MIN = 8;

/**
 * Whether an output is as the page shows it, except for the words that have a digit in them, `…`, and the
 * width of spaces. @returns what the page's words stand for, or undefined when it is not as shown.
 */
export function matchOutput(shown: string, actual: string): Map<string, string> | undefined {
  const words = shown
    .trim()
    .split(/(?<space>\s+)|(?<quiet>[^\w.:…-]+)/u)
    .filter(Boolean);
  const volatile: string[] = [];
  const pattern = words
    .map((word) => {
      if (word.trim() === '') return String.raw`\s+`;
      if (word.includes('…')) return String.raw`\S+`;
      if (!VOLATILE.test(word)) return escaped(word);
      volatile.push(word);
      return String.raw`([\w.:-]+)`;
    })
    .join('');
  const found = new RegExp(`^${pattern}$`, 'u').exec(actual.trim());
  if (found === null) return undefined;
  const meanings = volatile.map((word, index) => [word, found[index + 1] ?? ''] as const);
  return new Map(meanings.filter(([word]) => word.length >= REMEMBERED_LENGTH_MIN));
}

/** Where two JSON values are not alike: they have other fields, or fields of other types. */
export function shapeProblem(shown: unknown, actual: unknown, path = '$'): string | undefined {
  if (kindOf(shown) !== kindOf(actual)) {
    return `${path} is shown as ${kindOf(shown)} and is ${kindOf(actual)}`;
  }
  if (Array.isArray(shown) && Array.isArray(actual)) {
    if (shown.length > 0 !== actual.length > 0) return `${path} is empty in one of them`;
    return shown.length === 0 ? undefined : shapeProblem(shown[0], actual[0], `${path}[0]`);
  }
  if (!isRecord(shown) || !isRecord(actual)) return undefined;
  const [shownKeys, actualKeys] = [shown, actual].map((value) => Object.keys(value).sort().join());
  if (shownKeys !== actualKeys) {
    return `${path} is shown with ${String(shownKeys)} and has ${String(actualKeys)}`;
  }
  return Object.keys(shown)
    .map((key) => shapeProblem(shown[key], actual[key], `${path}.${key}`))
    .find((problem) => problem !== undefined);
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return kindOf(value) === 'object';
}

function escaped(text: string): string {
  return text.replaceAll(/[$()*+./?[\\\]^{|}-]/gu, String.raw`\$&`);
}
