import { describe, expect, test } from 'vitest';
import { printableText } from './resource.ts';

describe('printableText', () => {
  test.each(['rooms/é-漢字-🙂 1', '👩🏽‍💻 ❤️', 'שלום', 'a\\b', '%2F'])('leaves %j alone', (text) => {
    expect(printableText(text)).toBe(text);
  });

  test.each([
    ['a right-to-left override', 'a\u202eb', 'a\\u{202e}b'],
    ['a zero width space', 'pay\u200broll', 'pay\\u{200b}roll'],
    ['a joiner outside of an emoji', 'pay\u200droll', 'pay\\u{200d}roll'],
    ['a soft hyphen', 'pay\u00adroll', 'pay\\u{ad}roll'],
    ['a filler that is a letter', 'pay\u3164roll', 'pay\\u{3164}roll'],
    ['a selector that changes nothing', 'pay\ufe0froll', 'pay\\u{fe0f}roll'],
    ['a space of another kind', 'pay\u00a0roll', 'pay\\u{a0}roll'],
    ['a control character', '\u001b[2Jx\n', '\\u{1b}[2Jx\\u{a}'],
    ['a character beyond the first plane', 'x\u{e0041}', 'x\\u{e0041}'],
    ['what reads as an escape already', 'a\\u{202e}b', 'a\\u{5c}u{202e}b'],
  ])('shows %s', (_what, text, shown) => {
    expect(printableText(text)).toBe(shown);
  });
});
