import { describe, expect, test } from 'vitest';
import { reservationKeyOf, reservationKeyText } from './reservation-key.ts';

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
