import { describe, expect, test } from 'vitest';
import type { TestProcess } from '@leasehold/testing';
import { holdsOf, overlapsOf } from './holds.ts';

/** A process whose output is these words. */
function sayer(...words: readonly object[]): TestProcess {
  const text = words.map((word) => `${JSON.stringify(word)}\n`).join('');
  return { log: () => `(node:1) a warning\n${text}{"kind":"hel` } as TestProcess;
}

function grant(key: string, token: string): object {
  return { key, leaseId: `${key}-${token}`, token };
}

function held(key: string, token: string, atMs: number): object {
  return { kind: 'held', ...grant(key, token), atMs };
}

function ended(kind: 'letting_go' | 'lost', key: string, token: string, atMs: number): object {
  return { kind, ...grant(key, token), atMs };
}

describe('the judge of holds', () => {
  test('accepts holds that follow each other, and judges keys apart', () => {
    const first = sayer(held('a', '9', 10), ended('letting_go', 'a', '9', 20), held('b', '11', 15));
    const second = sayer(held('a', '10', 21), ended('lost', 'a', '10', 30));

    const holds = holdsOf([second, first]);

    expect(holds.map(({ token, untilMs }) => [token, untilMs])).toEqual([
      ['9', 20],
      ['10', 30],
      ['11', Infinity],
    ]);
    expect(overlapsOf(holds)).toEqual([]);
  });

  test('finds a hold that begins before the previous one has ended, or beside one that never ends', () => {
    const early = sayer(held('a', '1', 10), ended('letting_go', 'a', '1', 20), held('a', '2', 15));
    const beside = sayer(held('b', '1', 10), held('b', '2', 30));

    expect(overlapsOf(holdsOf([early]))).toEqual(['a: 2 after 1 began 5 ms too early']);
    expect(overlapsOf(holdsOf([beside]))).toHaveLength(1);
  });

  test('takes a loss, not a later release, for the end of a hold', () => {
    const words = [
      held('a', '1', 10),
      ended('lost', 'a', '1', 20),
      ended('letting_go', 'a', '1', 40),
    ];

    expect(holdsOf([sayer(...words)])).toMatchObject([{ untilMs: 20 }]);
  });

  test('finds a smaller token that was granted later, and one that was handed out twice', () => {
    const smaller = sayer(
      held('a', '9', 10),
      ended('letting_go', 'a', '9', 20),
      held('a', '8', 30),
      ended('letting_go', 'a', '8', 40),
    );
    const twice = sayer(held('b', '1', 10), ended('letting_go', 'b', '1', 20), held('b', '1', 30));

    expect(overlapsOf(holdsOf([smaller]))).toHaveLength(1);
    expect(overlapsOf(holdsOf([twice]))).toEqual(['b: 1 after 1 was handed out twice']);
  });
});
