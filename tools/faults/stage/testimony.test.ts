import { describe, expect, test } from 'vitest';
import { livesOf, overlapsOf, type TestimonyLine } from './testimony.ts';

function line(backend: string, token: string, atMs: number): TestimonyLine {
  return { kind: 'beat', key: 'k', token, backend, pid: '1', atMs };
}

describe('the judge of what backends wrote', () => {
  test('finds nothing where one life begins after another has ended, with a greater token', () => {
    const lives = livesOf([line('a', '1', 10), line('a', '1', 20), line('b', '2', 21)], 'k');

    expect(lives.map((life) => life.backend)).toEqual(['a', 'b']);
    expect(overlapsOf(lives)).toEqual([]);
  });

  test('finds a word of the older backend after the first word of the newer one', () => {
    const lives = livesOf([line('a', '1', 10), line('b', '2', 20), line('a', '1', 30)], 'k');

    expect(overlapsOf(lives)).toEqual(['a wrote 10 ms after b had begun']);
  });

  test('finds a token that did not grow', () => {
    const lives = livesOf([line('a', '9', 10), line('b', '9', 20), line('c', '10', 30)], 'k');

    expect(overlapsOf(lives)).toEqual(['b has token 9 after 9']);
  });

  test('does not mix up two keys', () => {
    const lives = livesOf([line('a', '1', 10), { ...line('b', '1', 10), key: 'other' }], 'k');

    expect(lives).toHaveLength(1);
  });
});
