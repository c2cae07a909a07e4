import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { pump, TURN_BYTES } from './pump.ts';

const PIECE_BYTES = 65_536;
const SOURCES = 16;
const PIECES = 64;

/** A body whose pieces are all there. */
function bodyOf(pieces: number): Readable {
  return Readable.from(Array.from({ length: pieces }, () => Buffer.alloc(PIECE_BYTES)));
}

/** Takes each piece at once, as a system does that has place for all of it. */
function takeAll(onPiece: (bytes: number) => void): Writable {
  return new Writable({
    highWaterMark: 1,
    write(piece: Buffer, _encoding, done) {
      onPiece(piece.length);
      done();
    },
  });
}

test('of many large bodies one turn passes a certain amount, and all of them go on', async () => {
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
    });
    pump(bodyOf(PIECES), sink, () => true);
    return sink;
  });
  await Promise.all(sinks.map((sink) => once(sink, 'finish')));
  isOver.abort();

  expect(got).toEqual(got.map(() => PIECES * PIECE_BYTES));
  expect(Math.max(...turns)).toBeLessThanOrEqual(TURN_BYTES + SOURCES * PIECE_BYTES);
});

test('a piece that may not be passed is not', async () => {
  const passed: number[] = [];
  const sink = takeAll((bytes) => passed.push(bytes));
  let left = 2;
  pump(bodyOf(4), sink, () => (left -= 1) >= 0);
  await once(sink, 'finish');
  expect(passed).toEqual([PIECE_BYTES, PIECE_BYTES]);
});
