/** What a page keeps of a backend's output: the newest lines, and what is known of those before them. Pure. */
import type { LogLine, LogPage } from '@leasehold/keys-core';

/** A browser keeps and shows so many lines at most. */
export const LINES_MAX = 5_000;

export interface ShownLine extends LogLine {
  /** Tells lines apart; in their order. */
  readonly id: number;
  /** Whether lines between the one before and this one are gone: the drone has removed them before they were read. */
  readonly isAfterGap: boolean;
}

export interface Log {
  readonly lines: readonly ShownLine[];
  /** Where what follows begins; undefined before the first page. */
  readonly position: number | undefined;
  /**
   * What was before the first line: nothing, lines that the drone keeps no more, or lines that are only not shown,
   * because fewer were asked for or because the browser keeps no more.
   */
  readonly before: 'nothing' | 'gone' | 'not shown';
  /** Whether the first reading is under way: only then it is not known yet what was before. */
  readonly isFilling: boolean;
  /** Whether the drone has output of it. */
  readonly isThere: boolean;
  /** Whether the backend has ended, and all was read. */
  readonly hasEnded: boolean;
}

export const NO_LOG: Log = {
  lines: [],
  position: undefined,
  before: 'nothing',
  isFilling: true,
  isThere: true,
  hasEnded: false,
};

/** The log with the pages that came after it. `tail`: how many of the last lines the first reading asked for. */
export function withPages(log: Log, pages: readonly LogPage[], tail: number): Log {
  return pages.reduce((before, page) => withPage(before, page, tail), log);
}

function withPage(log: Log, page: LogPage, tail: number): Log {
  const isGap = log.position !== undefined && page.from > log.position;
  const firstId = (log.lines.at(-1)?.id ?? -1) + 1;
  const added = page.lines.map((line, nth) => ({
    ...line,
    text: withoutTabs(line.text),
    id: firstId + nth,
    isAfterGap: isGap && nth === 0,
  }));
  const all = [...log.lines, ...added];
  const lines = all.slice(-LINES_MAX);
  return {
    lines,
    position: page.position,
    before:
      lines.length < all.length ? 'not shown' : beforeOf(log, page, { tail, read: all.length }),
    isFilling: log.isFilling && page.hasMore,
    isThere: page.isThere,
    hasEnded: page.hasEnded,
  };
}

/** With spaces up to the next column of eight: elsewhere a tab is a character that nobody sees. */
export function withoutTabs(text: string): string {
  return text.replaceAll(
    /([^\t]*)\t/gu,
    (_, before: string) => before + ' '.repeat(8 - (before.length % 8)),
  );
}

function beforeOf(log: Log, page: LogPage, of: { tail: number; read: number }): Log['before'] {
  if (!log.isFilling) return log.before;
  const isFromBeginning = log.position === undefined ? page.from === 0 : log.before === 'nothing';
  if (isFromBeginning) return 'nothing';
  return of.read >= of.tail ? 'not shown' : 'gone';
}

/** A line in parts: those that match the search, and those between them. Upper and lower case are the same. */
export function partsOf(text: string, search: string): { text: string; isMatch: boolean }[] {
  if (search === '') return [{ text, isMatch: false }];
  const parts: { text: string; isMatch: boolean }[] = [];
  let end = 0;
  for (const { index, 0: found } of text.matchAll(patternOf(search))) {
    if (index > end) parts.push({ text: text.slice(end, index), isMatch: false });
    parts.push({ text: found, isMatch: true });
    end = index + found.length;
  }
  if (end < text.length || parts.length === 0) {
    parts.push({ text: text.slice(end), isMatch: false });
  }
  return parts;
}

/** The lines in which the search is found, oldest first. */
export function matchesIn(lines: readonly ShownLine[], search: string): ShownLine[] {
  if (search === '') return [];
  const pattern = patternOf(search);
  return lines.filter(({ text }) => text.search(pattern) >= 0);
}

function patternOf(search: string): RegExp {
  return new RegExp(search.replaceAll(/[$()*+.?[\\\]^{|}]/gu, String.raw`\$&`), 'giu');
}
