import { describe, expect, test } from 'vitest';
import { errorText } from './errors.ts';
import { LIMITS } from './limits.ts';
import { textProblem } from './text.ts';

function failing(): never {
  throw new Error('not to be read');
}

const THROWN: readonly [string, unknown][] = [
  ['an object without a prototype', Object.create(null)],
  ['a message with NUL', new Error('a\0b')],
  ['a message that is no string', Object.assign(new Error(), { message: 5 })],
  [
    'a message without a text',
    Object.assign(new Error(), { message: Object.create(null) as string }),
  ],
  ['a getter that throws', Object.defineProperty(new Error(), 'message', { get: failing })],
  ['a proxy that throws', new Proxy({}, { get: failing, getPrototypeOf: failing })],
  ['a revoked proxy', revokedProxy()],
  ['an object that has no text', { toString: failing }],
  ['a symbol', Symbol('thrown')],
  ['undefined', undefined],
  ['null', null],
  ['a big integer', 5n],
  ['a function', failing],
  ['lone surrogates', new Error('\uD800'.repeat(2_000))],
  ['a huge message', new Error('é'.repeat(5_000_000))],
  ['a huge message of pairs', 'x😀'.repeat(1_000)],
];

function revokedProxy(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe('the text of what was thrown', () => {
  test.each(THROWN)('can be stored, of %s', (_what, thrown) => {
    const text = errorText(thrown);

    expect(
      textProblem(text, { bytesMax: LIMITS.reasonBytesMax, isControlAllowed: true }),
    ).toBeUndefined();
  });

  test('is the message, with its line breaks', () => {
    expect(errorText(new Error('one\ntwo'))).toBe('one\ntwo');
  });
});
