import { expect, test } from 'vitest';
import { textProblem } from './text.ts';

test.each(['a\nb', 'a\r\nb', 'a\n'])('a text of one line that has more is told so: %j', (text) => {
  expect(textProblem(text, { bytesMax: 100 })).toBe('must be one line, without line breaks');
});

test.each(['a\tb', 'a\0b', '\u001b[0m'])(
  'other control characters are named as such: %j',
  (text) => {
    expect(textProblem(text, { bytesMax: 100 })).toBe('must not contain control characters');
  },
);

test.each([undefined, null, 5, {}, ['a']])('what is no string is told so: %j', (value) => {
  expect(textProblem(value as string, { bytesMax: 100 })).toBe('must be a string');
});
