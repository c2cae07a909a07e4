import { describe, expect, test } from 'vitest';
import { EXIT_CODES } from './failures.ts';
import { parseScope, reservationKeyOf, reservationKeyText, scopeText } from './scope.ts';

describe('parseScope', () => {
  test.each([
    ['user.update/42', { namespace: 'user.update', name: '42' }],
    ['jobs/reports/2030/01', { namespace: 'jobs', name: 'reports/2030/01' }],
    ['prod', { namespace: '', name: 'prod' }],
    ['v1.2', { namespace: '', name: 'v1.2' }],
    ['/etc/passwd', { namespace: '', name: 'etc/passwd' }],
    ['a/ b', { namespace: 'a', name: ' b' }],
    ['user.a%2Fb/k', { namespace: 'user.a/b', name: 'k' }],
  ])('%s is a namespace up to the first slash, and a key', (text, scope) => {
    expect(parseScope(text)).toEqual(scope);
  });

  test('with a separate namespace, the whole text is the key', () => {
    expect(parseScope('a/b', 'x/y')).toEqual({ namespace: 'x/y', name: 'a/b' });
  });

  test.each(['', 'a/', 'a..b/c', '.a/c', 'a\nb', `${'n'.repeat(513)}/a`, 'k'.repeat(256)])(
    'a text that cannot be a scope is wrong usage: %j',
    (text) => {
      expect(() => parseScope(text)).toThrow(
        expect.objectContaining({ code: 'cli.usage', exitCode: EXIT_CODES.usage }) as Error,
      );
    },
  );
});

describe('scopeText', () => {
  test.each(['user.update/42', 'prod', '/etc/passwd', 'a/b/c', 'a%2Fb/c'])(
    '%s is shown the way it is typed',
    (text) => {
      expect(scopeText(parseScope(text))).toBe(text);
    },
  );

  test('shows characters that would move the cursor as escapes', () => {
    expect(scopeText({ namespace: 'a', name: 'b\u{202e}c' })).toBe('a/b\\u{202e}c');
  });
});

describe('the key of a reservation', () => {
  test('is given as a name and a namespace, or as any list', () => {
    expect(reservationKeyOf('room', { namespace: '' })).toEqual(['', 'room']);
    expect(reservationKeyOf('a/b', { namespace: 'games' })).toEqual(['games', 'a/b']);
    expect(reservationKeyOf(undefined, { namespace: '', jsonKey: '["a","b","c"]' })).toEqual([
      'a',
      'b',
      'c',
    ]);
  });

  test.each([
    [undefined, { namespace: '' }],
    ['room', { namespace: '', jsonKey: '["a"]' }],
    [undefined, { namespace: 'games', jsonKey: '["a"]' }],
    [undefined, { namespace: '', jsonKey: '[]' }],
    [undefined, { namespace: '', jsonKey: '["a",1]' }],
    [undefined, { namespace: '', jsonKey: 'a' }],
    ['room', { namespace: 'no..such' }],
    ['', { namespace: '' }],
  ])('%s with %o is wrong usage', (name, options) => {
    expect(() => reservationKeyOf(name, options)).toThrow(
      expect.objectContaining({ code: 'cli.usage' }),
    );
  });

  test('is shown as a name if it has one, and never like another key', () => {
    expect(reservationKeyText(['games', 'room'])).toBe('games/room');
    expect(reservationKeyText(['', 'a/b'])).toBe('/a/b');
    expect(reservationKeyText(['a', 'b', 'c'])).toBe('["a","b","c"]');
    expect(reservationKeyText(['alone'])).toBe('["alone"]');
  });
});
