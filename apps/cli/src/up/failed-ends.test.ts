import { createControllerClient } from '@leasehold/client';
import { expect, onTestFinished, test } from 'vitest';
import { controllerThatAnswers } from '../testing/in-process.ts';
import { createEndTeller } from './failed-ends.ts';

const END = {
  namespace: 'game',
  name: 'alpha',
  leaseId: 'id-1',
  reason: 'it crashed with exit code 17, 0.4 s after its start',
};

/** A teller, with what it has said, and a clock that a test moves. */
async function openTeller(output: string | null = 'starting\n\u001b[31mno table rooms\n') {
  const { env } = await controllerThatAnswers((path) => {
    if (path.includes('backends.get')) return { output };
    const newer = { backendId: 'bk-2', leaseId: 'id-2', program: 'other' };
    return { items: [newer, { backendId: 'bk-1', leaseId: 'id-1', program: 'web' }] };
  });
  const { LEASEHOLD_URL: url, LEASEHOLD_TOKEN: token } = env;
  const connection = createControllerClient({ url, token, transport: 'http' });
  onTestFinished(() => connection.close());
  const said: string[] = [];
  const clock = { ms: 0 };
  const tell = createEndTeller(
    connection.api,
    { warn: (text) => void said.push(text) },
    () => clock.ms,
  );
  return { tell, said, clock };
}

test('the end of a backend that failed is told with its key, program, exit code and last line', async () => {
  const { tell, said } = await openTeller();

  await tell(END);

  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(
    /^key game\/alpha, program web: it crashed with exit code 17, 0\.4 s after its start\n {4}\S*no table rooms\n {4}`npx leasehold backends logs bk-1` shows all$/u,
  );
  expect(said[0]).not.toContain('\u001b');
});

test.each([
  [
    'an error that Node has shown with its version after it',
    "file:///echo.mjs:3\nthrow new TypeError('no rooms');\n      ^\n\nTypeError: no rooms\n    at file:///echo.mjs:3:7\n\nNode.js v24.1.0\n",
    'TypeError: no rooms',
  ],
  [
    'the last line of a trace of Python',
    'Traceback (most recent call last):\n  File "a.py"\nValueError: no rooms\n',
    'ValueError: no rooms',
  ],
  ['the version alone, if no error is there', 'Node.js v24.1.0\n', 'Node.js v24.1.0'],
])('of its output is shown %s', async (_what, output, line) => {
  const { tell, said } = await openTeller(output);

  await tell(END);

  expect(said[0]).toContain(`after its start\n    ${line}\n`);
});

test('one that has written nothing is told too', async () => {
  const { tell, said } = await openTeller(null);

  await tell(END);

  expect(said).toEqual([`key game/alpha, program web: ${END.reason}`]);
});

test('of many ends some are told, and the others are counted with the next one', async () => {
  const { tell, said, clock } = await openTeller();
  for (let ends = 0; ends < 8; ends += 1) await tell(END);
  expect(said).toHaveLength(5);

  clock.ms = 10_000;
  await tell(END);

  expect(said[5]).toContain('(before it failed: 3)');
});
