import { printableText } from '@leasehold/keys-core';

/**
 * A text as it may be shown in a terminal: what would move the cursor, change colours, reorder or
 * hide characters is written as an escape, and a text that begins or ends with a space, is empty, or
 * begins with a quote, is quoted. A name is shown so that it can be told from every other name.
 */
export function printable(text: string): string {
  const escaped = printableText(text);
  return escaped === '' || /^[\s"]|\s$/u.test(escaped) ? JSON.stringify(escaped) : escaped;
}

/** As {@link printable}, for a value that may be missing. */
export function printableOr(text: string | null | undefined, missing = '-'): string {
  return text === null || text === undefined || text === '' ? missing : printable(text);
}

/** What a program has written, below a text: its lines, each indented. */
export function indentedLines(output: string): string {
  return output
    .split('\n')
    .map((line) => `  ${printableText(line)}`)
    .join('\n');
}
