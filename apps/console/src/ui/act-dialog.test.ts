import { describe, expect, it } from 'vitest';
import { isTypedRight, typedMismatch } from './act-dialog.tsx';

describe('a typed confirmation', () => {
  it.each([
    ['boards.eu/q4', 'boards.eu/q4'],
    [' boards.eu/q4 ', 'boards.eu/q4'],
    ['pay\u200broll', 'pay\u200broll'],
    ['pay\\u{200b}roll', 'pay\u200broll'],
  ])('%j matches %j', (typed, wanted) => {
    expect(isTypedRight(typed, wanted)).toBe(true);
    expect(typedMismatch(typed, wanted)).toBeUndefined();
  });

  it('is not judged before anything was typed', () => {
    expect(typedMismatch('', 'q4')).toBeUndefined();
    expect(isTypedRight('', 'q4')).toBe(false);
  });

  it.each([
    ['boards.e', 'boards.eu/q4', 'Not complete: 4 more characters to type.'],
    ['q4', 'boards.eu/q4', 'The namespace is missing: type the whole of it.'],
    ['q4-old', 'q4', 'Too long: “-old” is not part of it.'],
    ['Q4', 'q4', 'Upper and lower case differ at character 1: “Q” should be “q”.'],
    ['boards.us/q4', 'boards.eu/q4', 'It differs at character 8: “u” should be “e”.'],
    [
      'cafe\u0301',
      'caf\u00e9',
      'It looks the same, but its accents are encoded in another way: copy it from above.',
    ],
    ['payroll', 'pay\u200broll', 'It differs at character 4: “r” should be “\\”.'],
    ['2', '12', 'That is not 12.'],
  ])('%j for %j says why it does not match', (typed, wanted, why) => {
    expect(typedMismatch(typed, wanted)).toBe(why);
  });
});
