import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing/chance';
import {
  datacenterOf,
  isReservationId,
  keyNameOf,
  parseReservationKey,
  reservationIdOf,
  reservationKeyOf,
  reservationKeyProblem,
  reservationKeyText,
} from './reservation.ts';

const UNIQUE = '0a1b2c3d-0000-4000-8000-0123456789ab';

describe('reservation keys', () => {
  const lists = fc.array(fc.string({ unit: 'grapheme', maxLength: 8 }), { maxLength: 4 });

  test('two lists have the same text only if they are equal, and each is read back unchanged', () => {
    fc.assert(
      fc.property(lists, lists, (one, other) => {
        const isSame = JSON.stringify(one) === JSON.stringify(other);
        expect(reservationKeyText(one) === reservationKeyText(other)).toBe(isSame);
        expect(parseReservationKey(reservationKeyText(one))).toEqual(one);
      }),
      { seed: seed() },
    );
  });

  test.each([
    [['a'], undefined],
    [['', 'a'], undefined],
    [['x'.repeat(1_024)], undefined],
    [['é'.repeat(512)], undefined],
    [Array.from({ length: 32 }, () => 'x'), undefined],
    [[], 'must have at least one element'],
    [[''], 'must not be empty'],
    [['', ''], 'must not be empty'],
    [['x'.repeat(1_025)], 'has an element that must be at most 1024 bytes of UTF-8, and is 1025'],
    [
      ['x'.repeat(1_000), 'x'.repeat(25)],
      'must be at most 1024 bytes of UTF-8 in all, and is 1025',
    ],
    [Array.from({ length: 33 }, () => 'x'), 'must have at most 32 elements'],
    [['a\0b'], 'has an element that must not contain control characters'],
    [['\ud800'], 'has an element that must be well-formed Unicode, without lone surrogates'],
  ])('%j: %s', (key, problem) => {
    expect(reservationKeyProblem(key)).toBe(problem);
  });

  test('the reservation key of a key is its namespace and its name, and no other list is one', () => {
    const named = { namespace: 'tenant.a', name: 'room/1' };

    expect(keyNameOf(reservationKeyOf(named))).toEqual(named);
    for (const other of [['a'], ['a', 'b', 'c'], ['a..b', 'c'], ['a', '']]) {
      expect(keyNameOf(other)).toBeUndefined();
    }
  });
});

describe('reservation ids', () => {
  test('name their datacenter, whose name contains no dot', () => {
    const id = reservationIdOf('eu-west-1', UNIQUE);

    expect(isReservationId(id)).toBe(true);
    expect(datacenterOf(id)).toBe('eu-west-1');
  });

  test.each(['', 'dc1', `dc1.`, `dc1.x`, `.${UNIQUE}`, `d.c.${UNIQUE}`, `DC.${UNIQUE}`, UNIQUE])(
    '%j is not a reservation id',
    (text) => {
      expect(isReservationId(text)).toBe(false);
    },
  );
});
