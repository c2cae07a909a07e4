import { describe, expect, test } from 'vitest';
import { watchEarlyFrames } from './socket-routes.ts';

const FINAL = 0x80;
const TEXT = 1;
const MASKED = 0x80;

/** A frame as a client sends it. */
function frame(first: number, payloadBytes: number): Buffer {
  const head =
    payloadBytes < 126
      ? [first, MASKED | payloadBytes]
      : [first, MASKED | 126, payloadBytes >> 8, payloadBytes & 0xff];
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), Buffer.alloc(payloadBytes, 'x')]);
}

const whole = (payloadBytes: number): Buffer => frame(FINAL | TEXT, payloadBytes);
const open = () => watchEarlyFrames({ first: 4_096, all: 100_000 });

describe('before the caller of a WebSocket is known', () => {
  test.each([
    ['a token and its calls', [whole(100), whole(10_000), whole(10)]],
    ['a ping before the token', [frame(FINAL | 9, 4), whole(100)]],
  ])('%s pass, in whatever pieces they arrive', (_what, frames) => {
    const bytes = Buffer.concat(frames);
    const inBytes = open();

    expect(open()(bytes)).toBeUndefined();
    for (const byte of bytes) expect(inBytes(Buffer.from([byte]))).toBeUndefined();
  });

  test.each([
    ['the first part of a message', frame(TEXT, 1)],
    ['a later part', frame(0, 1)],
    ['the last part', frame(FINAL, 1)],
    ['a compressed message', frame(FINAL | 0x40 | TEXT, 10)],
    ['a binary message', frame(FINAL | 2, 10)],
    ['a part of a ping', frame(9, 1)],
  ])('%s ends the connection, at once or behind a token', (_what, bytes) => {
    expect(open()(bytes)).toBe('not whole');
    expect(open()(Buffer.concat([whole(100), bytes]))).toBe('not whole');
  });

  test('a first message of more than 4 KiB ends it by its header', () => {
    expect(open()(whole(5_000).subarray(0, 8))).toBe('too large');
  });

  test('a hundred thousand empty messages end it', () => {
    const frames = open();
    const answers = Array.from({ length: 2_000 }, () => frames(whole(0)));

    expect(answers).toContain('too large');
  });

  test('more than clients send together ends it', () => {
    const frames = open();
    frames(whole(100));

    expect([frames(whole(60_000)), frames(whole(60_000))]).toEqual([undefined, 'too large']);
  });
});
