import { describe, expect, test } from 'vitest';
import { LIMITS } from '../../kernel/limits.ts';
import {
  comparePositions,
  laterPlace,
  readStamp,
  writeStamp,
  type WitnessStamp,
} from './witness-stamp.ts';

const SECRET = 'a secret that is in the database';
const STAMP: WitnessStamp = {
  witnessId: '11111111-2222-4333-8444-555555555555',
  beat: 4_711,
  at: 1_795_214_150_823,
  run: '1795214150823000',
  position: '1F/A0B0C0',
  epoch: 29_920_235,
  epochToken: '99999999-2222-4333-8444-555555555555',
  fencingToken: '9223372036854775807',
};

describe('a stamp', () => {
  test('is short, and is read back as it was written', () => {
    const line = writeStamp({ ...STAMP, at: STAMP.at + 0.75 }, SECRET);

    expect(readStamp(line, SECRET)).toEqual(STAMP);
    expect(line.length).toBeLessThan(LIMITS.witnessBytesMax / 2);
  });

  test('H-restore is rejected when it was made with another secret, changed, cut short, or is not a stamp', () => {
    const line = writeStamp(STAMP, SECRET);
    const later = line.replace('.4711.', '.4712.');
    const unsigned = line.slice(0, line.lastIndexOf('.'));
    const wrong = ['', '.', 'nonsense', unsigned, `${unsigned}.`, later, line.slice(1), `${line}x`];

    for (const one of [...wrong, 'x'.repeat(10_000)]) {
      expect(readStamp(one, SECRET)).toBeUndefined();
    }
    expect(readStamp(line, 'another secret')).toBeUndefined();
  });
});

test('positions of the log are compared as numbers', () => {
  expect(comparePositions('0/FFFFFFFF', '1/0')).toBe(-1);
  expect(comparePositions('A/10', '9/FF')).toBe(1);
  expect(comparePositions('0/10', '0/10')).toBe(0);
});

test('the later of two log positions counts, and in another run of the server the one seen last', () => {
  const [early, late, restored] = [
    { run: '9', position: '0/9' },
    { run: '9', position: '0/10' },
    { run: '8', position: '0/1' },
  ];

  expect(laterPlace(early, late)).toBe(late);
  expect(laterPlace(late, early)).toBe(late);
  expect(laterPlace(late, restored)).toBe(restored);
});
