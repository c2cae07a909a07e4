import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readSecret } from './processes.ts';

test.each([
  ['a line is the answer', 'abc\r', 'abc'],
  ['Ctrl-D is an empty answer', '\u0004', ''],
  ['Ctrl-C is no answer', '\u0003', 'interrupted'],
])('%s', async (_what, typed, expected) => {
  const terminal = new PassThrough();
  const said: string[] = [];
  void readSecret(terminal, () => said.push('interrupted')).then((answer) => said.push(answer));

  terminal.write(typed);
  await setImmediate();

  expect(said).toEqual([expected]);
});
