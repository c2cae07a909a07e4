import { describe, expect, it } from 'vitest';
import { parseSearch } from './search.ts';
import { fieldText, withField } from './search-text.ts';

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
