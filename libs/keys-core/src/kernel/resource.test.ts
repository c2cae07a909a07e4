import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing/chance';
import { LeaseError } from './errors.ts';
import { compareFencingTokens, isFencingToken } from './lease.ts';
import {
  assertResource,
  isWithinNamespace,
  joinNamespace,
  nameProblem,
  namespaceProblem,
  resourceKey,
} from './resource.ts';
import { jsonProblem, textProblem, utf8Bytes } from './text.ts';

describe('C10 names', () => {
  test.each([
    ['empty', '', 'must not be empty'],
    ['a byte too long', 'x'.repeat(256), 'must be at most 255 bytes'],
    ['too long in UTF-8 though short in characters', 'é'.repeat(128), 'must be at most 255 bytes'],
    ['NUL', 'a\0b', 'control characters'],
    ['a line feed', 'a\nb', 'one line'],
    ['a C1 control', 'a\u0085b', 'control characters'],
    ['a lone surrogate', 'a\ud800b', 'well-formed'],
  ])('refuses a name that is %s', (_, name, problem) => {
    expect(nameProblem(name)).toContain(problem);
  });

  test.each([
    ['the longest', 'x'.repeat(255)],
    ['like a path', '../../etc/passwd'],
    ['like an absolute path', '/etc/passwd'],
    ['with a dot', 'a.b'],
    ['with spaces', ' a b '],
    ['from every plane', 'aéह漢𝔸🂡\u{e0100}\u{f0000}\u{10fffd}'],
    ['not normalized', 'e\u0301'],
  ])('accepts a name that is %s', (_, name) => {
    expect(nameProblem(name)).toBeUndefined();
  });

  test('any well-formed printable text of 1 to 255 bytes is a name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }), (name) => {
        const isPrintable = !/\p{Cc}/u.test(name);
        fc.pre(utf8Bytes(name) <= 255);

        expect(nameProblem(name) === undefined).toBe(isPrintable);
      }),
      { seed: seed() },
    );
  });
});

describe('C10 namespaces', () => {
  test('["a.b"] is refused rather than confused with ["a","b"]', () => {
    expect(joinNamespace(['a', 'b'])).toBe('a.b');
    expect(() => joinNamespace(['a.b'])).toThrow(LeaseError);
    expect(() => joinNamespace(['a', ''])).toThrow('must not be empty or contain "."');
  });

  test('the root is the empty list', () => {
    expect(joinNamespace([])).toBe('');
    expect(namespaceProblem('')).toBeUndefined();
  });

  test.each([
    ['an empty segment', 'a..b', 'empty segment'],
    ['too many segments', Array.from({ length: 17 }, () => 'a').join('.'), 'at most 16 segments'],
    ['too many bytes', 'x'.repeat(513), 'at most 512 bytes'],
    ['a control character', 'a\tb', 'control characters'],
  ])('refuses %s', (_, namespace, problem) => {
    expect(namespaceProblem(namespace)).toContain(problem);
    expect(() => {
      assertResource({ face: 'key', namespace, name: 'n' });
    }).toThrow(problem);
  });

  test('user2 is not a child of user', () => {
    expect(isWithinNamespace('user2', 'user')).toBe(false);
    expect(isWithinNamespace('user.a', 'user')).toBe(true);
    expect(isWithinNamespace('user', 'user')).toBe(true);
    expect(isWithinNamespace('anything', '')).toBe(true);
  });

  test('no two resources share a map key', () => {
    const a = resourceKey({ face: 'key', namespace: 'a', name: 'b' });

    expect(a).not.toBe(resourceKey({ face: 'lease', namespace: 'a', name: 'b' }));
    expect(a).not.toBe(resourceKey({ face: 'key', namespace: '', name: 'a\0b' }));
  });
});

describe('text and JSON', () => {
  test('C54 a value that would fail its whole batch is found before it enters one', () => {
    const bounds = { bytesMax: 8_192, depthMax: 16 };
    const deep: unknown = JSON.parse('['.repeat(20) + ']'.repeat(20));

    expect(jsonProblem({ a: '\0' }, bounds)).toContain('NUL');
    expect(jsonProblem({ '\ud800': 1 }, bounds)).toContain('well-formed');
    expect(jsonProblem(deep, bounds)).toContain('nested');
    expect(jsonProblem({ a: 'x'.repeat(9_000) }, bounds)).toContain('at most 8192 bytes');
    expect(jsonProblem({ a: [1, null, { b: 'ok' }] }, bounds)).toBeUndefined();
  });

  test.each([
    ['numbers', 1],
    ['lists', []],
    ['texts', 'text'],
    ['objects', { a: 1 }],
  ])('looks at no more of a list of %s than fits', (_kind, item) => {
    let read = 0;
    const list = new Proxy(Array<unknown>(1_000_000).fill(item), {
      get: (of, name) => {
        read += 1;
        return Reflect.get(of, name) as unknown;
      },
    });

    expect(jsonProblem({ list }, { bytesMax: 1_000, depthMax: 8 })).toContain('at most 1000 bytes');

    expect(read).toBeLessThan(3_000);
  });

  test('names the minimum size if it is more than one byte', () => {
    expect(textProblem('ab', { bytesMin: 3, bytesMax: 9 })).toBe('must be at least 3 bytes');
  });

  test('only a text of several lines may hold line breaks, and none may hold NUL', () => {
    expect(textProblem('a\nb', { bytesMax: 9 })).toBe('must be one line, without line breaks');
    expect(textProblem('a\0b', { bytesMax: 9 })).toBe('must not contain control characters');
    expect(textProblem('a\nb', { bytesMax: 9, isControlAllowed: true })).toBeUndefined();
    expect(textProblem('a\0b', { bytesMax: 9, isControlAllowed: true })).toContain('NUL');
  });
});

describe('fencing tokens', () => {
  test.each(['0', '1', '9223372036854775807'])('%s is a token', (text) => {
    expect(isFencingToken(text)).toBe(true);
  });

  test.each(['', '-1', '01', '1.5', '9223372036854775808', '1e3', ' 1'])(
    '%s is not a token',
    (text) => {
      expect(isFencingToken(text)).toBe(false);
    },
  );

  test('compare as numbers, not as text', () => {
    expect(compareFencingTokens('9', '10')).toBe(-1);
    expect(compareFencingTokens('10', '9')).toBe(1);
    expect(compareFencingTokens('7', '7')).toBe(0);
  });
});
