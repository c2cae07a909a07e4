import { describe, expect, it, test } from 'vitest';
import { fieldText, parseSearch, withField } from './search.ts';

const KNOWN = ['holder', 'phase', 'tag', 'drone'];

describe('parseSearch', () => {
  test.each([
    ['', {}, {}],
    ['room-', { contains: 'room-' }, {}],
    ['"room-1"', { name: 'room-1' }, {}],
    ['=room-1', { name: 'room-1' }, {}],
    ['phase:held room', { contains: 'room' }, { phase: 'held' }],
    ['tag:"two words" holder:d1', {}, { tag: 'two words', holder: 'd1' }],
    ['HOLDER:d1', {}, { holder: 'd1' }],
  ])('reads %j', (text, names, fields) => {
    expect(parseSearch(text, KNOWN)).toEqual({ ...names, fields, problems: [] });
  });

  test('takes a name that merely looks like a field for a name', () => {
    expect(parseSearch('user:42', KNOWN)).toEqual({
      contains: 'user:42',
      fields: {},
      problems: [],
    });
  });

  test('says what it does not understand, and keeps the rest', () => {
    const search = parseSearch('a b phase:held', KNOWN);

    expect(search.contains).toBe('a');
    expect(search.fields).toEqual({ phase: 'held' });
    expect(search.problems).toEqual(['one name at a time: "b" is too many']);
  });
});

describe('withField', () => {
  it('sets, replaces and removes one field, and leaves the rest of the search', () => {
    expect(withField('room-', 'phase', 'held')).toBe('room- phase:held');
    expect(withField('phase:held room- drone:d1', 'phase', 'free')).toBe(
      'room- drone:d1 phase:free',
    );
    expect(withField('room- holder:"two words" phase:held', 'holder', null)).toBe(
      'room- phase:held',
    );
  });

  it('writes text that the search reads back', () => {
    const text = withField('', 'holder', 'two words');
    expect(parseSearch(text, ['holder']).fields).toEqual({ holder: 'two words' });
    expect(fieldText('tag', 'v1')).toBe('tag:v1');
  });
});
