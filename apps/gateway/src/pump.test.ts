import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { expect, test, vi } from 'vitest';
import { pump, TURN_BYTES } from './pump.ts';

const PIECE_BYTES = 65_536;
const SOURCES = 16;
const PIECES = 64;

/** A body whose pieces are all there. */
function bodyOf(pieces: number): Readable {
  return Readable.from(Array.from({ length: pieces }, () => Buffer.alloc(PIECE_BYTES)));
}

/** Takes each piece at once, and asks for a pause after each, or after none. */
function takeAll(onPiece: (bytes: number) => void, highWaterMark = 1): Writable {
  return new Writable({
    highWaterMark,
    write(piece: Buffer, _encoding, done) {
      onPiece(piece.length);
      done();
    },
  });
}

test.each([
  ['whose receivers ask for pauses', 1],
  ['whose receivers have place for all', 1_024 ** 3],
])('of many large bodies %s one turn passes a certain amount, and all go on', async (_of, mark) => {
  let ofTurn = 0;
  const turns: number[] = [];
  const isOver = new AbortController();
  const look = (): void => {
    if (ofTurn > 0) turns.push(ofTurn);
    ofTurn = 0;
    if (!isOver.signal.aborted) setImmediate(look);
  };
  setImmediate(look);
  const got = Array.from({ length: SOURCES }, () => 0);
  const sinks = got.map((_zero, nth) => {
    const sink = takeAll((bytes) => {
      ofTurn += bytes;
      got[nth] = (got[nth] ?? 0) + bytes;
    }, mark);
    pump(bodyOf(PIECES), sink, () => true);
    return sink;
  });
  await Promise.all(sinks.map((sink) => once(sink, 'finish')));
  isOver.abort();

  expect(got).toEqual(got.map(() => PIECES * PIECE_BYTES));
  // Turns are counted here between two of its own, so that one here has parts of two.
  expect(Math.max(...turns)).toBeLessThanOrEqual(2 * TURN_BYTES + SOURCES * PIECE_BYTES);
});

test('a piece that may not be passed is not', async () => {
  const passed: number[] = [];
  const sink = takeAll((bytes) => passed.push(bytes));
  let left = 2;
  pump(bodyOf(4), sink, () => (left -= 1) >= 0);
  await once(sink, 'finish');
  expect(passed).toEqual([PIECE_BYTES, PIECE_BYTES]);
});

test('the last piece of a body whose length is known is written together with the end', async () => {
  const sink = takeAll(() => undefined);
  const end = vi.spyOn(sink, 'end');
  const write = vi.spyOn(sink, 'write');
  pump(bodyOf(2), sink, () => true, 2 * PIECE_BYTES);
  await once(sink, 'finish');
  expect(write).toHaveBeenCalledOnce();
  expect(end.mock.calls.map(([piece]) => Buffer.isBuffer(piece))).toEqual([true]);
});
