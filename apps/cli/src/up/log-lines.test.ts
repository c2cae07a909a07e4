import { describe, expect, test } from 'vitest';
import { alarmOf, lineReader } from './log-lines.ts';

describe('lineReader', () => {
  test('puts lines together from chunks, also where a character is cut in two', () => {
    const lines: string[] = [];
    const read = lineReader((line) => lines.push(line));
    const bytes = Buffer.from('naïve\nsecond\nrest');

    read(bytes.subarray(0, 3));
    read(bytes.subarray(3));

    expect(lines).toEqual(['naïve', 'second']);
  });
});

describe('alarmOf', () => {
  test('is silent about what is no warning', () => {
    expect(alarmOf('{"level":"info","msg":"listens"}', 'stdout')).toBeUndefined();
  });

  test('tells a warning together with its cause', () => {
    const line = '{"level":"warn","msg":"tries again","err":{"message":"connection refused"}}';

    expect(alarmOf(line, 'stdout')).toEqual({
      level: 'warn',
      message: 'tries again: connection refused',
    });
  });

  test('tells what a crashing process writes to its standard error', () => {
    expect(alarmOf('Error: boom', 'stderr')).toEqual({ level: 'error', message: 'Error: boom' });
  });

  test('is silent about plain text on the standard output', () => {
    expect(alarmOf('hello', 'stdout')).toBeUndefined();
  });
});
