import { describe, expect, test } from 'vitest';
import { alarmOf, lineReader } from './log-lines.ts';

describe('lineReader', () => {
  test('joins chunks into lines, even where a character is split between two', () => {
    const lines: string[] = [];
    const read = lineReader((line) => lines.push(line));
    const bytes = Buffer.from('naïve\nsecond\nrest');

    read(bytes.subarray(0, 3));
    read(bytes.subarray(3));

    expect(lines).toEqual(['naïve', 'second']);
  });
});

describe('alarmOf', () => {
  test('ignores a line that is not a warning', () => {
    expect(alarmOf('{"level":"info","msg":"listens"}', 'stdout')).toBeUndefined();
  });

  test('reports a warning together with its cause', () => {
    const line = '{"level":"warn","msg":"tries again","err":{"message":"connection refused"}}';

    expect(alarmOf(line, 'stdout')).toEqual({
      level: 'warn',
      message: 'tries again: connection refused',
    });
  });

  test('reports what a crashing process writes to its standard error', () => {
    expect(alarmOf('Error: boom', 'stderr')).toEqual({ level: 'error', message: 'Error: boom' });
  });

  test('ignores plain text on the standard output', () => {
    expect(alarmOf('hello', 'stdout')).toBeUndefined();
  });
});

test('control characters that an alarm quotes do not act on the terminal', () => {
  const sent = 'a\u001b[2J\nb\u009b31m';
  const line = JSON.stringify({ level: 'warn', msg: sent, err: { message: sent } });

  for (const alarm of [alarmOf(line, 'stdout'), alarmOf('a\u001b[2J', 'stderr')]) {
    expect(alarm?.message).not.toMatch(/\p{Cc}/u);
  }
});
