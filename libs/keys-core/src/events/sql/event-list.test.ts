import { describe, expect, test } from 'vitest';
import { LeaseError } from '../../kernel/errors.ts';
import { eventCursor, parseEventPlace } from './event-list.ts';

describe('event cursors', () => {
  test('are read as they were written', () => {
    expect(parseEventPlace(eventCursor(3, 17n))).toEqual({ at: 'after', epoch: 3, id: 17n });
  });

  test.each(['oldest', '0'])('%s is before every event that is kept', (text) => {
    expect(parseEventPlace(text)).toEqual({ at: 'oldest' });
  });

  test('a bare number is of the present database epoch', () => {
    expect(parseEventPlace('17')).toEqual({ at: 'after', epoch: null, id: 17n });
  });

  test.each(['', '1.', '.1', '1.2.3', '-1', '1.-2', 'newest', '1e3', '9223372036854775808', ' 1'])(
    '%j is refused',
    (text) => {
      expect(() => parseEventPlace(text)).toThrow(LeaseError);
    },
  );
});
