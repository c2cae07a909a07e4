import type { LogPage } from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import { LINES_MAX, matchesIn, NO_LOG, partsOf, withPages } from './log-lines.ts';

const TAIL = 3;

/** A page of lines of ten bytes each, from a position on. */
function page(from: number, texts: readonly string[], rest: Partial<LogPage> = {}): LogPage {
  const lines = texts.map((text) => ({
    at: '2026-11-27T12:00:00.000Z',
    stream: 'stdout' as const,
    text,
  }));
  const position = from + 10 * texts.length;
  const end = { hasMore: false, isThere: true, hasEnded: false };
  return { backendId: 'bk-1', lines, from, position, ...end, ...rest };
}

const textsOf = (log: { lines: readonly { text: string }[] }) => log.lines.map(({ text }) => text);

describe('what a page keeps of a log', () => {
  test('pages follow each other, and each line has a number of its own', () => {
    const log = withPages(NO_LOG, [page(0, ['a', 'b'], { hasMore: true }), page(20, ['c'])], TAIL);

    expect(textsOf(log)).toEqual(['a', 'b', 'c']);
    expect(log.lines.map(({ id }) => id)).toEqual([0, 1, 2]);
    expect(log).toMatchObject({ position: 30, before: 'nothing', isFilling: false });
  });

  test('fewer lines than were asked for, and not from the beginning: older output is gone', () => {
    const log = withPages(NO_LOG, [page(500, ['a', 'b'])], TAIL);
    expect(log.before).toBe('gone');
    // Also when more lines have come since.
    expect(withPages(log, [page(520, ['c', 'd'])], TAIL).before).toBe('gone');
  });

  test('as many lines as were asked for, on several pages: there are older ones, not shown', () => {
    const pages = [page(500, ['a', 'b'], { hasMore: true }), page(520, ['c'])];
    expect(withPages(NO_LOG, pages, TAIL).before).toBe('not shown');
  });

  test('a line after output that was removed before it was read is marked', () => {
    const log = withPages(NO_LOG, [page(0, ['a']), page(400, ['b', 'c'])], TAIL);

    expect(log.lines.map(({ isAfterGap }) => isAfterGap)).toEqual([false, true, false]);
    expect(log.before).toBe('nothing');
  });

  test('tabs are columns, as in a terminal', () => {
    const log = withPages(NO_LOG, [page(0, ['a\tbc\td', '\tat line 3'])], TAIL);
    expect(textsOf(log)).toEqual(['a       bc      d', '        at line 3']);
  });

  test('a browser keeps the newest lines only, and says that older ones are not shown', () => {
    const many = Array.from({ length: LINES_MAX }, (_, nth) => `line ${String(nth)}`);
    const log = withPages(NO_LOG, [page(0, many), page(10 * LINES_MAX, ['newest'])], LINES_MAX);

    expect(log.lines).toHaveLength(LINES_MAX);
    expect(textsOf(log).at(0)).toBe('line 1');
    expect(textsOf(log).at(-1)).toBe('newest');
    expect(log.before).toBe('not shown');
  });
});

describe('a search in a log', () => {
  const { lines } = withPages(NO_LOG, [page(0, ['An Error.', 'fine', 'error: (a+b) error'])], TAIL);

  test('finds lines whatever the case, and no pattern in what was typed', () => {
    expect(matchesIn(lines, 'error').map(({ id }) => id)).toEqual([0, 2]);
    expect(matchesIn(lines, '(a+b)').map(({ id }) => id)).toEqual([2]);
    expect(matchesIn(lines, '.*')).toEqual([]);
    expect(matchesIn(lines, '')).toEqual([]);
  });

  test('marks each place in a line, and loses nothing between them', () => {
    const parts = partsOf('error: (a+b) Error!', 'error');

    expect(parts.map(({ text }) => text).join('')).toBe('error: (a+b) Error!');
    expect(parts.filter(({ isMatch }) => isMatch).map(({ text }) => text)).toEqual([
      'error',
      'Error',
    ]);
    expect(partsOf('nothing', 'error')).toEqual([{ text: 'nothing', isMatch: false }]);
    expect(partsOf('', 'error')).toEqual([{ text: '', isMatch: false }]);
  });
});
